"""Who sits in which slot: the queue of samples and its assignment to the engine's prompt and row slots."""

from __future__ import annotations

import collections

import numpy as np


class Schedule:
    """Samples of prompts, handed to free slots.

    A row slot whose prompt has further samples takes the next of them without a prefill. A prompt slot with no work
    left takes the next prompt; when all are taken, a copy of the one with most samples waiting.
    """

    def __init__(self, prompts: int, samples: int, *, slots: int, group: int):
        """
        Args:
          prompts: number of prompts, at least 1, each asked `samples` times.
          slots: prompt slots U; group: row slots G of each.
        """
        self.samples = samples
        self.begun = np.zeros(prompts, np.int32)  # samples handed out, by prompt
        self.untouched = collections.deque(range(prompts))
        self.held = np.full(slots, -1, np.int32)  # prompt in each prompt slot; -1 = none yet
        self.prompt = np.full((slots, group), -1, np.int32)  # prompt and sample in each row slot
        self.sample = np.full((slots, group), -1, np.int32)

    @property
    def left(self) -> int:
        """Samples that no row slot has taken."""
        return int(self.samples * len(self.begun) - self.begun.sum())

    def waiting(self) -> np.ndarray:
        """int32 [U]: samples of each slot's prompt that no row slot has taken."""
        return np.where(self.held >= 0, self.samples - self.begun[self.held], 0).astype(np.int32)

    def refill(self, free: np.ndarray) -> tuple[list[int], np.ndarray]:
        """Give work to free row slots (bool [U, G]); return the prompt slots to load and who begins (bool [U, G])."""
        loads: list[int] = []
        fresh = np.zeros_like(free)
        for slot in range(len(self.held)):
            if free[slot].all() and self.waiting()[slot] == 0:
                prompt = self._next_prompt()
                if prompt is None:
                    continue
                self.held[slot] = prompt
                loads.append(slot)
            prompt = int(self.held[slot])
            takes = np.flatnonzero(free[slot])[: self.waiting()[slot]]
            self.prompt[slot, takes] = prompt
            self.sample[slot, takes] = self.begun[prompt] + np.arange(len(takes))
            self.begun[prompt] += len(takes)
            fresh[slot, takes] = True
        return loads, fresh

    def _next_prompt(self) -> int | None:
        if self.untouched:
            return self.untouched.popleft()
        most = int(np.argmin(self.begun))
        return most if self.begun[most] < self.samples else None
