"""Write AceSearcher's fine-tuning mixture once as ArrayRecord, ready for `--corpus=DIR` of a supervised run.

spicejax mix --data=DATA --out=DIR [--sources=gsm8k_plan,fever] [--held_out=50] [--scale=0.1]
spicejax mix --data=DATA --out=QUESTIONS.jsonl --rounds [--sources=hotpotqa,hover]

DATA holds a folder for each source with the file as it is published (DATA/squad1/train-v1.1.json), or DATA/NAME.jsonl
with rows of your own: question (or claim) and answer, and of document, passages, decomposition, facts, solution and
program what there is. FEVER's claims are told with their passages, from its wiki-pages.zip: unpacked, it is
DATA/fever/wiki-pages. --sources=NAME:USE takes DATA/NAME.jsonl to teach that (plan, reason, answer, ...). --tfds takes
from TensorFlow Datasets what it has. Sources, their files and the paper's counts: spicejax/data/mixtures.py. Mixing
needs `pip install 'spicejax[seqio]'`; training does not.

Prompts that occur twice are taken once. Questions of MuSiQue's held-out parts are removed from what they were made of
(SQuAD, NQ) by its list: --leaks=dev_test_singlehop_questions_v1.0.json; --leaks=none does without.

--rounds writes the questions of the rounds instead, each with its kind (HotpotQA, 2WikiMultihopQA, HoVer with passages
to be looked up; GSM8K, TabMWP, ConvFinQA with their texts), ready for `--corpus=QUESTIONS.jsonl` of acesearcher.
--sources=convfinqa:program asks for programs instead (acesearcher.programs=sandbox).
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spicejax.commands import Parser
from spicejax.data import mixtures, prepared
from spicejax.games.acesearcher import examples
from spicejax.games.acesearcher.config import PACKAGE
from spicejax.run import preflight
from spicejax.text import prompts

FINE_TUNING = ("tfds", "leaks", "held_out", "prompts")  # what the rounds have no use for


def main(argv: Sequence[str]) -> None:
    """Write the folder."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sources")
    parser.add_argument("--out", type=Path, required=True, help="new folder")
    parser.add_argument("--sources", default="", help="names apart by commas; default: all of the paper's")
    parser.add_argument("--rounds", action="store_true", help="the questions of the rounds, as one jsonl")
    parser.add_argument("--tfds", action="store_true", help="take from TensorFlow Datasets what DATA has not")
    parser.add_argument("--leaks", default="", help="MuSiQue's list of questions not to be trained on, or none")
    parser.add_argument("--held_out", type=int, default=0, help="examples of each source for DIR/held_out.jsonl")
    parser.add_argument("--scale", type=float, default=1.0, help="of the paper's counts")
    parser.add_argument("--prompts", default="", help="folder of your own prompts, as acesearcher.prompts")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if not (math.isfinite(options.scale) and options.scale > 0):
        parser.error(f"--scale={options.scale:g}: give a number above 0")
    if options.held_out < 0:
        parser.error(f"--held_out={options.held_out}: give 0 or more")
    given = [name for name in FINE_TUNING if getattr(options, name)]
    if options.rounds and given:
        parser.error(f"--rounds: --{given[0]} is of the fine-tuning mixture alone; leave it out")
    (write_questions if options.rounds else prepare)(options)


def write_questions(options: argparse.Namespace) -> None:
    """Write the questions of the rounds, mixed by lot."""
    preflight.require_folder(options.out.parent, "--out")
    if options.out.exists():
        raise FileExistsError(f"{options.out} already exists; give a new file or remove it first")
    sources = mixtures.select_sources([name for name in options.sources.split(",") if name], mixtures.ROUNDS)
    located = mixtures.locate(options.data, sources, tfds=False)
    selection = mixtures.select_examples(
        sources, located, mixtures.question, leaks={}, seed=options.seed, scale=options.scale
    )
    lines = [line for pairs in selection.examples.values() for _, line in pairs]
    order = np.random.default_rng(options.seed).permutation(len(lines))
    options.out.write_text("".join(lines[i] + "\n" for i in order), encoding="utf-8")


def prepare(options: argparse.Namespace) -> None:
    """Read, choose, mix and write; print the counts."""
    prepared.require_new(options.out)
    preflight.require_folder(options.out, "--out")
    if importlib.util.find_spec("seqio") is None:
        raise ImportError("mixing needs seqio: pip install 'spicejax[seqio]'")
    sources = mixtures.select_sources([name for name in options.sources.split(",") if name])
    if not options.leaks and (asked := [source.name for source in sources if source.seed_of]):
        raise ValueError(
            f"--sources={','.join(asked)}: MuSiQue's held-out questions were made of these; give its list, "
            "--leaks=dev_test_singlehop_questions_v1.0.json (https://github.com/StonyBrookNLP/musique), or --leaks=none"
        )
    leaks = mixtures.read_leaks(Path(options.leaks)) if options.leaks not in ("", "none") else {}
    located = mixtures.locate(options.data, sources, options.tfds)
    templates = prompts.overridden("--prompts", {}, options.prompts, PACKAGE)
    render = functools.partial(examples.render, templates=templates)
    selection = mixtures.select_examples(sources, located, render, leaks=leaks, seed=options.seed, scale=options.scale)
    drawn = selection.examples
    if empty := [name for name, pairs in drawn.items() if len(pairs) <= options.held_out]:
        fix = selection.hints.get(empty[0], "leave the source out (--sources) or hold out fewer")
        raise ValueError(
            f"{empty[0]}: {dict(selection.counts[empty[0]])}: no example would be left beside --held_out="
            f"{options.held_out}; {fix}"
        )
    held_out = {name: pairs[: options.held_out] for name, pairs in drawn.items()}
    rows = list(mixtures.epoch({name: pairs[options.held_out :] for name, pairs in drawn.items()}, options.seed))
    manifest = {"seed": options.seed, "counts": {name: dict(counts) for name, counts in selection.counts.items()}}
    prepared.write_examples(options.out, rows, manifest)
    if options.held_out:
        apart = [{"source": n, "prompt": p, "completion": c} for n, pairs in held_out.items() for p, c in pairs]
        (options.out / "held_out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in apart), encoding="utf-8")
