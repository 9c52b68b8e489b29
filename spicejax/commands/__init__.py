"""What people type: `spicejax NAME ...`, one module each. The scripts of launch/ are the same commands."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from spicejax.errors import LINES, Missing, SpicejaxError, plain

COMMANDS = {
    "train": "train a recipe on your corpus; the same command goes on where it was stopped",
    "generate": "respond to prompts by a model or a run",
    "ask": "answer a question as the model's game does, with its plan or searches",
    "evaluate": "score a model or a run on questions with known answers",
    "export": "write a model or a run as a Hugging Face folder",
    "report": "write the page of a run, or of several side by side",
    "watch": "follow runs in a browser while they go on",
    "documents": "print documents that a run has read",
    "tasks": "write the questions that a run generated as a data set",
    "prepare": "cut a corpus into documents once",
    "mix": "write AceSearcher's fine-tuning mixture once",
    "transcripts": "write examples for a warm start from questions with passages",
    "index": "build the index that searches read",
    "serve": "serve an index to runs on other machines",
    "lab": "repeat the papers' ablations over seeds, with intervals",
    "torture": "try what a recipe survives: kills, signals, full disks, damaged checkpoints",
    "configs": "list the recipes",
    "doctor": "say what a run would find on this machine",
}

# What is left of a command that a signal ended at once.
KEPT = {
    "train": "what was saved stays, and the same command goes on",
    "index": "what was encoded stays, and the same command goes on",
    "lab": "what was saved stays, and the same command goes on",
    "torture": "the trials that ended stay, and the same command goes on",
    **dict.fromkeys(("evaluate", "mix", "prepare", "transcripts"), "nothing was written"),
    **dict.fromkeys(("export", "tasks"), "a folder that is there is whole"),
}
STOPPED = 75  # exit code of what a signal or its session stopped: saved, the same command goes on (EX_TEMPFAIL)

# What takes less memory of a device, by the stage of a run in which it was full; a resumed run may change all of them.
LESS = {
    "playing": "lower sampler_memory or buckets.rows",
    "evaluating": "lower sampler_memory or buckets.rows",
    "updating": "lower learner.rows or learner.vocab_chunk, or set model.remat=layer",
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


class _Plain(logging.Formatter):
    """Lines without control characters: they quote files, documents and servers."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record), LINES)


def tell(text: str) -> None:
    """Print what a model or a document says: as it is, but for what a terminal would obey where there is one."""
    print(plain(text, LINES) if sys.stdout.isatty() else text, flush=True)


def run(name: str = "--help", words: Sequence[str] = ()) -> int:
    """Run a command; return its exit code: 2 and one line on stderr for whatever the user can mend.

    75 where a signal stopped what the same command goes on with; where it ended one at once, 128 and its number, so
    130 after Ctrl-C. SPICEJAX_DEBUG=1 shows where an error comes from.
    """
    if name in ("-h", "--help"):
        print(usage())
        return 0
    try:
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(COMMANDS)}"
            raise ValueError(f"unknown command {name!r}; {hint}")
        handler = logging.StreamHandler()
        handler.setFormatter(_Plain("%(message)s"))
        logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
        logging.getLogger("spicejax").setLevel(logging.INFO)
        with _ended_by_signals():
            return importlib.import_module(f"{__name__}.{name}").main(words) or 0
    except (
        KeyboardInterrupt, ValueError, OSError, ImportError, FloatingPointError, RuntimeError, MemoryError,
    ) as error:  # fmt: skip
        device = _absent(error) or _full(error, name)
        known = device or isinstance(error, SpicejaxError) or not isinstance(error, RuntimeError)
        if os.environ.get("SPICEJAX_DEBUG") or not known:
            raise
        from spicejax import hosts

        hosts.miss(error)
        message, code = _last_words(error, name) if not device else (f"error: {device}", 2)
        with contextlib.suppress(OSError):  # the terminal may be gone
            print(plain(message, LINES), file=sys.stderr)
        if code != STOPPED:  # that all of several processes come to together
            hosts.leave(code)  # the others would wait for this one
        return code


def _last_words(error: BaseException, name: str) -> tuple[str, int]:
    """The last line of a command that an error ended, and its exit code."""
    from spicejax.interrupt import Stopped

    if isinstance(error, Stopped):
        return str(error), STOPPED
    if not isinstance(error, KeyboardInterrupt):
        return f"error: {_text(error)}", 2
    number = next((each for each in error.args if isinstance(each, int)), signal.SIGINT)
    return "; ".join(["interrupted", *([KEPT[name]] if name in KEPT else [])]), 128 + number


def _text(error: BaseException) -> str:
    """The text of an error; one of the system without its number, a line that quotes a whole file is cut."""
    if isinstance(error, Missing):
        return str(error)
    if not isinstance(error, OSError) or not error.strerror or error.filename is None:
        return _short(plain(str(error)))
    return _short(f"{error.filename}: {error.strerror[:1].lower()}{error.strerror[1:]}")


def _short(line: str) -> str:
    first, last = 1000, 300
    cut = len(line) - first - last
    return f"{line[:first]} [{cut:,} characters] {line[-last:]}" if cut > 0 else line


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: it says what is kept, and leaves no half of a folder."""
    found = (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ()
    usual = [number for number in found if signal.getsignal(number) == signal.SIG_DFL]
    for number in usual:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in usual:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt(number)


def _absent(error: BaseException) -> str:
    """One line for devices that JAX cannot open, because another process holds them, say; empty for any other error."""
    said = " ".join(str(error).split())
    if type(error) is not RuntimeError or not said.startswith("Unable to initialize backend"):
        return ""
    advice = "`spicejax doctor` says what is there, another process may hold it, JAX_PLATFORMS=cpu does without"
    return f"{said:.300}; {advice}"


def _full(error: BaseException, name: str) -> str:
    """One line for memory that is full, with what takes less of it; empty for any other error."""
    said, own = str(error), isinstance(error, MemoryError)
    kept = "; the work folder is kept, and the same command goes on" if name == "train" else ""
    if type(error) is RuntimeError and said == "can't start new thread":
        return f"no thread can be started: memory is full, or all processes run that are allowed (ulimit -u){kept}"
    of_jax = type(error).__name__ in ("JaxRuntimeError", "XlaRuntimeError")  # by its name: this module imports no jax
    if not own and not (of_jax and ("RESOURCE_EXHAUSTED" in said or "Out of memory" in said)):
        return ""
    from spicejax.run.host.clock import NOTE

    notes = [note.removeprefix(NOTE) for note in getattr(error, "__notes__", ()) if note.startswith(NOTE)]
    stage = notes[0].replace(": ", ", ") if notes else f"`spicejax {name}`"
    smaller = "take a smaller model" if own else "take a smaller model, or more chips"
    less = next((fix for word, fix in LESS.items() if word in stage), smaller)
    where = "here` says what each program takes" if own else "SLICE` says what each program takes on a TPU or GPU"
    topology = f", `--dry_run --topology={where}" if name == "train" else ""
    whose, doctor = "the devices'", ""
    if own:
        whose, doctor = "this process's", "`spicejax doctor` says what there is; where a CPU computes, "
    quoted = f" ({' '.join(said.split()):.200})" * bool(said)
    return f"{whose} memory is full in {stage}: {doctor}{less}{topology}{kept}{quoted}"


def usage() -> str:
    """The text of --help."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{text}" for name, text in COMMANDS.items()]
    return "\n".join(["usage: spicejax COMMAND ...", "", *lines, "", "spicejax COMMAND --help tells more."])
