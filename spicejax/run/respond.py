"""One response to each prompt, by a model or by the policy of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import jax

from spicejax import sharding
from spicejax.generate import weights
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.models import hf
from spicejax.models.transformer import DType
from spicejax.run import evaluate, lengths
from spicejax.run.build import seat
from spicejax.run.host.screen import showing
from spicejax.run.resolve import with_unused
from spicejax.run.store import export
from spicejax.types import Rollout

ROWS = 8  # responses written at the same time


class Loaded(NamedTuple):
    """A model on the first device, with the run whose policy it is."""

    player: Player
    chat_format: lengths.ChatFormat
    run: Path | None  # None = a model by itself
    step: int  # iterations of the run


class Responder(NamedTuple):
    """A model and how it is sampled."""

    player: Player
    settings: SamplerConfig
    max_new: int
    seed: int
    stream: TextIO | None = None  # where progress is shown

    def respond(self, prompts: Sequence[list[int]]) -> list[Rollout]:
        """One response to each prompt; the longest prompt, rounded up to a power of two, is the compiled shape."""
        bucket = 1 << max(4, (max(map(len, prompts)) - 1).bit_length())
        player = dataclasses.replace(self.player, buckets=Buckets((bucket,), min(ROWS, len(prompts))))
        with showing(self.stream, stages=False) as (screen, clock), clock.stage("answering"):
            rows = dataclasses.replace(player, progress=screen.count).respond(
                prompts,
                samples=1,
                first_row=range(len(prompts)),
                key=jax.random.key(self.seed),
                settings=self.settings,
                max_new=self.max_new,
            )
        return [rollout for (rollout,) in rows]


def load(model: str = "", run: Path | None = None, dtype: DType = "float32", stream: TextIO | None = None) -> Loaded:
    """Load the newest policy of the work folder `run` (of a chain: its last stage with one), else the model `model`.

    stream: where progress is shown.
    Raises: as export.find_run, export.load_run and hf.load.
    """
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, tensor=1), jax.devices()[:1])
    with showing(stream, stages=False) as (_, clock), clock.stage("loading"):
        step = 0
        if run is not None:
            run = export.find_run(run) or run
            step, shape, params, tokenizer = export.load_run(run, mesh)
            made = evaluate.saved_config(run)["model"]  # alone: its game may be from outside
            chat_format = lengths.ChatFormat(tokenizer.dated(made.get("date", "")), made.get("template", "chat"))
        else:
            shape, chat_format = hf.read_config(model), lengths.load_chat_format(model)
            shape = with_unused(shape, chat_format.tokenizer)
            _, params = hf.load(model, dtype=dtype, shardings=weights.shardings(weights.parameters(shape, mesh)))
        shape = dataclasses.replace(shape, dtype=dtype)
        params = weights.copier(shape, mesh)(params)
        return Loaded(
            seat(weights.sampled(shape), params, chat_format, Buckets((16,), 1), mesh), chat_format, run, step
        )
