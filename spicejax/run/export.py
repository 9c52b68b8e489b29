"""Export of a trained policy: the newest good checkpoint of a run as a Hugging Face folder."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import jax

from spicejax import config as configuration
from spicejax import sharding
from spicejax.learn import learner
from spicejax.models import hf, lora, transformer
from spicejax.run.checkpoint import Checkpoints
from spicejax.run.config import RunConfig
from spicejax.run.settle import with_world
from spicejax.text import tokens
from spicejax.types import Params


def load_run(workdir: Path) -> tuple[int, transformer.TransformerConfig, Params, tokens.Tokenizer]:
    """The trained policy of a run: iterations done, shape, parameters (adapters merged), tokenizer.

    Raises: FileNotFoundError where `workdir` holds no whole checkpoint; what `Checkpoints.restore` raises.
    """
    if not (workdir / "checkpoints").is_dir():
        raise FileNotFoundError(f"{workdir} holds no checkpoints; give the --workdir of a run")
    with Checkpoints(workdir / "checkpoints", config={}) as checkpoints:
        saved = checkpoints.saved_config()
        if saved is None:
            raise FileNotFoundError(f"{workdir / 'checkpoints'} holds no whole checkpoint yet")
        cfg = with_world(configuration.from_json(RunConfig, saved))
        shape = dataclasses.replace(hf.read_config(cfg.model.path), param_dtype=cfg.model.param_dtype)
        optimizer = learner.make_optimizer(cfg.learner)
        abstract = _trained(dataclasses.replace(shape, lora=cfg.model.lora))
        abstract = jax.eval_shape(lambda p: learner.init_state(p, optimizer), abstract)
        place = sharding.replicated(sharding.make_mesh(sharding.MeshConfig()))
        abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), abstract)
        restored = checkpoints.restore(abstract)
        assert restored is not None  # saved_config found a whole one, and restore raises where all are damaged
        params = restored.state.params
        if cfg.model.lora is not None:
            _, base = hf.load(cfg.model.path, dtype=cfg.model.param_dtype)
            params = lora.merge(cfg.model.lora, lora.join(base, params))
        return restored.step, shape, params, tokens.load(cfg.model.path)


def _trained(shape: transformer.TransformerConfig) -> Params:
    """Shapes of what a run trains and its checkpoints hold."""
    params = transformer.abstract_params(shape)
    return params if shape.lora is None else lora.split(params)[1]


def write(
    out: Path,
    shape: transformer.TransformerConfig,
    params: Params,
    tokenizer: tokens.Tokenizer,
    *,
    dtype: transformer.DType,
) -> None:
    """Write weights, config and tokenizer files to the folder `out`, replacing an older export."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        hf.save(out, shape, params, tokenizer_files_from=folder, dtype=dtype)
