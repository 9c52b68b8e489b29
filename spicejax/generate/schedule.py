"""The queue of samples, and their assignment to the engine's prefixes and lanes."""

from __future__ import annotations

import collections

import numpy as np


class Schedule:
    """Assign samples of prompts to free lanes.

    A free lane takes the next sample of its prefix's prompt, without a prefill. A prefix whose prompt has no samples
    left takes the next prompt; when all are taken, a copy of the one with most samples waiting.
    """

    def __init__(self, prompts: int, samples: int, *, prefixes: int, group: int):
        """
        Args:
          prompts: number of prompts, at least 1, each sampled `samples` times.
          prefixes: U; group: lanes G of each.
        """
        self.samples = samples
        self.started = np.zeros(prompts, np.int32)  # samples assigned, by prompt
        self.untouched = collections.deque(range(prompts))
        self.held = np.full(prefixes, -1, np.int32)  # prompt in each prefix; -1 = none yet
        self.prompt = np.full((prefixes, group), -1, np.int32)  # prompt and sample in each lane
        self.sample = np.full((prefixes, group), -1, np.int32)

    @property
    def left(self) -> int:
        """Samples that no lane has taken."""
        return int(self.samples * len(self.started) - self.started.sum())

    def waiting(self) -> np.ndarray:
        """int32 [U]: samples of each prefix's prompt that no lane has taken."""
        return np.where(self.held >= 0, self.samples - self.started[self.held], 0).astype(np.int32)

    def refill(self, free: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Give work to free lanes (bool [U, G]); return the prefixes to load and the lanes that start (bool [U, G])."""
        loads: list[int] = []
        fresh = np.zeros_like(free)
        for prefix in range(len(self.held)):
            if free[prefix].all() and self.waiting()[prefix] == 0:
                prompt = self._next_prompt()
                if prompt is None:
                    continue
                self.held[prefix] = prompt
                loads.append(prefix)
            prompt = int(self.held[prefix])
            lanes = np.flatnonzero(free[prefix])[: self.waiting()[prefix]]
            self.prompt[prefix, lanes] = prompt
            self.sample[prefix, lanes] = self.started[prompt] + np.arange(len(lanes))
            self.started[prompt] += len(lanes)
            fresh[prefix, lanes] = True
        return loads, fresh

    def move(self, lanes: np.ndarray) -> None:
        """Go on with some of the lanes, each with a prefix of its own, when no sample waits."""
        self.held = self.prompt.reshape(-1)[lanes]
        self.prompt, self.sample = self.held[:, None], self.sample.reshape(-1)[lanes][:, None]

    def _next_prompt(self) -> int | None:
        if self.untouched:
            return self.untouched.popleft()
        prompt = int(np.argmin(self.started))
        return prompt if self.started[prompt] < self.samples else None
