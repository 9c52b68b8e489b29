"""A model as a player: prompts in, Rollouts out. The refill loop and the host/device line live here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from spicejax import interrupt, sharding
from spicejax.generate import engine
from spicejax.generate.lanes import Lane, More, Request, Slots, load_batches
from spicejax.generate.layout import Buckets, Talk, Work, layout_for
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.schedule import Schedule
from spicejax.generate.stops import StopMachine
from spicejax.models import transformer
from spicejax.models.cache import KVCache
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Messages, Params, Rollout


@runtime_checkable
class Decoder(Protocol):
    """What the policy needs of a tokenizer."""

    def decode(self, ids: Sequence[int]) -> str: ...


class Written(NamedTuple):
    """A turn that a row has written."""

    prompt: int  # place among the call's prompts
    sample: int
    reply: Rollout  # the turn alone


# Turns to the places among them of those that are answered, and a function that waits for the answers.
Answer = Callable[[list[Written]], tuple[list[int], Callable[[], list[More]]]]


def unseen(done: int, total: int) -> None:
    """Nobody looks how far a call is."""


def _unable(_: object) -> list[int]:
    raise ValueError("this player was given no tokenizer and chat template; ask it with token ids")


@dataclasses.dataclass(frozen=True)
class Player:
    """A model that can speak: parameters, tokenizer, stop rule and sampler shapes."""

    cfg: TransformerConfig
    params: Params
    decoder: Decoder
    stop: StopMachine
    buckets: Buckets
    mesh: jax.sharding.Mesh
    render: Callable[[Messages], list[int]] = _unable  # a chat to prompt ids, contents as plain text
    encode: Callable[[str], list[int]] = _unable  # plain text to ids; no spelling of a control token gives its id
    write: Callable[[str], list[int]] = _unable  # a reply to the ids that the player would write, its end included
    opening: str = ""  # thinking that every prompt opens: a reply's text begins with it, its tokens behind it
    count: Callable[[int, int], None] = unseen  # told how many rows of a call are done, and of how many

    def with_params(self, params: Params) -> Player:
        """The same player with other weights."""
        return dataclasses.replace(self, params=params)

    def layout(self, bucket: int, prompts: int, samples: int, max_new: int, talk: Talk | None = None) -> engine.Layout:
        """The engine's shape for so many prompts of one bucket."""
        return layout_for(self.cfg, self.buckets, self.mesh, Work(bucket, prompts, samples, max_new, talk))

    def respond(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        first_row: Sequence[int],
        key: jax.Array,
        settings: SamplerConfig,
        max_new: int,
        limits: Sequence[int] | None = None,
    ) -> list[list[Rollout]]:
        """Sample `samples` responses to every prompt.

        Args:
          prompts: token ids, each of 1 to the largest bucket's length.
          first_row: row id of each prompt's first sample; sample j has the stream `first_row + j`.
          key: typed key of this iteration and role.
          max_new: most tokens of a response, the stop token included.
          limits: the same for each prompt by itself, at most `max_new`.
        Raises: ValueError for an empty or too long prompt, FloatingPointError when the model gives NaN,
          interrupt.Stopped between two calls of the device where a signal came.
        """
        limits = [max_new] * len(prompts) if limits is None else limits
        if samples < 1 or max_new < 1 or not all(1 <= n <= max_new for n in limits):
            raise ValueError(f"samples={samples}, max_new={max_new}, limits={limits}: at least 1, limits <= max_new")
        replies: dict[tuple[int, int], Rollout] = {}

        def answer(turns: list[Written]) -> tuple[list[int], Callable[[], list[More]]]:
            replies.update({(i, j): reply for i, j, reply in turns})
            return [], list

        done, total = 0, len(prompts) * samples
        self.count(done, total)
        for bucket, requests in self._by_bucket(prompts, first_row, limits):
            shape = self.layout(bucket, len(requests), samples, max_new)
            done = self._run(shape, requests, samples, key[None], settings, answer, done, total)
        return [[replies[i, j] for j in range(samples)] for i in range(len(prompts))]

    def converse(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        first_row: Sequence[int],
        key: jax.Array,
        settings: SamplerConfig,
        talk: Talk,
        answer: Answer,
    ) -> None:
        """Sample `samples` rows of several turns for every prompt. Each token's KV entry is computed once.

        Which turns `answer` is given together, and when, depends on lengths alone; what it is asked for of one call
        is waited for while the other rows write on.

        Args:
          key: turn n of a row draws from (fold_in(key, n), row id), as `respond` does.
          answer: called on the main thread, on all hosts alike. The last turn that `talk` allows is not answered.
        Raises: as `respond`.
        """
        keys = jax.vmap(lambda n: jax.random.fold_in(key, n))(np.arange(talk.turns))
        done, total = 0, len(prompts) * samples
        self.count(done, total)
        for bucket, requests in self._by_bucket(prompts, first_row, [talk.turn] * len(prompts)):
            shape = self.layout(bucket, len(requests), samples, talk.turn, talk)
            done = self._run(shape, requests, samples, keys, settings, answer, done, total)

    def _by_bucket(
        self, prompts: Sequence[Sequence[int]], first_row: Sequence[int], limits: Sequence[int]
    ) -> list[tuple[int, list[Request]]]:
        if any(len(p) == 0 for p in prompts):
            raise ValueError("an empty prompt cannot be continued; give at least one token")
        by_bucket: dict[int, list[Request]] = {}
        for i, prompt in enumerate(prompts):
            request = Request(i, np.asarray(prompt, np.int32), first_row[i], limits[i])
            by_bucket.setdefault(self.buckets.fit(len(prompt)), []).append(request)
        return sorted(by_bucket.items())

    def _run(
        self,
        shape: engine.Layout,
        requests: list[Request],
        samples: int,
        keys: jax.Array,
        settings: SamplerConfig,
        answer: Answer,
        done: int,
        total: int,
    ) -> int:
        """Keep the slots of one engine busy until every row of the requests is written; return the rows done of all."""
        plan = Schedule(len(requests), samples, slots=shape.prompts, group=shape.group)
        rows = Slots(shape)
        whole = sharding.replicated(self.mesh)
        drawing = sharding.put_global(engine.Drawing(self.stop.transitions, keys, settings.knobs()), whole)
        prefix, state = engine.init_prefix_jit(layout=shape), engine.init_state_jit(layout=shape)
        history = engine.init_history_jit(layout=shape)
        threshold = max(1, round(self.buckets.refill * shape.rows))
        asking: list[int] = []  # row slots that wait to be answered
        answers: Callable[[], list[More]] = list
        while True:
            interrupt.check("stopped while a model wrote")
            loads, fresh = plan.refill(rows.free)
            rows.begin(plan, fresh, requests)
            if not rows.busy.any() and not asking:
                return done
            for batch in load_batches(shape, loads, plan.held.tolist()):
                prefix = self._load(shape, prefix, batch, [requests[lane.prompt].tokens for lane in batch])
            asked, reach = rows.asked(plan, threshold), shape.history
            if engine.reads_in_place(shape):
                reach = shape.reach(int(rows.history_lengths[rows.busy].max(initial=0)))
            with sharding.activations(self.mesh, transformer.activation_sizes(self.cfg, shape.rows)):
                state, out = engine.decode_jit(
                    shape, self.params, engine.Caches(prefix, history), state, asked, drawing,
                    filtered=settings.filtered, reach=reach,
                )  # fmt: skip
            more = answers()  # while the devices decode
            out = sharding.fetch(out)
            if not out.finite:
                raise FloatingPointError(
                    "the sampler met NaN or infinite logits; the parameters are damaged or overflow"
                )
            ended = rows.ended(out)
            if asking:
                history = self._append(shape, prefix, history, state, rows, asking, more)
                rows.resume(asking, more)
            places, answers = answer([self._written(requests, plan, out, row) for row in ended])
            asking = [ended[i] for i in places]
            over = [row for row in ended if row not in asking]
            rows.vacate(over)
            done += len(over)
            self.count(done, total)

    def _load(self, shape: engine.Layout, prefix: KVCache, batch: list[Lane], prompts: list[np.ndarray]) -> KVCache:
        """Prefill prompts, all tokens but the last of each, and put them into their prompt slots."""
        jax.block_until_ready(prefix)  # one prefill's prompts at a time: dispatched ahead, each would take memory
        per_shard, lanes = shape.prompts // shape.shards, shape.lanes // shape.shards
        tokens = np.zeros((shape.shards, lanes, shape.prefix), np.int32)
        lengths = np.zeros((shape.shards, lanes), np.int32)
        targets = np.full((max(len(lane.slots) for lane in batch), shape.shards, lanes), per_shard, np.int32)
        used = [0] * shape.shards
        for (shard, _, slots), prompt in zip(batch, prompts, strict=True):
            lane, used[shard] = used[shard], used[shard] + 1
            tokens[shard, lane, : len(prompt) - 1] = prompt[:-1]
            lengths[shard, lane], targets[: len(slots), shard, lane] = len(prompt) - 1, slots
        asked = tokens.reshape(shape.lanes, -1), lengths.reshape(-1)
        asked = sharding.put_global(asked, sharding.rows(self.mesh, shape.lanes))
        with sharding.activations(self.mesh, transformer.activation_sizes(self.cfg, shape.lanes)):
            new = engine.prefill_jit(shape, self.params, *asked)
        for target in targets:
            where = sharding.put_global(target, sharding.rows(self.mesh, shape.shards))
            prefix = engine.insert_jit(shape, prefix, new, where)
        return prefix

    def _append(
        self,
        shape: engine.Layout,
        prefix: KVCache,
        history: KVCache | None,
        state: engine.State,
        rows: Slots,
        asking: list[int],
        more: list[More],
    ) -> KVCache | None:
        """Put turns, and what is shown behind them, into the histories of their rows."""
        per_shard, readers = shape.rows // shape.shards, shape.readers // shape.shards
        by_shard: list[list[tuple[int, More]]] = [[] for _ in range(shape.shards)]
        lengths = rows.history_lengths + rows.written
        # The shortest first, so that those which are read together reach about as far.
        for row, one in sorted(zip(asking, more, strict=True), key=lambda pair: lengths[pair[0]] + len(pair[1].tokens)):
            by_shard[row // per_shard].append((row, one))
        for at in range(0, max(map(len, by_shard)), readers):
            reach = 0
            shown = engine.Shown(
                rows=np.full((shape.shards, readers), per_shard, np.int32),
                tokens=np.zeros((shape.shards, readers, shape.shown), np.int32),
                prefix_lengths=np.zeros((shape.shards, readers), np.int32),
                history_lengths=np.zeros((shape.shards, readers), np.int32),
            )
            for shard, queue in enumerate(by_shard):
                for lane, (row, one) in enumerate(queue[at : at + readers]):
                    shown.rows[shard, lane] = row % per_shard
                    shown.tokens[shard, lane, : len(one.tokens)] = [rows.last_token[row], *one.tokens[:-1]]
                    shown.prefix_lengths[shard, lane] = rows.prefix_lengths[row // shape.group]
                    shown.history_lengths[shard, lane] = rows.history_lengths[row]
                    reach = max(reach, shape.reach(int(lengths[row]) + len(one.tokens)))
            flat = [shown.rows, *(x.reshape(shape.readers, *x.shape[2:]) for x in shown[1:])]
            placed = sharding.put_global(
                engine.Shown(*flat), engine.Shown(*(sharding.rows(self.mesh, len(x)) for x in flat))
            )
            with sharding.activations(self.mesh, transformer.activation_sizes(self.cfg, shape.readers)):
                history = engine.append_jit(shape, self.params, prefix, history, state, placed, reach=reach)
        return history

    def _written(self, requests: list[Request], plan: Schedule, out: engine.Output, i: int) -> Written:
        n, prompt = int(out.lengths[i]), plan.prompt.reshape(-1)[i]
        ids = np.asarray(out.tokens[i, :n])
        reply = Rollout(
            prompt_ids=requests[prompt].tokens,
            token_ids=ids,
            logprobs=np.asarray(out.logprobs[i, :n]),
            sample_logprobs=np.asarray(out.sample_logprobs[i, :n]),
            loss_mask=np.ones(n, np.float32),
            text=self.opening + self.stop.trim(self.decoder.decode(ids.tolist())),
            finish_reason="stop" if out.stopped[i] else "length",
        )
        return Written(requests[prompt].index, int(plan.sample.reshape(-1)[i]), reply)
