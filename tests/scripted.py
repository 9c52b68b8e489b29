"""A player that says what a test tells it to, so that a game can be watched without a model."""

import dataclasses

import numpy as np

from spicejax.generate.policy import Buckets
from spicejax.types import Rollout


@dataclasses.dataclass
class Scripted:
    """A player that says what `script(prompt text, row id)` returns; it remembers what it was asked."""

    script: object
    asked: list = dataclasses.field(default_factory=list)
    buckets: Buckets = Buckets((500,), 8)

    @staticmethod
    def render(messages):
        return list(messages[-1]["content"].encode())

    @staticmethod
    def write(text):
        return [*text.encode(), 0]

    def respond(self, prompts, *, samples, first_row, key, settings, max_new):
        out = []
        for prompt, row in zip(prompts, first_row, strict=True):
            text = bytes(prompt).decode()
            self.asked.append((text, row))
            replies = [self.script(text, row + j) for j in range(samples)]
            out.append([self.rollout(prompt, r) for r in replies])
        return out

    @staticmethod
    def rollout(prompt, reply):
        n = len(reply)
        zeros = np.zeros(n, np.float32)
        finish = "length" if reply.endswith("…") else "stop"
        return Rollout(np.asarray(prompt), np.arange(n, dtype=np.int32), zeros, zeros, zeros + 1, reply, finish)
