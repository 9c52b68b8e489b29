"""The base of what goes wrong outside the program's own logic, and how foreign words stand in its messages."""

LINES = "\n\t"  # signs that a text of several lines keeps


class SpicejaxError(RuntimeError):
    """Something that the user can mend; its text is one line that says what and how."""


class Missing(FileNotFoundError):
    """Several things that are not there, a line each; every other error is one line, whatever it quotes."""


def plain(text: str, keep: str = "") -> str:
    """The text without signs that a terminal would obey or hide, but for those to `keep`; a space for each."""
    return "".join(sign if sign.isprintable() or sign in keep else " " for sign in text)
