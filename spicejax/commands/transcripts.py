"""Write examples for a warm start, and what a search game needs, from questions with their passages.

spicejax transcripts --data=musique.jsonl,hotpotqa.jsonl --config=acesearcher_qwen0p5b --out=FOLDER

--data: HotpotQA, 2WikiMultihopQA or MuSiQue as they are published, or rows of your own (question, answer, passages,
supporting_titles and decomposition). --config: a recipe of AceSearcher, whose prompts are taken. Written are

  transcripts.jsonl  replies of the game's roles, made by rule: for a supervised run
  passages.jsonl     all passages: spicejax index --corpus=FOLDER/passages.jsonl --words=WORDS; their titles are what
                     Search Self-Play asks for
  questions.jsonl    the same questions without their hops: for R1-Searcher and AceSearcher
  held_out.jsonl     questions of the other rows, for eval.tasks

Steps of a decomposition that are questions themselves count as questions. A question with a hop that is held out, as a
question or as a hop of one, is not trained on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from spicejax import configs
from spicejax.commands import Parser
from spicejax.data import prepared
from spicejax.games import hops
from spicejax.games.acesearcher import transcripts as acesearcher
from spicejax.games.acesearcher.config import AceSearcherConfig
from spicejax.games.hops import Question
from spicejax.run import preflight
from spicejax.score import answers as spelling


def main(argv: Sequence[str]) -> None:
    """Write the folder."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--data", required=True, help="jsonl or json; several with commas")
    parser.add_argument("--config", required=True, help="a recipe of the game, whose prompts are taken")
    parser.add_argument("--out", required=True, help="new folder")
    parser.add_argument("--words", type=int, default=100, help="longest passage, as of spicejax index")
    parser.add_argument("--held_out", type=float, default=0.5, help="share of rows whose questions are kept apart")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if not 0 <= options.held_out < 1:
        parser.error(f"--held_out={options.held_out:g}: give a share from 0 to below 1")
    if options.words < 0:
        parser.error(f"--words={options.words}: give the longest passage in words, or 0 for passages as they are")
    if options.seed < 0:
        parser.error(f"--seed={options.seed}: give 0 or more")
    write(options)


def write(options: argparse.Namespace) -> None:
    """Read, divide and write; print the counts. The folder appears complete under its name, or not at all."""
    games = (cfg.game for cfg in configs.stages(options.config))
    game = next((game for game in games if isinstance(game, AceSearcherConfig) and game.request == "full"), None)
    if game is None:
        raise ValueError(
            f"--config={options.config}: has no run of AceSearcher with requests in words; choose one that has"
        )
    out = prepared.require_new(options.out)
    preflight.require_folder(out, "--out")
    rows = list(itertools.chain.from_iterable(map(hops.read, map(Path, options.data.split(",")))))
    rng = np.random.default_rng(options.seed)
    order = rng.permutation(len(rows))
    apart = round(options.held_out * len(rows))
    held_out = list(_once(question for i in sorted(order[:apart]) for question in rows[i]))
    known = {spelling.tokens(text) for q in held_out for text in (q.question, *(hop.query for hop in q.hops))}
    others = _once(question for i in sorted(order[apart:]) for question in rows[i])
    taught = [
        q for q in others if q.hops and not known & set(map(spelling.tokens, (q.question, *(h.query for h in q.hops))))
    ]
    examples = list(acesearcher.examples(taught, game, options.words, rng))
    kinds = Counter(example["source"] for example in examples)
    if not examples:
        raise ValueError(
            f"--data={options.data}: none of {len(rows)} rows teaches {options.config}; give rows with a "
            "decomposition, such as MuSiQue's, or a smaller --held_out"
        )
    passages = dict.fromkeys(
        p for row in rows for q in row for p in (*(hop.passage for hop in q.hops), *q.others) if p.text
    )
    files: dict[str, Iterable[object]] = {
        "transcripts": (examples[i] for i in rng.permutation(len(examples))),
        "passages": ({"id": str(n), "title": p.title, "text": p.text} for n, p in enumerate(passages)),
        "questions": map(_asked, taught),
        "held_out": map(_asked, held_out),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as beside:
        work = Path(beside, "new")
        work.mkdir()
        for name, lines in files.items():
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
            (work / f"{name}.jsonl").write_text(text, encoding="utf-8")
        work.rename(out)
    print(f"{len(rows)} rows, {apart} of them held out: {len(held_out)} questions; {len(taught)} to train on")
    print(f"transcripts: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    print(f"{len(passages)} passages")


def _once(questions: Iterable[Question]) -> Iterable[Question]:
    """The questions, each once."""
    return {spelling.tokens(question.question): question for question in questions}.values()


def _asked(question: Question) -> dict[str, object]:
    row: dict[str, object] = {"id": question.id, "question": question.question, "answer": question.answers[0]}
    return row | ({"aliases": question.answers[1:], "answer_type": "String"} if question.answers[1:] else {})
