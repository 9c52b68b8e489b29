"""The base of what goes wrong outside the program's own logic."""


class SpicejaxError(RuntimeError):
    """Something that the user can mend; its text is one line that says what and how."""
