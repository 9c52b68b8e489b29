"""Export of a trained policy: the newest good checkpoint of a run as a Hugging Face folder.

It reads only the parameters and where their model came from, so that a run stays exportable when fields of its
configuration, its game or its optimizer have since been renamed, added or removed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
from jax.sharding import Mesh

from spicejax import config as configuration
from spicejax import hosts, sharding
from spicejax.generate import weights
from spicejax.models import exported, files, hf, lora, peft, transformer
from spicejax.models.lora import LoraConfig
from spicejax.report.read import last_stage, stages_of
from spicejax.run.store.checkpoint import Saved
from spicejax.text import tokens
from spicejax.types import Params
from spicejax.worlds.nano import maker as nano

T = TypeVar("T")
Finish = Callable[[Path, int], None]  # (folder, iterations): writes more files before the folder is moved into place


class Trained(NamedTuple):
    """The trained parameters of a run, from its newest good checkpoint."""

    step: int  # iterations done
    shape: transformer.TransformerConfig  # of the plain model, in the precision of its parameters
    source: str  # what model.path was
    lora: LoraConfig | None
    params: Params  # all of them, or the adapters alone
    mesh: Mesh


def find_run(path: str | Path) -> Path | None:
    """The work folder of a run: `path`, or of a chain its last stage with a checkpoint; None if it is neither.

    Raises: FileNotFoundError for a chain that has saved nothing.
    """
    path = Path(path)
    if not any((folder / "checkpoints").is_dir() for folder in (path, *stages_of(path))):
        return None
    return last_stage(path, has_saved, "a checkpoint")


def has_saved(workdir: Path) -> bool:
    """Whether the work folder of a run has a checkpoint."""
    return any((workdir / "checkpoints").glob("[0-9]*[0-9]"))


def read_run(workdir: str | Path, mesh: Mesh | None = None) -> Trained:
    """Read the trained parameters of a run.

    Args:
      mesh: their placement; None = split over all devices. A program takes only arrays on the same devices in the
        same order, so callers that compute with them give their own.
    Raises: FileNotFoundError if `workdir` has no whole checkpoint, or the model it started from is gone; as
      `Saved.restore_params`.
    """
    with _opened(workdir) as (checkpoints, saved):
        path, made = _source(saved), saved["model"]
        shape = dataclasses.replace(hf.read_config(path), param_dtype=made["param_dtype"])
        adapters = None if made.get("lora") is None else _read(LoraConfig, made["lora"])
        mesh = mesh or sharding.make_mesh(sharding.MeshConfig(data=1, fsdp=-1))
        whole = weights.parameters(dataclasses.replace(shape, lora=adapters), mesh)
        found = checkpoints.restore_params(whole if adapters is None else lora.split(whole)[1])
        assert found is not None  # saved_config found a whole one, and damaged ones raise
        step, params = found
    return Trained(step, shape, path, adapters, params, mesh)


def load_run(
    workdir: str | Path, mesh: Mesh | None = None
) -> tuple[int, transformer.TransformerConfig, Params, tokens.Tokenizer]:
    """The trained policy of a run: iterations done, shape, parameters (adapters merged), tokenizer.

    Args and Raises: as `read_run`.
    """
    step, shape, path, adapters, params, mesh = read_run(workdir, mesh)
    if adapters is not None:
        _, base = hf.load(path, dtype=shape.param_dtype, shardings=weights.shardings(weights.parameters(shape, mesh)))
        params = lora.merge(adapters, lora.join(base, params))
    return step, shape, params, tokens.load(path)


def write_adapter(workdir: str | Path, out: str | Path, finish: Finish = lambda folder, step: None) -> int:
    """Write the adapters of a run in PEFT's format, with the tokenizer, to the folder `out`, which is replaced as a
    whole; return the iterations done.

    Args:
      finish: see `Finish`.
    Raises: as `read_run`; ValueError for a run that trains all parameters; FileExistsError for a folder of something
      else; OSError if the disk is full.
    """
    target = exported.require(out, peft.WEIGHTS)
    require_exports(workdir, out, adapter=True)
    found = read_run(workdir)
    assert found.lora is not None
    size = 4 * sum(leaf.size for leaf in jax.tree.leaves(found.params))
    base = found.source if files.loads_elsewhere(found.source) else None
    with exported.folder(target, size) as folder:
        peft.save(folder, found.shape, found.lora, found.params, base=base)
        tokens.load(found.source).save(folder)
        finish(folder, found.step)
    return found.step


def require_other(out: str | Path, model: str | Path) -> None:
    """Raise ValueError if `out` is the folder of the model that is exported."""
    place = hf.locate(model)
    if os.path.exists(out) and os.path.samefile(out, place):
        raise ValueError(f"{out} is the model itself that the export is made of; choose another folder")


def require_exports(workdir: str | Path, out: str | Path, *, adapter: bool = False) -> None:
    """Check that a run can be exported, before anything slow is done.

    Raises: as `read_run`, `require_other`; ValueError if the run has no adapter and `adapter` is asked for.
    """
    with _opened(workdir) as (_, saved):
        if adapter and saved["model"].get("lora") is None:
            raise ValueError(f"{workdir} trains all parameters, it has no adapter; leave --adapter out")
        if saved["model"]["path"] or not saved.get("nano"):
            require_other(out, saved["model"]["path"])
        elif (made := nano.places(_read(nano.NanoConfig, saved["nano"]), saved["seed"]).model).exists():
            require_other(out, made)


@contextlib.contextmanager
def _opened(workdir: str | Path) -> Iterator[tuple[Saved, dict[str, Any]]]:
    """The checkpoints of a run and the configuration of the newest."""
    place = Path(workdir, "checkpoints")
    if not place.is_dir():
        raise FileNotFoundError(f"{workdir} holds no checkpoints; give the --workdir of a run")
    with Saved(place) as checkpoints:
        saved = checkpoints.saved_config()
        if saved is None:
            checkpoints.latest_good()  # says what is damaged, where something was saved
            raise FileNotFoundError(f"{place} holds no whole checkpoint yet")
        yield checkpoints, saved


def _source(saved: dict[str, Any]) -> str:
    """Where the run's first weights came from; the nano model is made again where it is gone."""
    if saved["model"]["path"] or not saved.get("nano"):
        return saved["model"]["path"]
    return str(nano.prepare(_read(nano.NanoConfig, saved["nano"]), saved["seed"]).model)


