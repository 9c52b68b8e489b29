"""Examples: prompts with the replies that a model shall learn to give, from jsonl or a prepared folder."""

from __future__ import annotations

from pathlib import Path

from spicejax.data import prepared, rows
from spicejax.types import Example


def load_examples(path: str | Path) -> list[Example]:
    """Read a jsonl of {"prompt", "completion"} or {"messages"}; the last message is then the assistant's.

    A row may name its "source". A folder of launch/prepare_sft.py is read as a whole.

    Raises: ValueError naming file, line and what is missing; FileNotFoundError.
    """
    if prepared.is_prepared(str(path)):
        stored = prepared.open_examples(path)
        return [stored[i] for i in range(len(stored))]
    found = []
    for where, row in rows.read_rows(path, "prompts with completions, or messages"):
        pair = [{"role": "user", "content": row.get("prompt")}, {"role": "assistant", "content": row.get("completion")}]
        try:
            messages = row.get("messages", pair)
            turns = [(rows.text(message["role"]), rows.text(message["content"])) for message in messages]
        except (TypeError, KeyError, ValueError):
            turns = []
        if len(turns) < 2 or turns[-1][0] != "assistant":
            raise ValueError(
                f"{where}: needs prompt and completion, or messages ending with the assistant's; all texts"
            )
        found.append(Example(tuple(turns[:-1]), turns[-1][1], rows.field(where, row, "source", rows.label)))
    return found
