"""The disk space of a run: its checkpoints and, in a chain, the models that the next stages start from."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from spicejax import config as configuration
from spicejax.learn import learner
from spicejax.models import lora, transformer
from spicejax.models.transformer import TransformerConfig
from spicejax.run.config import CheckpointConfig, RunConfig, with_precision
from spicejax.run.resolve import architecture

POLICY = "policy"  # folder of a finished stage's model, beside its checkpoints


class Need(NamedTuple):
    """What a stage writes, in bytes and numbers of checkpoints; its logs are negligible."""

    checkpoint: int
    kept: int  # checkpoints that stay; one more is there while it is saved
    policy: int  # the model that the next stage starts from; 0 where there is none

    @property
    def rest(self) -> int:
        """Bytes left when the stage is done."""
        return self.kept * self.checkpoint + self.policy

    @property
    def most(self) -> int:
        """Largest number of bytes at any time."""
        return max((self.kept + 1) * self.checkpoint, self.rest)


def need(cfg: RunConfig, shape: TransformerConfig, *, last: bool = True) -> Need:
    """What a stage writes; a checkpoint holds the trained parameters and AdamW's two moments.

    Args:
      shape: of its model.
      last: whether no other stage starts from its model.
    """
    model = with_precision(cfg.model, shape)
    params = transformer.abstract_params(model)
    trained = params if model.lora is None else lora.split(params)[1]
    optimizer = learner.make_optimizer(cfg.learner)
    state = jax.eval_shape(lambda params: learner.init_state(params, optimizer), trained)
    policy = 0 if last else _size(transformer.abstract_params(dataclasses.replace(model, lora=None)))
    return Need(_size(state), _kept(cfg.checkpoint, cfg.iterations), policy)


def _size(tree: object) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _kept(cfg: CheckpointConfig, iterations: int) -> int:
    """Number of checkpoints at the end, which is the largest: the newest `keep`, and the multiples of the period."""
    saved = [*range(cfg.every or iterations, iterations, cfg.every or iterations), iterations]
    of_the_period = [step for step in saved[: -cfg.keep] if cfg.keep_period and step % cfg.keep_period == 0]
    return len(of_the_period) + min(cfg.keep, len(saved))


def needs(stages: Sequence[RunConfig]) -> list[Need]:
    """What each stage of a chain writes; all have the shape of the first one's model."""
    shape = architecture(stages[0])
    return [need(cfg, shape, last=number == len(stages)) for number, cfg in enumerate(stages, 1)]


def most(stages: Sequence[RunConfig]) -> int:
    """Largest number of bytes while a chain is trained; finished stages keep what they wrote."""
    largest, left = 0, 0
    for need_of_stage in needs(stages):
        largest = max(largest, left + need_of_stage.most)
        left += need_of_stage.rest
    return largest


def lacking(stages: Sequence[RunConfig], folders: Sequence[Path], workdir: Path, *, restart: bool = False) -> str:
    """Why the disk of `workdir` has too little space for a run, with the fix; empty where it has enough.

    What an earlier start has written into the stages' folders counts as free.

    Args:
      restart: whether that is set aside, where it takes its room still.
    """
    place, wanted = existing(workdir), most(stages)
    usage = shutil.disk_usage(place)
    room = usage.free + (0 if restart else sum(map(_written, folders)))
    if wanted <= room or not usage.total:  # some mounted services report none
        return ""
    checkpoint = max(each.checkpoint for each in needs(stages))
    fewer = "checkpoint.keep=1" + " checkpoint.keep_period=0" * any(cfg.checkpoint.keep_period for cfg in stages)
    takes = {
        words: most([configuration.parse(cfg, words.split()) for cfg in stages])
        for words in (fewer, "model.lora.rank=16")
    }
    fixes = [f"{words} ({gb(size)})" for words, size in takes.items() if size <= room and size < wanted]
    return (
        f"{workdir} takes up to {gb(wanted)}, {gb(checkpoint)} a checkpoint, and {place} has {gb(room)} for it; "
        f"{', or '.join([*fixes, 'choose a larger place (--workdir)'])}"
    )


def existing(path: Path) -> Path:
    """`path`, or its nearest parent that exists."""
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return place


def gb(size: float) -> str:
    """Bytes as text, in powers of ten as disks and quotas are."""
    return f"{size / 1e9:.3g} GB"


def _written(folder: Path) -> int:
    """Bytes that a stage has written and will drop or need not write again."""
    parts = [*folder.glob("checkpoints/[0-9]*"), folder / POLICY]
    return sum(file.stat().st_size for part in parts for file in part.rglob("*") if file.is_file())
