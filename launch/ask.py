"""Ask a question: python launch/ask.py --model=RUN --question=TEXT [--question=...] [--json] [a.b=c ...]

--model is the work folder of a run, whose own configuration is taken, or what model.path takes together with --config.
The answer comes about as in the game's training: at once, by searching, or (AceSearcher) by a plan whose sub-questions
are answered from what is found. Prints each step and the answer; --json one object a question.

python launch/ask.py --model=runs/acesearcher_nano/3 --question="home of friend of bako?"
python launch/ask.py --model=FOLDER --config=acesearcher_llama8b --question="Who directed ...?" \
    retrieval.index=INDEX retrieval.encoder=FOLDER
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    from spicejax import memory

    memory.ask_for_huge_pages()

import spicejax
from spicejax.games.game import Reply
from spicejax.remote import ServerError
from spicejax.run.checkpoint import CheckpointError


def main(argv: Sequence[str] | None = None) -> int:
    """Answer; return the exit code (2 = bad arguments)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="work folder of a run, or folder, .gguf file, package:NAME")
    parser.add_argument("--config", default="", help="recipe of configs/; of a chain its last run. A run has its own")
    parser.add_argument("--question", action="append", required=True, help="may be given several times")
    parser.add_argument("--context", default="", help="the text that the questions are about, for games that show one")
    parser.add_argument("--json", action="store_true", help="print one JSON object a question")
    options, rest = parser.parse_known_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", force=True)
    try:
        replies = spicejax.answer(
            options.model, options.question, context=options.context, config=options.config, changes=rest
        )
    except (ValueError, OSError, ImportError, FloatingPointError, CheckpointError, ServerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for question, reply in zip(options.question, replies, strict=True):
        told = {"question": question, "answer": reply.answer, "steps": reply.transcript or []}
        print(json.dumps(told | {"text": reply.rollout.text}) if options.json else shown(question, reply))
    return 0


def shown(question: str, reply: Reply) -> str:
    """A question, how it was answered, and the answer, as text."""
    lines = [question]
    for step in reply.transcript or [{"wrote": reply.rollout.text}]:
        found = f"  [{', '.join(step['shown'])}]" if step.get("shown") else ""
        asked = f"{step['asked']} -> " if "asked" in step else ""
        lines.append(f"  {asked}{step.get('plan', step.get('wrote', '')).strip()}{found}")
    return "\n".join([*lines, f"Answer: {reply.answer if reply.answer is not None else 'none was given'}"])


if __name__ == "__main__":
    sys.exit(main())
