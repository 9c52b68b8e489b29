"""Export: python launch/export_hf.py --model=SRC --out=DIR [--dtype=bfloat16] [--tokenizer=FOLDER]

SRC: a Hugging Face folder, a .gguf file, or package:NAME.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spicejax.models import hf, transformer


def main(argv: list[str] | None = None) -> int:
    """Read a model, write it as a Hugging Face folder; return the exit code (2 = bad arguments)."""
    parser = argparse.ArgumentParser(prog="launch/export_hf.py", description=__doc__)
    parser.add_argument("--model", required=True, help="Hugging Face folder, .gguf file, or package:NAME")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; an older export there is replaced")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"), help="of the written weights")
    parser.add_argument("--tokenizer", type=Path, help="folder with the tokenizer files (default: SRC if a folder)")
    options = parser.parse_args(argv)
    try:
        source = hf.locate(options.model)
        tokenizer = options.tokenizer or (source if source.is_dir() else None)
        cfg, params = hf.load(options.model, dtype=options.dtype)
        hf.save(options.out, cfg, params, tokenizer_files_from=tokenizer)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {cfg.family}, {transformer.num_params(cfg) / 1e6:,.1f} M parameters, {options.dtype}")
    if tokenizer is None:
        print(f"{options.model} has no tokenizer files to copy; add --tokenizer=FOLDER")
    return 0


if __name__ == "__main__":
    sys.exit(main())
