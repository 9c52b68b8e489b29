"""Export a Hugging Face folder: python launch/export_hf.py --run=WORKDIR --out=DIR   (or --model=SRC)

--run takes the newest good checkpoint of a run. --model takes a Hugging Face folder, a .gguf file, or package:NAME.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from spicejax.models import hf, transformer
from spicejax.run import export
from spicejax.text import tokens


def main(argv: list[str] | None = None) -> int:
    """Read a model, write it as a Hugging Face folder; return the exit code (2 = bad arguments)."""
    parser = argparse.ArgumentParser(prog="launch/export_hf.py", description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", type=Path, help="work folder of a training run")
    source.add_argument("--model", help="Hugging Face folder, .gguf file, or package:NAME")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; an older export there is replaced")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float32"), help="of the written weights")
    options = parser.parse_args(argv)
    try:
        if options.run is not None:
            step, cfg, params, tokenizer = export.load_run(options.run)
            print(f"{options.run}: policy after {step} iterations")
        else:
            cfg, params = hf.load(options.model, dtype=options.dtype)
            tokenizer = tokens.load(options.model)
        export.write(options.out, cfg, params, tokenizer, dtype=options.dtype)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {cfg.family}, {transformer.num_params(cfg) / 1e6:,.1f} M parameters, {options.dtype}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
