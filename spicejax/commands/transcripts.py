"""Write what a search game needs from questions with their passages: transcripts, passages, questions, answers.

spicejax transcripts --data=musique.jsonl,hotpotqa.jsonl --config=ssp_qwen0p5b --out=FOLDER

--data: HotpotQA, 2WikiMultihopQA or MuSiQue as they are published, or rows of your own (question, answer, passages,
supporting_titles and decomposition). The prompts are those of the recipe's Search Self-Play. FOLDER gets

  passages.jsonl     all passages: spicejax index --corpus=FOLDER/passages.jsonl --words=WORDS
  transcripts.jsonl  of Solver, Proposer and verifier, made by rule: for a supervised run
  questions.jsonl    the same questions without their way: for R1-Searcher
  answers.jsonl      their answers: for Search Self-Play
  held_out.jsonl     questions of the other rows, for eval.tasks

Steps of a decomposition that are questions themselves count as questions.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from spicejax import configs
from spicejax.commands import Parser
from spicejax.data import prepared
from spicejax.games.ssp import hops, transcripts
from spicejax.games.ssp.game import SspConfig
from spicejax.games.ssp.hops import Question
from spicejax.run import preflight
from spicejax.score import answers as spelling


def main(argv: Sequence[str]) -> None:
    """Write the folder."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--data", required=True, help="jsonl or json; several with commas")
    parser.add_argument("--config", required=True, help="a recipe of Search Self-Play, whose prompts are taken")
    parser.add_argument("--out", required=True, help="new folder")
    parser.add_argument("--words", type=int, default=100, help="longest passage, as of spicejax index")
    parser.add_argument("--held_out", type=float, default=0.5, help="share of rows whose questions are kept apart")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if not 0 <= options.held_out < 1:
        parser.error(f"--held_out={options.held_out:g}: give a share from 0 to below 1")
    if options.words < 0:
        parser.error(f"--words={options.words}: give the longest passage in words, or 0 for passages as they are")
    write(options)


def write(options: argparse.Namespace) -> None:
    """Read, divide and write; print the counts."""
    games = [cfg.game for cfg in configs.stages(options.config) if isinstance(cfg.game, SspConfig)]
    if not games:
        raise ValueError(f"--config={options.config}: gives no run of Search Self-Play; choose one with the game ssp")
    out = Path(options.out)
    preflight.require_folder(prepared.require_new(options.out), "--out")
    rows = list(itertools.chain.from_iterable(map(hops.read, map(Path, options.data.split(",")))))
    rng = np.random.default_rng(options.seed)
    order = rng.permutation(len(rows))
    apart = round(options.held_out * len(rows))
    held_out = list(_once(itertools.chain.from_iterable(rows[i] for i in sorted(order[:apart]))))
    known = {spelling.tokens(question.question) for question in held_out}
    training = _once(itertools.chain.from_iterable(rows[i] for i in sorted(order[apart:])), known)
    taught = [question for question in training if question.hops]
    examples = [make(q, games[0], options.words, rng) for q in taught for make in transcripts.KINDS]
    examples = [example for example in examples if example is not None]
    passages = dict.fromkeys(
        p for row in rows for q in row for p in (*(hop.passage for hop in q.hops), *q.others)
    )
    answers = dict.fromkeys(e["answer"] for e in map(_asked, taught) if e["answer"].lower() not in ("yes", "no"))
    out.mkdir(exist_ok=True)
    _write(out / "passages.jsonl", ({"id": str(n), "title": p.title, "text": p.text} for n, p in enumerate(passages)))
    _write(out / "transcripts.jsonl", (examples[i] for i in rng.permutation(len(examples))))
    _write(out / "questions.jsonl", map(_asked, taught))
    _write(out / "answers.jsonl", ({"answer": answer} for answer in answers))
    _write(out / "held_out.jsonl", map(_asked, held_out))
    kinds = Counter(example["source"] for example in examples)
    print(f"{len(rows)} rows, {apart} of them held out: {len(held_out)} questions; {len(taught)} to train on")
    print(f"transcripts: {', '.join(f'{count} of a {kind}' for kind, count in kinds.items())}")
    print(f"{len(passages)} passages, {len(answers)} answers")


def _once(questions: Iterable[Question], known: Iterable[str] = ()) -> Iterable[Question]:
    """The questions, each once, without those that are known."""
    seen = set(known)
    for question in questions:
        if (key := spelling.tokens(question.question)) not in seen:
            seen.add(key)
            yield question


def _asked(question: Question) -> dict[str, object]:
    answer, *aliases = question.answers
    row: dict[str, object] = {"id": question.id, "question": question.question, "answer": answer}
    return row | ({"aliases": aliases, "answer_type": "String"} if aliases else {})


def _write(file: Path, rows: Iterable[object]) -> None:
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
