"""Export a Hugging Face folder: spicejax export --run=WORKDIR --out=DIR   (or --model=SRC)

--run takes the newest good checkpoint of a run, --model what model.path takes. Written
are sharded safetensors, config, generation config, tokenizer, chat template and, of a run, a model card. --adapter
writes the adapters of a run alone, as PEFT reads them; else they are merged. --push=ORG/NAME uploads the folder to the
Hugging Face Hub (`hf auth login` first); where that fails the folder stays, and the same command tries again.
--run of a chain takes its last stage that has a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser
from spicejax.models import exported, hf, peft, transformer
from spicejax.report import card, publish
from spicejax.report.read import open_run
from spicejax.run.store import export
from spicejax.text import tokens


def main(argv: Sequence[str]) -> None:
    """Read a model, write it as a Hugging Face folder."""
    parser = Parser(__name__, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", type=Path, help="work folder of a training run")
    source.add_argument("--model", help="Hugging Face folder, ORG/NAME of the Hub, .gguf file, or package:NAME")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; an older export is replaced")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="of the written weights (default: as trained)")
    parser.add_argument("--adapter", action="store_true", help="the adapters alone, as PEFT reads them")
    parser.add_argument("--push", metavar="ORG/NAME", help="upload the folder to the Hugging Face Hub")
    parser.add_argument("--private", action="store_true", help="with --push: nobody else sees it")
    options = parser.parse_args(argv)
    if options.adapter and (options.run is None or options.dtype):
        raise ValueError("--adapter belongs to --run, and writes float32")
    publish.require_name(options.push)
    run: Path | None = options.run and (export.find_run(options.run) or options.run)
    if run is not None:
        open_run(run)  # what the card is made of is missed now, not when the model is written
        export.require_exports(run, options.out, adapter=options.adapter)
    else:
        export.require_other(options.out, options.model)
    exported.require(options.out, peft.WEIGHTS if options.adapter else hf.WEIGHTS)

    if run is not None:
        name = options.push or options.out.resolve().name

        def finish(folder: Path, step: int) -> None:
            card.write(folder, run, step=step, name=name, adapter=options.adapter)

        if options.adapter:
            step = export.write_adapter(run, options.out, finish)
        else:
            step = export.write_policy(run, options.out, finish, dtype=options.dtype)
        print(f"{options.out}: {'adapters' if options.adapter else 'policy'} after {step} iterations of {run}")
    else:
        cfg, params = hf.load(options.model, dtype=options.dtype)
        dtype = options.dtype or cfg.param_dtype
        export.write(options.out, cfg, params, tokens.load(options.model), dtype=dtype)
        print(f"{options.out}: {cfg.family}, {transformer.num_params(cfg) / 1e6:,.1f} M parameters, {dtype}")
    if options.push:
        print(publish.push(options.out, options.push, private=options.private))
