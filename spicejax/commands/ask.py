"""Ask a question: spicejax ask --model=RUN --question=TEXT [--question=...] [--json] [a.b=c ...]

--model is the work folder of a run (of a chain: its last stage with a policy), whose own configuration is taken, or
what model.path takes together with --config.
The answer comes about as in the game's training: at once, by searching, or (AceSearcher) by a plan whose sub-questions
are answered from what is found. Prints each step and the answer; --json one object a question.

spicejax ask --model=runs/acesearcher_nano --question="home of friend of bako?"
spicejax ask --model=FOLDER --config=acesearcher_llama8b --question="Who directed ...?" \
    retrieval.index=INDEX retrieval.encoder=FOLDER
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import spicejax
from spicejax.commands import Parser, tell
from spicejax.games.game import Reply


def main(argv: Sequence[str]) -> None:
    """Answer."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--model", required=True, help="work folder of a run, or what model.path takes")
    parser.add_argument(
        "--config",
        default="",
        help="recipe of configs/; of a chain its last run. A run has its own; where its game is yours, give its file",
    )
    parser.add_argument("--question", action="append", required=True, help="may be given several times")
    parser.add_argument("--context", default="", help="the text that the questions are about, for games that show one")
    parser.add_argument("--json", action="store_true", help="print one JSON object a question")
    options, rest = parser.parse_known_args(argv)
    replies = spicejax.answer(
        options.model,
        options.question,
        context=options.context,
        config=options.config,
        changes=rest,
        progress=sys.stderr,
    )
    for question, reply in zip(options.question, replies, strict=True):
        line = {"question": question, "answer": reply.answer, "steps": reply.transcript or []}
        tell(json.dumps(line | {"text": reply.rollout.text}) if options.json else shown(question, reply))


def _passage(passage: Any) -> str:
    """One line of a passage that was shown, or its id where nothing else is known."""
    if not isinstance(passage, dict):
        return str(passage)
    text = " ".join(passage["text"].split())
    title = f"{passage['title']}: " if passage["title"] and not text.startswith(passage["title"]) else ""
    return textwrap.shorten(f"{title}{text}", 160, placeholder=" ...")


def shown(question: str, reply: Reply) -> str:
    """A question, how it was answered, and the answer, as text."""
    lines = [question]
    for step in reply.transcript or [{"wrote": reply.rollout.text}]:
        asked = f"{step['asked']} -> " if "asked" in step else ""
        lines.append(f"  {asked}{step.get('plan', step.get('wrote', '')).strip()}")
        lines += [f"    [{n}] {_passage(passage)}" for n, passage in enumerate(step.get("shown", ()), 1)]
    return "\n".join([*lines, f"Answer: {reply.answer if reply.answer is not None else 'none was given'}"])
