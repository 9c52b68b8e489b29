"""A model as a player: prompts in, Rollouts out. The refill loop and all transfers to and from the device are here."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from spicejax import interrupt, memory, sharding
from spicejax.generate import drafts, engine
from spicejax.generate.lanes import LaneTable, Observation, Prefill, Request, common, prefill_batches
from spicejax.generate.layout import Buckets, Layout, TurnLimits, Work, layout_for, tails_of, whole
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.schedule import Schedule
from spicejax.generate.state import Caches, Drawing, Output, Parts, State, no_observations
from spicejax.generate.stops import StopMachine
from spicejax.generate.tally import Tally
from spicejax.models import transformer
from spicejax.models.cache import KVCache
from spicejax.models.transformer import TransformerConfig
from spicejax.types import Messages, Params, Rollout


@runtime_checkable
class Decoder(Protocol):
    """The part of a tokenizer that a player needs."""

    def decode(self, ids: Sequence[int]) -> str: ...


class WrittenTurn(NamedTuple):
    """One turn that the model wrote."""

    prompt: int  # place among the call's prompts
    sample: int
    reply: Rollout  # the turn alone


class Kept(NamedTuple):
    """The prompt that each part of the mesh prefilled last."""

    prompts: list[np.ndarray]  # int32 [P], without the last token
    entries: KVCache | None  # see `engine.prefill`


# Turns -> places among them of the rollouts that go on, and a function that waits for their observations.
Observe = Callable[[list[WrittenTurn]], tuple[list[int], Callable[[], list[Observation]]]]


def no_progress(done: int, total: int) -> None:
    """Show no progress."""


def _unable(_: object, **__: object) -> list[int]:
    raise ValueError("this player was given no tokenizer and chat template; ask it with token ids")


@dataclasses.dataclass(frozen=True)
class Player:
    """A model that writes: parameters, tokenizer, stop rule and sampler shapes."""

    cfg: TransformerConfig
    params: Params
    decoder: Decoder
    stop: StopMachine
    buckets: Buckets
    mesh: jax.sharding.Mesh
    render: Callable[[Messages], list[int]] = _unable  # a chat to prompt ids, contents as plain text
    encode: Callable[[str], list[int]] = _unable  # plain text to ids; no text gives the id of a control token
    write: Callable[..., list[int]] = (
        _unable  # a reply to ids as the model would write it; ended=False: without its end
    )
    opening: str = ""  # thinking that ends every prompt; the text of a reply starts with it, its tokens do not
    tally: Tally = dataclasses.field(default_factory=Tally, compare=False)
    progress: Callable[[int, int], None] = no_progress  # called with the finished rollouts of a call and their total

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
          limits: the same for each prompt, at most `max_new`.
        Raises: ValueError for an empty or too long prompt, FloatingPointError where the model gives NaN,
          interrupt.Stopped between two calls of the device after a signal.
        """
        limits = [max_new] * len(prompts) if limits is None else limits
        if samples < 1 or max_new < 1 or not all(1 <= n <= max_new for n in limits):
            raise ValueError(f"samples={samples}, max_new={max_new}, limits={limits}: at least 1, limits <= max_new")
        replies: dict[tuple[int, int], Rollout] = {}

        def observe(turns: list[WrittenTurn]) -> tuple[list[int], Callable[[], list[Observation]]]:
            replies.update({(i, j): reply for i, j, reply in turns})
            return [], list

        done, total = 0, len(prompts) * samples
        self.progress(done, total)
        for bucket, requests in self._by_bucket(prompts, first_row, limits):
            work = Work(bucket, len(requests), samples, max_new)
            done = self._run(work, requests, key[None], settings, observe, done, total)
        return [[replies[i, j] for j in range(samples)] for i in range(len(prompts))]

    def converse(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        samples: int,
        first_row: Sequence[int],
        key: jax.Array,
        settings: SamplerConfig,
        turn_limits: TurnLimits,
        observe: Observe,
    ) -> None:
        """Sample `samples` rollouts of several turns for every prompt; each token's KV entry is computed once.

        Which turns one call of `observe` gets depends on lengths alone. Its observations are awaited while the other
        lanes decode.

        Args:
          key: turn n draws from (fold_in(key, n), row id), as `respond` does.
          observe: called on the main thread, on all hosts alike. The last turn that `turn_limits` allows gets no
            observation.
        Raises: as `respond`.
        """
        keys = jax.vmap(lambda n: jax.random.fold_in(key, n))(np.arange(turn_limits.turns))
        done, total = 0, len(prompts) * samples
        self.progress(done, total)
        for bucket, requests in self._by_bucket(prompts, first_row, [turn_limits.turn] * len(prompts)):
            work = Work(bucket, len(requests), samples, turn_limits.turn, turn_limits)
            done = self._run(work, requests, keys, settings, observe, done, total)

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
        work: Work,
        requests: list[Request],
        keys: jax.Array,
        settings: SamplerConfig,
        observe: Observe,
        done: int,
        total: int,
    ) -> int:
        """Keep the lanes of one engine busy until every request is answered; return the rollouts done so far."""
        shape, most = (of(self.cfg, self.buckets, self.mesh, work) for of in (layout_for, whole))
        schedule = Schedule(work.prompts, work.samples, prefixes=shape.prompts, group=shape.group)
        lanes = LaneTable(shape)
        memory.trim()
        replicated = sharding.replicated(self.mesh)
        drawing = sharding.put_global(Drawing(self.stop.transitions, keys, settings.knobs()), replicated)
        caches, state = engine.init_jit(shape)
        tails = tails_of(shape, most, self.buckets, drafts=0 if self.tally.off else self.buckets.drafts)
        kept = Kept([np.zeros(0, np.int32)] * shape.shards, engine.nothing_kept_jit(shape.filling))
        alike: dict[bytes, int] = {}  # tokens of a prompt -> the first request for them
        first = [alike.setdefault(request.tokens.tobytes(), i) for i, request in enumerate(requests)]
        rows: dict[int, list[np.ndarray]] = {}  # the finished ones of each prompt
        paused: list[int] = []  # lanes that wait for an observation
        awaited: Callable[[], list[Observation]] = list
        while True:
            interrupt.check("stopped while a model wrote")
            prefixes, fresh = schedule.refill(lanes.free)
            lanes.start(schedule, fresh, requests)
            if not lanes.busy.any() and not paused:
                return done
            for batch in prefill_batches(shape, prefixes, [first[prompt] for prompt in schedule.held]):
                prompts = [requests[item.prompt].tokens for item in batch]
                prefix, kept = self._prefill(shape, caches.prefix, kept, batch, prompts)
                caches = caches._replace(prefix=prefix)
            if schedule.left == 0 and lanes.longest < shape.long:
                tails.clear()
            while tails and schedule.left == 0 and (places := lanes.places(tails[0])) is not None:
                caches, state = engine.move(shape, caches, state, places)
                shape = tails.pop(0)
                came = lanes.move(shape, places)
                schedule.move(came)
                paused = [int(np.flatnonzero(~lanes.vacant & (came == lane))[0]) for lane in paused]
            for lane in np.flatnonzero(lanes.busy) if shape.drafts else ():
                prompt = int(schedule.held[lane])
                own = requests[prompt].tokens, *lanes.rows[lane]
                lanes.inputs.known[lane] = drafts.known(shape.known, own, rows.get(prompt, []))
            threshold = max(1, round(self.buckets.refill * shape.lanes))
            inputs, reach = lanes.put(schedule, threshold, tails), shape.history
            if shape.platform == "cpu":
                reach = shape.reach(int(lanes.inputs.history_lengths[lanes.busy].max(initial=0)))
            with sharding.activations(self.mesh, transformer.activation_sizes(self.cfg, shape.lanes)):
                state, out = engine.decode_jit(
                    shape, self.params, caches, state, inputs, drawing, filtered=settings.filtered, reach=reach
                )
            observations = awaited()  # while the devices decode
            out = sharding.fetch(out)
            if not out.finite:
                raise FloatingPointError(
                    "the sampler met NaN or infinite logits; the parameters are damaged or overflow"
                )
            ended = lanes.ended(out)
            if shape.drafts:
                passes = int(out.passes[ended].sum())
                self.tally.passes += passes
                self.tally.accepted += int((out.lengths - lanes.before)[ended].sum()) - passes
            if paused:
                caches = self._append(shape, caches, state, lanes, paused, observations)
                lanes.resume(paused, observations)
            turns = [self._turn(requests, schedule, out, lane) for lane in ended]
            places, awaited = observe(turns)
            paused = [ended[i] for i in places]
            finished = [lane for lane in ended if lane not in paused]
            for lane in finished:
                rows.setdefault(int(schedule.prompt.reshape(-1)[lane]), []).append(np.concatenate(lanes.rows[lane]))
            lanes.release(finished)
            done += len(finished)
            self.progress(done, total)

    def _prefill(
        self, shape: Layout, prefix: Parts, kept: Kept, batch: list[Prefill], prompts: list[np.ndarray]
    ) -> tuple[Parts, Kept]:
        """Prefill prompts, all tokens but the last of each, and insert them into their prefixes."""
        jax.block_until_ready(prefix)  # one batch at a time: dispatched ahead, each would take memory
        per_shard, at_once = shape.prompts // shape.shards, shape.prefills // shape.shards
        tokens = np.zeros((shape.shards, at_once, shape.prefix), np.int32)
        lengths = np.zeros((shape.shards, at_once), np.int32)
        targets = np.tile(
            per_shard + np.arange(at_once, dtype=np.int32), (max(len(x.prefixes) for x in batch), shape.shards, 1)
        )
        used, known, begins = [0] * shape.shards, shape.prefix, list(kept.prompts)
        for (shard, _, prefixes), prompt in zip(batch, prompts, strict=True):
            i, used[shard] = used[shard], used[shard] + 1
            tokens[shard, i, : len(prompt) - 1] = prompt[:-1]
            lengths[shard, i], targets[: len(prefixes), shard, i] = len(prompt) - 1, prefixes
            known = min(known, common(prompt[:-1], kept.prompts[shard]))
            if i == 0:
                begins[shard] = prompt[:-1]
        inputs = tokens.reshape(shape.prefills, -1), lengths.reshape(-1)
        inputs = sharding.put_global(inputs, sharding.rows(self.mesh, shape.prefills))
        chunks = known // shape.chunk
        pieces = 1 if shape.prefix == shape.chunk else -(-int(lengths.max()) // shape.chunk) - chunks
        self.tally.computed += shape.prefills * pieces * shape.chunk
        self.tally.held += sum(len(prompt) - 1 - chunks * shape.chunk for prompt in prompts)
        # A part that has no prompt now keeps no more than all take over: the rest is written over.
        begins = [p if n else p[: chunks * shape.chunk] for p, n in zip(begins, used, strict=True)]
        chunks = sharding.put_global(np.int32(chunks), sharding.replicated(self.mesh))
        with sharding.activations(self.mesh, transformer.activation_sizes(self.cfg, shape.prefills)):
            new, entries = engine.prefill_jit(shape.filling, self.params, kept.entries, chunks, *inputs)
        for target in targets:
            places = sharding.put_global(target, sharding.rows(self.mesh, shape.shards))
            prefix = engine.insert_jit(shape, prefix, new, places)
        return prefix, Kept(begins, entries)

    def _append(
        self,
        shape: Layout,
        caches: Caches,
        state: State,
        lanes: LaneTable,
        paused: list[int],
        observations: list[Observation],
    ) -> Caches:
        """Add the turns of paused lanes, and their observations, to the histories."""
        per_shard, at_once = shape.lanes // shape.shards, shape.appends // shape.shards
        queues: list[list[tuple[int, Observation]]] = [[] for _ in range(shape.shards)]
        lengths = lanes.inputs.history_lengths + lanes.written
        # The shortest first, so that those computed together reach about as far.
        pairs = zip(paused, observations, strict=True)
        for lane, observation in sorted(pairs, key=lambda pair: lengths[pair[0]] + len(pair[1].tokens)):
            queues[lane // per_shard].append((lane, observation))
        for at in range(0, max(map(len, queues)), at_once):
            reach, batch = 0, no_observations(shape)
            for shard, queue in enumerate(queues):
                for i, (lane, (tokens, _)) in enumerate(queue[at : at + at_once]):
                    row = shard * at_once + i
                    batch.lanes[shard, i] = lane % per_shard
                    batch.tokens[row, : len(tokens)] = [lanes.last_token[lane], *tokens[:-1]]
                    batch.prefix_lengths[row] = lanes.inputs.prefix_lengths[lane // shape.group]
                    batch.history_lengths[row] = lanes.inputs.history_lengths[lane]
                    reach = max(reach, shape.reach(int(lengths[lane]) + len(tokens)))
                    self.tally.held += len(tokens)
            self.tally.computed += batch.tokens.size
            batch = sharding.put_global(batch, jax.tree.map(lambda x: sharding.rows(self.mesh, len(x)), batch))
            with sharding.activations(self.mesh, transformer.activation_sizes(self.cfg, shape.appends)):
                history = engine.append_jit(shape, self.params, *caches, state, batch, reach=reach)
            caches = caches._replace(history=history)
        return caches

    def _turn(self, requests: list[Request], schedule: Schedule, out: Output, lane: int) -> WrittenTurn:
        n, prompt = int(out.lengths[lane]), schedule.prompt.reshape(-1)[lane]
        ids = np.asarray(out.tokens[lane, :n])
        reply = Rollout(
            prompt_ids=requests[prompt].tokens,
            token_ids=ids,
            logprobs=np.asarray(out.logprobs[lane, :n]),
            sample_logprobs=np.asarray(out.sample_logprobs[lane, :n]),
            loss_mask=np.ones(n, np.float32),
            text=self.opening + self.stop.trim(self.decoder.decode(ids.tolist())),
            finish_reason="stop" if out.stopped[lane] else "length",
        )
        return WrittenTurn(requests[prompt].index, int(schedule.sample.reshape(-1)[lane]), reply)
