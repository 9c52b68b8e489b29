"""Export a Hugging Face folder: spicejax export --run=WORKDIR --out=DIR   (or --model=SRC)

--run takes the newest good checkpoint of a run, --model a Hugging Face folder, a .gguf file, or package:NAME. Written
are sharded safetensors, config, generation config, tokenizer, chat template and, of a run, a model card. --adapter
writes the adapters of a run alone, as PEFT reads them; else they are merged. --push=ORG/NAME uploads the folder to the
Hugging Face Hub (`hf auth login` first); where that fails the folder stays, and the same command tries again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spicejax.commands import Parser
from spicejax.errors import SpicejaxError
from spicejax.models import exported, hf, hub, peft, transformer
from spicejax.report import card
from spicejax.report.read import open_run
from spicejax.run import export
from spicejax.text import tokens


def main(argv: Sequence[str]) -> None:
    """Read a model, write it as a Hugging Face folder."""
    parser = Parser(__name__, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", type=Path, help="work folder of a training run")
    source.add_argument("--model", help="Hugging Face folder, .gguf file, or package:NAME")
    parser.add_argument("--out", required=True, type=Path, help="folder to write; an older export is replaced")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="of the written weights (default: as trained)")
    parser.add_argument("--adapter", action="store_true", help="the adapters alone, as PEFT reads them")
    parser.add_argument("--push", metavar="ORG/NAME", help="upload the folder to the Hugging Face Hub")
    parser.add_argument("--private", action="store_true", help="with --push: nobody else sees it")
    options = parser.parse_args(argv)
    if options.adapter and (options.run is None or options.dtype):
        raise ValueError("--adapter belongs to --run, and writes float32")
    if options.push and options.push.count("/") != 1:
        raise ValueError(f"--push={options.push}: give ORG/NAME")
    run: Path | None = options.run
    export.require_other(options.out, options.model if run is None else export.model_of(run))
    exported.require(options.out, peft.WEIGHTS if options.adapter else hf.WEIGHTS)
    if run is not None:
        open_run(run)  # what the card is made of is missed now, not when the model is written

    def finish(folder: Path) -> None:
        if run is not None:
            card.write(folder, run, name=options.out.resolve().name, adapter=options.adapter)

    if options.adapter and run is not None:
        step = export.write_adapter(run, options.out, finish)
        print(f"{options.out}: adapters after {step} iterations")
    else:
        _write_model(run, options.model, options.out, options.dtype, finish)
    if options.push:
        print(_push(options.out, options.push, options.private))


def _write_model(
    run: Path | None, model: str | None, out: Path, dtype: transformer.DType | None, finish: export.Finish
) -> None:
    if run is not None:
        step, cfg, params, tokenizer = export.load_run(run)
        print(f"{run}: policy after {step} iterations")
    else:
        assert model is not None
        cfg, params = hf.load(model, dtype=dtype)
        tokenizer = tokens.load(model)
    dtype = dtype or cfg.param_dtype
    export.write(out, cfg, params, tokenizer, dtype=dtype, finish=finish)
    print(f"{out}: {cfg.family}, {transformer.num_params(cfg) / 1e6:,.1f} M parameters, {dtype}")


def _push(folder: Path, name: str, private: bool) -> str:
    """Upload a folder; return its address. Raises SpicejaxError where the Hub is not reached or refuses."""
    from huggingface_hub import HfApi

    try:
        api = HfApi()
        api.create_repo(name, private=private, exist_ok=True)
        return str(api.upload_folder(folder_path=folder, repo_id=name))
    except Exception as error:  # the library raises those of whichever HTTP client it has
        why, fix = hub.refusal(error, name)
        with_what = "a token that may write (`hf auth login`, or HF_TOKEN)" if fix else "internet and `hf auth login`"
        raise SpicejaxError(
            f"{folder} is written, but --push={name} failed ({why}); with {with_what}, the same command, or "
            f"`hf upload {name} {folder}`, goes on"
        ) from error
