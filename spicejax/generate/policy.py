"""The policy as a player: prompts in, Rollouts out. Buckets, filler rows and the host/device line live here."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from spicejax import sharding
from spicejax.generate import sampler as sampling
from spicejax.generate.stops import StopMachine
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Params, Rollout


@runtime_checkable
class Decoder(Protocol):
    """What the policy needs of a tokenizer."""

    def decode(self, ids: Sequence[int]) -> str: ...


@dataclasses.dataclass(frozen=True)
class Buckets:
    """The shapes the sampler is compiled for. Few and fixed: after each was met once nothing compiles again."""

    prompt: tuple[int, ...]  # prompt lengths in tokens, ascending; the last is the longest prompt accepted
    rows: int  # responses sampled in one call

    def __post_init__(self) -> None:
        if not self.prompt or list(self.prompt) != sorted(set(self.prompt)) or self.prompt[0] < 1:
            raise ValueError(f"prompt buckets {self.prompt}: give ascending positive lengths such as (128, 512)")
        if self.rows < 1:
            raise ValueError(f"rows={self.rows}: must be at least 1")

    def fit(self, length: int) -> int:
        """Smallest bucket that holds `length` tokens."""
        for bucket in self.prompt:
            if length <= bucket:
                return bucket
        raise ValueError(f"a prompt of {length} tokens exceeds the largest bucket, {self.prompt[-1]}; add a larger one")


@dataclasses.dataclass(frozen=True)
class Player:
    """A model that can speak: parameters, tokenizer, stop rule and sampler shapes."""

    cfg: TransformerConfig
    params: Params
    decoder: Decoder
    stop: StopMachine
    buckets: Buckets
    mesh: jax.sharding.Mesh

    def with_params(self, params: Params) -> Player:
        """The same player with other weights."""
        return dataclasses.replace(self, params=params)

    def respond(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        first_row: Sequence[int],
        key: jax.Array,
        settings: sampling.SamplerConfig,
        max_new: int,
    ) -> list[list[Rollout]]:
        """Sample `samples` responses to every prompt.

        Args:
          prompts: token ids, each of 1 to the largest bucket's length.
          first_row: row id of each prompt's first sample; sample j has the stream `first_row + j`.
          key: typed key of this iteration and role.
          max_new: most tokens of a response, the stop token included.
        Raises: ValueError for an empty or too long prompt, FloatingPointError when the model gives NaN.
        """
        if any(len(p) == 0 for p in prompts):
            raise ValueError("an empty prompt cannot be continued; give at least one token")
        buckets = [self.buckets.fit(len(p)) for p in prompts]
        order = sorted(range(len(prompts)), key=lambda i: buckets[i])  # stable: neighbours share a bucket
        per_call = max(1, self.buckets.rows // samples)
        results: list[list[Rollout]] = [[] for _ in prompts]
        start = 0
        while start < len(order):
            bucket = buckets[order[start]]
            chunk = [i for i in order[start : start + per_call] if buckets[i] == bucket]
            start += len(chunk)
            rows = self._call(
                [prompts[i] for i in chunk],
                bucket,
                per_call,
                samples,
                [first_row[i] for i in chunk],
                key,
                settings,
                max_new,
            )
            for k, i in enumerate(chunk):
                results[i] = rows[k * samples : (k + 1) * samples]
        return results

    def _call(
        self,
        prompts: list[Sequence[int]],
        bucket: int,
        per_call: int,
        samples: int,
        first_row: list[int],
        key: jax.Array,
        settings: sampling.SamplerConfig,
        max_new: int,
    ) -> list[Rollout]:
        """One jitted call on `per_call` prompts, fillers included; returns the real rows in order."""
        tokens = np.zeros((per_call, bucket), np.int32)
        lengths = np.ones(per_call, np.int32)
        for i, prompt in enumerate(prompts):
            tokens[i, : len(prompt)] = prompt
            lengths[i] = len(prompt)
        index = np.repeat(np.arange(per_call, dtype=np.int32), samples)
        row_ids = np.zeros((per_call, samples), np.int32)
        row_ids[: len(prompts)] = np.asarray(first_row, np.int32)[:, None] + np.arange(samples, dtype=np.int32)
        by_row = sharding.rows(self.mesh, len(index))
        by_prompt = sharding.rows(self.mesh, per_call)
        batch = sampling.Prompts(
            tokens=sharding.put_global(tokens, by_prompt),
            lengths=sharding.put_global(lengths, by_prompt),
            index=sharding.put_global(index, by_row),
            row_ids=sharding.put_global(row_ids.reshape(-1), by_row),
            active=sharding.put_global(index < len(prompts), by_row),
        )
        knobs = sampling.Knobs(
            jnp.float32(settings.temperature),
            jnp.int32(settings.top_k),
            jnp.float32(settings.top_p),
            jnp.float32(settings.min_p),
        )
        out = sharding.fetch(
            sampling.sample_jit(
                self.cfg,
                self.params,
                batch,
                jnp.asarray(self.stop.transitions),
                key,
                knobs,
                jnp.int32(max_new),
                max_new=max_new,
                filtered=settings.filtered,
            )
        )
        if not out.finite:
            raise FloatingPointError("the sampler met NaN or infinite logits; the parameters are damaged or overflow")
        return [self._rollout(prompts[i // samples], out, i) for i in range(len(prompts) * samples)]

    def _rollout(self, prompt: Sequence[int], out: sampling.Samples, i: int) -> Rollout:
        n = int(out.lengths[i])
        ids = np.asarray(out.tokens[i, :n])
        return Rollout(
            prompt_ids=np.asarray(prompt, np.int32),
            token_ids=ids,
            logprobs=np.asarray(out.logprobs[i, :n]),
            sample_logprobs=np.asarray(out.sample_logprobs[i, :n]),
            loss_mask=np.ones(n, np.float32),
            text=self.stop.trim(self.decoder.decode(ids.tolist())),
            finish_reason="stop" if out.stopped[i] else "length",
        )
