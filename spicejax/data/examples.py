"""Examples: prompts with the replies that a model is to learn, from jsonl or a prepared folder."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spicejax import tags
from spicejax.data import prepared, rows
from spicejax.tags import Tags
from spicejax.types import Example, Passage

log = logging.getLogger(__name__)

# The tags around queries and observations, by the name in a row's "tags"
TAGS = {"search": tags.SEARCH_TAGS, "evidence": tags.OBSERVATION_TAGS, "query": tags.QUERY_TAGS, "nano": tags.NANO_TAGS}
_OBSERVATIONS = {tag for known in TAGS.values() for tag in known.observation}


def load_examples(path: str | Path) -> list[Example]:
    """Read a jsonl of prompts with replies, or a whole folder of launch/prepare_sft.py.

    The prompt is a "prompt", "messages", or a "question", which the game puts in its own words. The reply is a
    "completion", the last of the messages (the assistant's), or "turns": a list of {"wrote", "shown"}, where "shown" is
    a list of passages {"title", "text"}, which the last turn lacks; "tags" names the tags around queries and passages.
    A row may name its "source".

    Raises: ValueError naming file, line and what is missing; FileNotFoundError.
    """
    if prepared.is_prepared(str(path)):
        stored, _ = prepared.open_examples(path)
        return stored.take(0, len(stored))
    examples = [_example(where, row) for where, row in rows.read_rows(path, "prompts with completions, or messages")]
    if forged := [k for k, example in enumerate(examples, 1) if any(tag in example.reply for tag in _OBSERVATIONS)]:
        log.warning(
            "%s: %d of %d replies hold the tags of search results, the first is number %d: what was found is learnt as "
            'if the model had written it; give it apart, as "turns"',
            *(path, len(forged), len(examples), forged[0]),
        )
    return examples


def _example(where: str, row: Mapping[str, Any]) -> Example:
    source = rows.field(where, row, "source", rows.label)
    question = rows.field(where, row, "question", rows.text) if "question" in row else ""
    if "turns" in row:
        tags = _tags(where, row)
        *before, reply = _turns(where, row["turns"], tags)
        prompt = () if question else _messages(where, row, [{"role": "user", "content": row.get("prompt")}])
        ended = not reply[0].rstrip().endswith(tags.ends)
        return Example(prompt, reply[0] if ended else reply[0].rstrip(), source, question, tuple(before), ended)
    if question:
        return Example((), rows.field(where, row, "completion", rows.text), source, question)
    pair = [{"role": "user", "content": row.get("prompt")}, {"role": "assistant", "content": row.get("completion")}]
    messages = _messages(where, row, pair)
    if len(messages) < 2 or messages[-1][0] != "assistant":
        raise ValueError(f"{where}: needs prompt and completion, or messages ending with the assistant's; all texts")
    return Example(messages[:-1], messages[-1][1], source)


def _messages(where: str, row: Mapping[str, Any], other: list[Any]) -> tuple[tuple[str, str], ...]:
    """The row's messages, or others where it has none."""
    try:
        return tuple((rows.text(m["role"]), rows.text(m["content"])) for m in row.get("messages", other))
    except (TypeError, KeyError, ValueError):
        raise ValueError(
            f"{where}: needs prompt and completion, or messages ending with the assistant's; all texts"
        ) from None


def _tags(where: str, row: Mapping[str, Any]) -> Tags:
    name = row.get("tags", "search")
    if not isinstance(name, str) or name not in TAGS:
        raise ValueError(f"{where}: tags={name!r}: choose from {', '.join(TAGS)}")
    return TAGS[name]


def _turns(where: str, turns: Any, tags: Tags) -> list[tuple[str, str]]:
    """Read the text of each turn and the observation that follows it; the last turn has none.

    Raises: ValueError for a query without passages or passages without a query, and for the tags of an observation in
      the text of a turn.
    """
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns) or not turns:
        raise ValueError(f'{where}: turns: give a list of {{"wrote", "shown"}}')
    written = []
    for number, turn in enumerate(turns, 1):
        place, last = f"{where}: turn {number}", number == len(turns)
        text = rows.field(place, turn, "wrote", rows.text)
        if tag := next((tag for tag in tags.observation if tag in text), ""):
            raise ValueError(f'{place} wrote {tag}, which stands around what is found; give that as "shown"')
        asks = text.rstrip().endswith(tags.query[1]) and tags.query[0] in text
        if asks == last or ("shown" in turn) == last:
            end = (
                "the last turn asks for nothing and is shown nothing" if last else "only the last turn is not shown any"
            )
            raise ValueError(f"{place}: what ends with {tags.query[1]} is shown a list of passages; {end}")
        written.append((text, "") if last else (text.rstrip(), tags.show(_passages(place, turn["shown"]))))
    return written


def _passages(place: str, passages: Any) -> list[Passage]:
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        raise ValueError(f'{place}: shown: give a list of {{"title", "text"}}, [] where nothing was found')
    return [
        Passage("", rows.field(place, passage, "title", rows.label), rows.field(place, passage, "text", rows.text))
        for passage in passages
    ]
