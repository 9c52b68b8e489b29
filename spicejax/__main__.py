"""The console command `spicejax`, and `python -m spicejax`."""

from __future__ import annotations

import sys

from spicejax import commands, memory


def main(name: str = "") -> int:
    """Run the command that the command line names, or that of a script of launch/; return the exit code."""
    memory.tune()
    words = [name] * bool(name) + sys.argv[1:]
    return commands.run(*words[:1], words=words[1:])


if __name__ == "__main__":
    sys.exit(main())
