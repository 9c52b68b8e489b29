"""Write what a small model learns before a game, and what a search game needs, from questions with their passages.

spicejax transcripts --data=musique.jsonl,hotpotqa.jsonl --config=ssp_qwen0p5b --out=FOLDER

--data: HotpotQA, 2WikiMultihopQA or MuSiQue as they are published, or rows of your own (question, answer, passages,
supporting_titles and decomposition). --config: a recipe of Search Self-Play, AceSearcher or SPICE, whose prompts
are taken. FOLDER
gets

  transcripts.jsonl  replies of the game's roles, made by rule: for a supervised run
  passages.jsonl     all passages: spicejax index --corpus=FOLDER/passages.jsonl --words=WORDS
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spicejax import configs
from spicejax.commands import Parser
from spicejax.data import prepared
from spicejax.games import hops
from spicejax.games.acesearcher import transcripts as acesearcher
from spicejax.games.acesearcher.config import AceSearcherConfig
from spicejax.games.hops import Question
from spicejax.games.spice import transcripts as spice
from spicejax.games.spice.game import SpiceConfig
from spicejax.games.ssp import transcripts as ssp
from spicejax.games.ssp.game import SspConfig
from spicejax.run import preflight
from spicejax.score import answers as spelling

Make = Callable[[Sequence[Question], int, np.random.Generator], Iterable[dict[str, Any]]]


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
    write(options)


def write(options: argparse.Namespace) -> None:
    """Read, divide and write; print the counts."""
    make = [made for cfg in configs.stages(options.config) if (made := _maker(cfg.game))]
    if not make:
        raise ValueError(
            f"--config={options.config}: gives no run of Search Self-Play, AceSearcher or SPICE; choose one"
        )
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
    examples = list(make[0](taught, options.words, rng))
    passages = dict.fromkeys(p for row in rows for q in row for p in (*(hop.passage for hop in q.hops), *q.others))
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


def _maker(game: object) -> Make | None:
    """What makes a game's examples; None where it has none."""
    if isinstance(game, SspConfig):
        return lambda of, words, rng: ssp.examples(of, game, words, rng)
    if isinstance(game, AceSearcherConfig) and game.request == "full":
        return lambda of, words, rng: acesearcher.examples(of, game, words, rng)
    if isinstance(game, SpiceConfig) and game.style == "full":
        return lambda of, words, rng: spice.examples(of, game, words, rng)
    return None


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
