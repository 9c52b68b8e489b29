"""Export a Hugging Face folder: spicejax export --run=WORKDIR --out=DIR   (or --model=SRC)

--run takes the newest good checkpoint of a run. --model takes a Hugging Face folder, a .gguf file, or package:NAME.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser
from spicejax.models import hf, transformer
from spicejax.run import export
from spicejax.text import tokens


def main(argv: Sequence[str]) -> None:
    """Read a model, write it as a Hugging Face folder."""
    parser = Parser(__name__, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", type=Path, help="work folder of a training run")
    source.add_argument("--model", help="Hugging Face folder, .gguf file, or package:NAME")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; an older export there is replaced")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"), help="of the written weights")
    options = parser.parse_args(argv)
    if options.run is not None:
        step, cfg, params, tokenizer = export.load_run(options.run)
        print(f"{options.run}: policy after {step} iterations")
    else:
        cfg, params = hf.load(options.model, dtype=options.dtype)
        tokenizer = tokens.load(options.model)
    export.write(options.out, cfg, params, tokenizer, dtype=options.dtype)
    print(f"{options.out}: {cfg.family}, {transformer.num_params(cfg) / 1e6:,.1f} M parameters, {options.dtype}")
