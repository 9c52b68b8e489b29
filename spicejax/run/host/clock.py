"""The wall time of a run by stage; compilation is counted separately wherever it happens."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import jax
import jax.monitoring

Stage = Literal["loading", "playing", "updating", "evaluating", "answering", "saving"]
COMPILING = "compiling"
NOTE = "stage: "  # prefix of the note on an error that names the stage

_TRACED, _LOWERED, _COMPILED = (
    f"/jax/core/compile/{name}_duration" for name in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
)


class Clock:
    """Seconds of each stage, and the current stage."""

    def __init__(self, tell: Callable[[str, float | None], None]) -> None:
        """tell: called with (text, None) when a stage or a compilation begins, (program, seconds) when it ends."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._tell = tell
        self._began, self._earlier = time.perf_counter(), 0.0
        self._stage: str = "loading"
        self._spans: list[tuple[float, float]] = []  # of compilation; a span within another is dropped
        jax.monitoring.register_event_duration_secs_listener(self._on_event)

    def add(self, seconds: Mapping[str, float], wall: float) -> None:
        """Add the time of earlier starts of the run: by stage, and in all."""
        for stage, taken in seconds.items():
            self.seconds[stage] += taken
        self._earlier += wall

    def close(self) -> None:
        """Stop listening."""
        jax.monitoring.unregister_event_duration_listener(self._on_event)

    @contextlib.contextmanager
    def stage(self, name: Stage, what: str = "") -> Iterator[None]:
        """Count the time of the context for a stage. Stages do not nest; `what` is displayed instead of the name."""
        self._stage = what or name
        self._tell(self._stage, None)
        began, compiled = time.perf_counter(), self.compiled
        try:
            yield
        except (jax.errors.JaxRuntimeError, MemoryError) as error:  # neither names the stage
            error.add_note(f"{NOTE}{self._stage}")
            raise
        finally:
            compiling = self.compiled - compiled
            self.seconds[COMPILING] += compiling
            self.seconds[name] += time.perf_counter() - began - compiling

    @property
    def wall(self) -> float:
        """Seconds since the clock was made, and those of earlier starts."""
        return self._earlier + time.perf_counter() - self._began

    def parts(self) -> dict[str, float]:
        """Seconds of each stage, of compilation, and of everything else; they sum to `wall`."""
        wall = self.wall
        return dict(self.seconds) | {"other": max(0.0, wall - sum(self.seconds.values()))}

    @property
    def compiled(self) -> float:
        """Seconds spent compiling so far."""
        return sum(end - start for start, end in self._spans)

    @property
    def working(self) -> float:
        """Seconds of the stages that recur in every iteration."""
        return sum(self.seconds[name] for name in ("playing", "updating", "evaluating", "saving"))

    def _on_event(self, event: str, duration_secs: float, **more: str | int) -> None:
        if event not in (_TRACED, _LOWERED, _COMPILED):
            return
        end = time.perf_counter()
        while self._spans and self._spans[-1][0] >= end - duration_secs:
            self._spans.pop()
        self._spans.append((end - duration_secs, end))
        program = str(more.get("fun_name", "a program")).removeprefix("jit(").removesuffix(")")
        if event == _LOWERED:
            self._tell(f"compiling {program}", None)
        elif event == _COMPILED:
            self._tell(program, duration_secs)
            self._tell(self._stage, None)
