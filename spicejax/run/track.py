"""Metrics to the tracker of one's choice, through its own library; metrics.jsonl is written whatever becomes of it."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from spicejax.run.metrics import plain

log = logging.getLogger(__name__)

Name = Literal["none", "tensorboard", "wandb", "trackio"]
_MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb", "trackio": "trackio"}  # module of each
PROJECT = "spicejax"


def require(name: Name) -> None:
    """Raise ImportError where the tracker's library is not installed."""
    if name != "none" and importlib.util.find_spec(_MODULES[name]) is None:
        raise ImportError(f'tracker={name} needs {_MODULES[name]}: pip install "spicejax[{name}]"')


class Tracker:
    """A run at a tracker. What fails there is counted in `failures` and told once; it never ends the run."""

    def __init__(self, name: Name, *, run: str, workdir: Path, config: Mapping[str, Any], start: int = 0) -> None:
        """start: iterations done before; what a tracker has of later ones is replaced where it can be.

        W&B stays offline (`wandb sync` sends it later) where it knows no key: nothing ever asks for one.
        """
        self.failures = 0
        self._log: Callable[[int, dict[str, float]], Any] = lambda step, values: None
        self._close: Callable[[], Any] = lambda: None
        if name == "tensorboard":
            self._attempt(lambda: self._tensorboard(workdir, start))
        elif name == "wandb":
            self._attempt(lambda: self._wandb(run, workdir, config))
        elif name == "trackio":
            self._attempt(lambda: self._trackio(run, config))

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """The numbers among `values`, after `step` iterations."""
        numbers = {k: float(v) for k, v in plain(values).items() if isinstance(v, int | float)}
        self._attempt(lambda: self._log(step, numbers))

    def close(self) -> None:
        """Send what waits."""
        self._attempt(self._close)

    def _tensorboard(self, workdir: Path, start: int) -> None:
        from tensorboardX import SummaryWriter

        writer = SummaryWriter(
            str(workdir / "tensorboard"), purge_step=start + 1 if start else None, filename_suffix=f".{start}"
        )

        def scalars(step: int, values: dict[str, float]) -> None:
            for name, value in values.items():
                writer.add_scalar(name, value, step)

        self._log, self._close = scalars, writer.close

    def _wandb(self, run: str, workdir: Path, config: Mapping[str, Any]) -> None:
        import wandb  # pyright: ignore[reportMissingImports]

        mode: Any = os.environ.get("WANDB_MODE") or ("online" if wandb.api.api_key else "offline")
        made = wandb.init(project=PROJECT, name=run, dir=str(workdir), config=dict(config), mode=mode, resume="allow")
        self._log, self._close = (lambda step, values: made.log(values, step=step)), made.finish

    def _trackio(self, run: str, config: Mapping[str, Any]) -> None:
        import trackio

        trackio.init(project=PROJECT, name=run, config=dict(config), resume="allow", embed=False)
        self._log, self._close = (lambda step, values: trackio.log(values, step=step)), trackio.finish

    def _attempt(self, act: Callable[[], Any]) -> None:
        try:
            act()
        except Exception as error:  # whatever a library of others raises
            self.failures += 1
            if self.failures == 1:
                log.warning("the tracker failed: %s; training goes on, further failures are only counted", error)
