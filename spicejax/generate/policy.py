"""The policy as a player: prompts in, Rollouts out. Buckets, the refill loop and the host/device line live here."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from spicejax import interrupt, sharding
from spicejax.generate import engine
from spicejax.generate.sampler import Knobs, SamplerConfig
from spicejax.generate.schedule import Schedule
from spicejax.generate.stops import StopMachine
from spicejax.models import cache as caching
from spicejax.models import transformer
from spicejax.models.cache import KVCache
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Messages, Params, Rollout

CacheChoice = Literal["compute", "float32", "bfloat16", "int8"]

# Newest tokens of each response that an int8 cache keeps in the precision of the forward pass. XLA:TPU writes a single
# column of an 8-bit array through copies of the whole; this many it writes in place.
WINDOW = 128

# Most rows that share one copy of a prompt when all samples of a call have a row of their own. With 32 a prompt four
# times as long as its responses takes an eighth of what they take; more would only be another shape to compile.
WIDEST = 32


@runtime_checkable
class Decoder(Protocol):
    """What the policy needs of a tokenizer."""

    def decode(self, ids: Sequence[int]) -> str: ...


@dataclasses.dataclass(frozen=True)
class Buckets:
    """The shapes the sampler is compiled for. Few and fixed: after each was met once nothing compiles again."""

    prompt: tuple[int, ...]  # prompt lengths in tokens, ascending; the last is the longest prompt accepted
    rows: int  # row slots: responses written at the same time
    refill: float = 0.125  # share of the row slots that must be free before waiting work is put into them
    prefill_chunk: int = 512  # tokens that each part of the mesh prefills at once; long prompts go in such pieces
    cache: CacheChoice = "compute"  # precision of the KV entries; compute = that of the forward pass
    kv_tokens: int = 0  # most tokens whose KV entries are held at once, prompts and responses; fewer rows then. 0 = any

    def __post_init__(self) -> None:
        if not self.prompt or list(self.prompt) != sorted(set(self.prompt)) or self.prompt[0] < 1:
            raise ValueError(f"prompt buckets {self.prompt}: give ascending positive lengths such as (128, 512)")
        for name, least in (("rows", 1), ("prefill_chunk", 1), ("kv_tokens", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least {least}")
        if not 0 <= self.refill <= 1:
            raise ValueError(f"refill={self.refill}: give a share of the rows, 0 to 1")

    def fit(self, length: int) -> int:
        """Smallest bucket that holds `length` tokens."""
        if length <= self.prompt[-1]:
            return next(bucket for bucket in self.prompt if length <= bucket)
        raise ValueError(f"a prompt of {length} tokens exceeds the largest bucket, {self.prompt[-1]}; add a larger one")


class Request(NamedTuple):
    """One prompt of a call."""

    index: int  # place among the call's prompts
    tokens: np.ndarray  # int32 [P]
    first_row: int
    limit: int


@dataclasses.dataclass(frozen=True)
class Talk:
    """What rows of several turns may take, in tokens."""

    turns: int  # most turns of the model
    turn: int  # of one turn
    shown: int  # put behind one turn
    total: int  # of a row behind its prompt


class Written(NamedTuple):
    """A turn that a row has written."""

    prompt: int  # place among the call's prompts
    sample: int
    reply: Rollout  # the turn alone


class More(NamedTuple):
    """What a row is shown behind a turn, and what it may write then."""

    tokens: Sequence[int]  # 1 and more
    limit: int  # most tokens of the next turn


# Turns to the places among them of those that are answered, and a function that waits for the answers.
Answer = Callable[[list[Written]], tuple[list[int], Callable[[], list[More]]]]


class Work(NamedTuple):
    """What one engine is to write: responses to prompts of one bucket."""

    bucket: int  # most tokens of a prompt
    prompts: int
    samples: int  # of each
    max_new: int  # most tokens of a response, or of a turn
    talk: Talk | None = None  # rows of several turns

    @property
    def behind(self) -> int:
        """Most KV entries behind a prompt."""
        return self.max_new + (self.talk.total if self.talk else 0)


def layout(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work) -> engine.Layout:
    """The engine's shape for some work.

    Where samples wait for a row, prompt slots are as narrow as `rows_a_prompt` says; where all have one, wide, so that
    a prompt is held as seldom as possible. These are all shapes there are.
    """
    narrow = _layout(cfg, buckets, mesh, work, rows_a_prompt(buckets, work))
    most = max(buckets.kv_tokens, narrow.prompts * _slot_tokens(narrow))
    for group in range(min(WIDEST, work.samples, buckets.rows), narrow.group, -1):
        if work.samples % group == 0:
            wide = _layout(cfg, buckets, mesh, work, group)
            holds_all = work.prompts * work.samples <= wide.rows and wide.shards == narrow.shards
            if holds_all and (not buckets.kv_tokens or wide.prompts * _slot_tokens(wide) <= most):
                return wide
    return narrow


def _layout(cfg: TransformerConfig, buckets: Buckets, mesh: jax.sharding.Mesh, work: Work, group: int) -> engine.Layout:
    """The engine's shape with `group` row slots of each prompt slot."""
    ways = sharding.ways(mesh, 0)
    pieces = -(-work.bucket // buckets.prefill_chunk)
    chunk = -(-work.bucket // pieces)
    talk = work.talk or Talk(turns=1, turn=0, shown=0, total=0)
    window = work.max_new if work.talk else min(WINDOW, work.max_new)  # a turn is kept whole until it is history
    shape = engine.Layout(
        model=cfg,
        prompts=buckets.rows // group,
        group=group,
        prefix=pieces * chunk,
        suffix=work.max_new,
        window=window if buckets.cache == "int8" else 0,
        lanes=1,
        chunk=chunk,
        cache=cfg.dtype if buckets.cache == "compute" else buckets.cache,
        mesh=mesh,
        turns=talk.turns,
        history=talk.total,
        shown=talk.shown,
    )
    prompts = shape.prompts
    if buckets.kv_tokens:
        # At least one slot for each part of the mesh: a slot less and every part would hold all of them.
        prompts = min(prompts, max(ways, buckets.kv_tokens // _slot_tokens(shape)))
    if prompts > ways:
        prompts -= prompts % ways  # so that each part of the mesh holds whole prompt slots
    shards = sharding.ways(mesh, prompts)
    lanes = shards * max(1, min(prompts // shards, buckets.prefill_chunk // chunk))
    most = min(prompts * group // shards, buckets.prefill_chunk // talk.shown) if talk.shown else 0
    readers = shards * max(1, most) if talk.shown else 0
    return dataclasses.replace(shape, prompts=prompts, lanes=lanes, readers=readers)


def _slot_tokens(shape: engine.Layout) -> int:
    """What a prompt slot and its rows take, in tokens of the cache's precision; those of a window take more."""
    if not shape.window:
        return shape.prefix + shape.group * (shape.history + shape.suffix)
    cfg = shape.model
    whole, small = (caching.token_bytes(1, cfg.num_kv_heads, cfg.head_dim, dtype) for dtype in (cfg.dtype, shape.cache))
    return shape.prefix + shape.group * (shape.history + shape.ring + math.ceil(shape.window * whole / small))


def rows_a_prompt(buckets: Buckets, work: Work) -> int:
    """Row slots of a prompt slot, a divisor of `samples` where one is large enough.

    A prompt slot takes its next prompt when all its rows are done: with all samples of a prompt side by side it would
    wait for the longest of them, with two rows that take one sample after the other it hardly waits (lengths geometric,
    mean a sixth of the longest, 8 samples: 36 % of the rows' steps write a token, against 85 %). More rows only where
    prompts would else take more memory than half of the responses.
    """
    least, samples = max(2, -(-2 * work.bucket // work.behind)), work.samples
    return min(next((g for g in range(least, samples) if samples % g == 0), samples), buckets.rows)


class Lane(NamedTuple):
    """A prompt to be prefilled in one part of the mesh, and the prompt slots there that take it."""

    shard: int
    prompt: int  # place among the requests
    slots: list[int]  # counted within the shard


def load_batches(shape: engine.Layout, slots: Sequence[int], held: Sequence[int]) -> list[list[Lane]]:
    """Cut what is to be loaded into batches that fit the lanes of every part of the mesh.

    Args:
      slots: prompt slots to load. held: prompt of each prompt slot. A part of the mesh prefills a prompt once, however
        many of its slots take it.
    """
    per_shard, lanes = shape.prompts // shape.shards, shape.lanes // shape.shards
    shards: list[dict[int, Lane]] = [{} for _ in range(shape.shards)]
    for slot in slots:
        shard, inside = divmod(slot, per_shard)
        prompt = int(held[slot])
        shards[shard].setdefault(prompt, Lane(shard, prompt, [])).slots.append(inside)
    queues = [list(by_prompt.values()) for by_prompt in shards]
    longest = max((len(queue) for queue in queues), default=0)
    return [sum((queue[i : i + lanes] for queue in queues), []) for i in range(0, longest, lanes)]


class _Slots:
    """What the host knows of the row slots, by number."""

    def __init__(self, shape: engine.Layout):
        def zeros() -> np.ndarray:
            return np.zeros(shape.rows, np.int32)

        self.shape = shape
        self.vacant = np.ones(shape.rows, bool)
        self.fresh = np.zeros(shape.rows, bool)  # begins a turn at the next call of `decode`
        self.busy = np.zeros(shape.rows, bool)  # writes
        self.first_token, self.row_ids, self.limits = zeros(), zeros(), zeros()
        self.turns, self.history_lengths = zeros(), zeros()
        self.written, self.last_token = zeros(), zeros()  # of the turn that ended last
        self.prefix_lengths = np.zeros(shape.prompts, np.int32)

    @property
    def free(self) -> np.ndarray:
        """bool [U, G]: takes a new row."""
        return self.vacant.reshape(self.shape.prompts, self.shape.group)

    def begin(self, plan: Schedule, fresh: np.ndarray, requests: list[Request]) -> None:
        """Rows begin in some slots, bool [U, G]."""
        for slot, lane in zip(*np.nonzero(fresh), strict=True):
            request, row = requests[plan.prompt[slot, lane]], slot * self.shape.group + lane
            self.prefix_lengths[slot] = len(request.tokens) - 1
            self.first_token[row], self.limits[row] = request.tokens[-1], request.limit
            self.row_ids[row] = request.first_row + plan.sample[slot, lane]
            self.turns[row] = self.history_lengths[row] = 0
        self.fresh |= fresh.reshape(-1)
        self.busy |= self.fresh
        self.vacant &= ~self.busy

    def asked(self, plan: Schedule, threshold: int) -> engine.Rows:
        """What the device needs to know; whoever is fresh has begun then."""
        fresh, self.fresh = self.fresh, np.zeros_like(self.fresh)
        if self.shape.turns > 1:  # a row that pauses is as good as a free slot
            waiting = np.full(self.shape.prompts, self.shape.group, np.int32)
            refill_at = threshold + np.sum(~self.busy)
        else:
            waiting, refill_at = plan.waiting(), min(threshold, plan.left)
        rows = engine.Rows(
            fresh=fresh,
            first_token=self.first_token.copy(),
            row_ids=self.row_ids.copy(),
            turns=self.turns.copy(),
            history_lengths=self.history_lengths.copy(),
            limits=self.limits.copy(),
            prefix_lengths=self.prefix_lengths.copy(),
            waiting=waiting,
            refill_at=np.int32(refill_at),
        )
        return sharding.put_global(rows, jax.tree.map(lambda x: self.shape.place(x.shape), rows))

    def ended(self, out: engine.Output) -> list[int]:
        """The rows that have ended their turn."""
        rows = np.flatnonzero(self.busy & out.done)
        self.busy[rows] = False
        self.written[rows] = out.lengths[rows]
        self.last_token[rows] = out.tokens[rows, out.lengths[rows] - 1]
        return rows.tolist()

    def resume(self, rows: list[int], more: list[More]) -> None:
        """Rows go on behind what they are shown."""
        for row, (tokens, limit) in zip(rows, more, strict=True):
            self.history_lengths[row] += self.written[row] + len(tokens)
            self.first_token[row], self.limits[row] = tokens[-1], limit
        self.turns[rows] += 1
        self.fresh[rows] = self.busy[rows] = True

    def vacate(self, rows: list[int]) -> None:
        """Rows are over."""
        self.vacant[rows] = True


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
        return layout(self.cfg, self.buckets, self.mesh, Work(bucket, prompts, samples, max_new, talk))

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
        rows = _Slots(shape)
        whole = sharding.replicated(self.mesh)
        stops, knobs, keys = sharding.put_global((self.stop.transitions, Knobs(*settings.knobs()), keys), whole)
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
                    shape, self.params, prefix, history, state, asked, stops, keys, knobs,
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
        rows: _Slots,
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