def _read(cls: type[T], saved: dict[str, Any]) -> T:
    return configuration.from_json(cls, configuration.readable(cls, saved))


def write(
    out: str | Path,
    shape: transformer.TransformerConfig,
    params: Params,
    tokenizer: tokens.Tokenizer,
    *,
    dtype: transformer.DType,
    finish: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Write weights, config and tokenizer files to the folder `out`, which is replaced as a whole.

    Args:
      finish: writes more files before the folder is moved into place.
    Raises: as `hf.save`.
    """
    tokenizer.require_rows(shape.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        _write_ends(Path(folder), tokenizer)
        hf.save(out, shape, params, tokenizer_files_from=folder, dtype=dtype, finish=finish)


def _write_ends(folder: Path, tokenizer: tokens.Tokenizer) -> None:
    """Write where a reply ends: transformers reads it in generation_config.json, vLLM and SGLang in config.json too."""
    ends = list(tokenizer.eos_ids)
    pad = ends[0] if tokenizer.pad_id is None else tokenizer.pad_id
    ids = {"bos_token_id": tokenizer.bos_id, "eos_token_id": ends, "pad_token_id": pad}
    ids = {name: value for name, value in ids.items() if value is not None}
    generation = folder / "generation_config.json"
    own = json.loads(generation.read_text(encoding="utf-8")) if generation.is_file() else {}
    generation.write_text(json.dumps(own | ids, indent=2) + "\n", encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(ids | {"eos_token_id": ends[0]}), encoding="utf-8")


def write_policy(
    workdir: str | Path,
    out: str | Path,
    finish: Finish = lambda folder, step: None,
    *,
    dtype: transformer.DType | None = None,
) -> int:
    """Write a run's policy to `out`, which is replaced as a whole; return the iterations done.

    In a run of several processes all call this.

    Args:
      finish: see `Finish`.
      dtype: of the written weights; None = as trained.
    """
    step, shape, params, tokenizer = load_run(workdir)
    write(out, shape, params, tokenizer, dtype=dtype or shape.param_dtype, finish=lambda folder: finish(folder, step))
    hosts.wait()
    return step
