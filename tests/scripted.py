"""Players that say what a test tells them to, so that a game can be watched without a model."""

import dataclasses

import jax
import numpy as np
from replay import Replaying
from tiny_models import QWEN3

from spicejax import sharding
from spicejax.games.world import World
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.search import Searched, Turn
from spicejax.generate.stops import ACCEPT, stop_machine
from spicejax.types import Rollout


def world(players, check=lambda pairs: [], **more):
    """The world of these players at the first iteration of seed 0."""
    return World(players, check, **{"sampler": SamplerConfig(), "seed": 0, "iteration": 0} | more)


def written(text, finish="stop", prompt=""):
    """A rollout of which the text alone counts."""
    none = np.zeros(0, np.float32)
    return Rollout(np.frombuffer(prompt.encode(), np.uint8), none, none, none, none, text, finish)


def searched(*turns, shown=()):
    """A row of these turns, each but the last a text and its query; every query was shown the same passages."""
    *before, last = turns
    answered = [Turn(0, 1, text, query, tuple(shown)) for text, query in before]
    return Searched(written(""), (*answered, Turn(1, 2, last)))


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
    def write(text, *, ended=True):
        return [*text.encode(), *[0] * ended]

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


ONE_BYTE = [b"", *(bytes([i]) for i in range(1, 256))]  # tokens of `typist`; 0 ends a response


@dataclasses.dataclass(frozen=True)
class Pieces:
    """Decoder of tokens with these bytes."""

    pieces: list

    def decode(self, ids):
        return b"".join(self.pieces[i] for i in ids).decode(errors="replace")


@dataclasses.dataclass(frozen=True)
class Typist(Replaying):
    """A player that types what `script(text so far, row id)` returns, token by token, until its stop machine says so.

    Its logprobs count down: token t of a response has -(t + 1).
    """

    script: object = None
    asked: list = dataclasses.field(default_factory=list)  # (text so far, row id), in the order asked
    keys: list = dataclasses.field(default_factory=list)  # of each call
    end: int = 0  # the token that ends a response

    def respond(self, prompts, *, samples, first_row, key, settings, max_new, limits=None):
        self.keys.append(key)
        limits = [max_new] * len(prompts) if limits is None else limits
        given = zip(prompts, first_row, limits, strict=True)
        return [[self.type(p, row + j, limit) for j in range(samples)] for p, row, limit in given]

    def type(self, prompt, row, limit):
        text = self.decoder.decode(prompt)
        self.asked.append((text, row))
        ids, state = [], 0
        for token in [*self.encode(self.script(text, row)), self.end][:limit]:
            ids.append(token)
            state = self.stop.transitions[token, state]
            if state == ACCEPT:
                break
        n, finish = len(ids), "stop" if state == ACCEPT else "length"
        logprobs, text = -1.0 - np.arange(n, dtype=np.float32), self.stop.trim(self.decoder.decode(ids))
        ids, prompt = np.array(ids, np.int32), np.asarray(prompt, np.int32)
        return Rollout(prompt, ids, logprobs, logprobs, logprobs * 0 + 1, text, finish)


def typist(script, strings=("\nUser:",), pieces=ONE_BYTE, opening=""):
    """A Typist with these stop strings, who types bytes; those that are no letters may stand for longer pieces."""
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    stop, buckets = stop_machine(256, [0], strings, pieces), Buckets((4000,), 8)
    voice = {"render": Scripted.render, "encode": lambda text: list(text.encode()), "opening": opening}
    voice["write"] = Scripted.write
    return Typist(QWEN3, {}, Pieces(pieces), stop, buckets, mesh, **voice, script=script)
