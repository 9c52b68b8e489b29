"""What people type: `spicejax NAME ...`, one module each. The scripts of launch/ are the same commands."""

from __future__ import annotations

import argparse
import difflib
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from spicejax.errors import SpicejaxError

COMMANDS = {
    "train": "train a recipe on your corpus; the same command goes on where it was stopped",
    "generate": "let a model or a run speak",
    "ask": "answer a question as the model's game does, with its plan or searches",
    "evaluate": "score a model or a run on questions with known answers",
    "export": "write a model or a run as a Hugging Face folder",
    "report": "write the page of a run, or of several side by side",
    "watch": "follow runs in a browser while they go on",
    "documents": "print documents that a run has read",
    "tasks": "write the questions that a run generated as a data set",
    "prepare": "cut a corpus into documents once",
    "mix": "write AceSearcher's fine-tuning mixture once",
    "index": "build the index that searches read",
    "serve": "serve an index to runs on other machines",
    "configs": "list the recipes",
    "doctor": "say what a run would find on this machine",
}


class Parser(argparse.ArgumentParser):
    """Of a command's own options; what is wrong with them is an error like all others."""

    def __init__(self, module: str, description: str | None, **options: Any) -> None:
        name = f"spicejax {module.rpartition('.')[2]}"
        layout = argparse.RawDescriptionHelpFormatter
        super().__init__(name, description=description, formatter_class=layout, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Name the nearest option too, for one that there is not."""
        _, unknown, words = message.partition("unrecognized arguments: ")
        key = words.partition("=")[0].partition(" ")[0]
        near = difflib.get_close_matches(key, self._option_string_actions, 1) if unknown else []
        raise ValueError(f"{message}; did you mean {near[0]}?" if near else f"{message} ({self.prog} --help)")


def run(name: str = "--help", words: Sequence[str] = ()) -> int:
    """Run a command; return its exit code: 2 and one line on stderr for whatever the user can mend, 130 after Ctrl-C.

    SPICEJAX_DEBUG=1 shows where an error comes from.
    """
    if name in ("-h", "--help"):
        print(usage())
        return 0
    try:
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(COMMANDS)}"
            raise ValueError(f"unknown command {name!r}; {hint}")
        logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
        logging.getLogger("spicejax").setLevel(logging.INFO)
        return importlib.import_module(f"{__name__}.{name}").main(words) or 0
    except (KeyboardInterrupt, ValueError, OSError, ImportError, FloatingPointError, SpicejaxError) as error:
        if os.environ.get("SPICEJAX_DEBUG"):
            raise
        from spicejax import hosts

        stopped = isinstance(error, KeyboardInterrupt)
        print("interrupted" if stopped else f"error: {error}", file=sys.stderr)
        code = 130 if stopped else 2
        hosts.leave(code)  # of several processes the others would wait for this one
        return code


def usage() -> str:
    """The text of --help."""
    lines = [f"  {name:<11}{text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: spicejax COMMAND ...", "", *lines, "", "spicejax COMMAND --help tells more."])
