"""The player against a plain sampler: tokens, random streams, refills, stops, precisions and compilations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import qwix
from tiny_models import GEMMA3, QWEN3

from spicejax import sharding
from spicejax.generate import engine
from spicejax.generate import layout as layouts
from spicejax.generate import player as playing
from spicejax.generate import sampler as sampling
from spicejax.generate.layout import Buckets, Layout, TurnLimits, Work, lanes_per_prefix, layout_for
from spicejax.generate.player import Player
from spicejax.generate.stops import stop_machine
from spicejax.learn.learner import scored_logprobs
from spicejax.models import lora, quantized, transformer
from spicejax.models.lora import LoraConfig
from spicejax.types import Batch

CFG = dataclasses.replace(QWEN3, vocab_size=61, num_layers=2, head_dim=8)
BYTES = [bytes([97 + i % 26]) * (1 + i % 3) for i in range(61)]


class Letters:
    """Decoder of a vocabulary of letter runs."""

    def decode(self, ids):
        return b"".join(BYTES[i] for i in ids).decode()


@pytest.fixture(scope="module")
def params():
    scaled = transformer.init(CFG, jax.random.key(0))
    return jax.tree.map(lambda x: x * 3 if x.ndim > 2 else x, scaled)  # sharper than at birth, so that texts differ


def player(params, *, cfg=CFG, buckets=(16,), rows=8, stops=(), strings=(), opening="", **shapes):
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    machine = stop_machine(CFG.vocab_size, stops, strings, BYTES)
    return Player(cfg, params, Letters(), machine, Buckets(buckets, rows, **shapes), mesh, opening=opening)


def respond(who, prompts, *, samples=2, first_row=None, max_new=12, limits=None, **settings):
    first = [10 * i for i in range(len(prompts))] if first_row is None else first_row
    return who.respond(
        prompts, samples=samples, first_row=first, key=jax.random.key(7), settings=sampling.SamplerConfig(**settings),
        max_new=max_new, limits=limits,
    )  # fmt: skip


def shape_of(who, *work):
    return playing.layout_for(who.cfg, who.buckets, who.mesh, Work(*work))


PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11] * 12]
WIDTH = 32


def learner_logprobs(cfg, params, ids, positions, segments, *, temperature, chunk):
    """The learner's own scoring of packed rows; index 0 means nothing."""
    zeros, before = jnp.zeros(ids.shape), jnp.maximum(jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape) - 1, 0)
    batch = Batch(ids, positions, segments, zeros, zeros, zeros, zeros, zeros, before)
    return scored_logprobs(cfg, params, batch, slot_length=1, temperature=temperature, chunk=chunk)


full_logprobs = jax.jit(learner_logprobs, static_argnums=0, static_argnames=("temperature", "chunk"))


def rescored(params, r, *, cfg=CFG, chunk=0):
    """The learner's logprobs of a response, from one forward pass over the whole row."""
    start, end = len(r.prompt_ids), len(r.prompt_ids) + len(r.token_ids)
    ids = jnp.zeros((1, WIDTH), jnp.int32).at[0, :end].set([*r.prompt_ids, *r.token_ids])
    positions = jnp.arange(WIDTH)[None]
    scores = full_logprobs(cfg, params, ids, positions, jnp.ones_like(ids), temperature=1.0, chunk=chunk)
    return scores[0, start:end]


def assert_same(found, wanted, atol=1e-5):
    """The same tokens, and logprobs but for rounding, of two lists of lists of rollouts."""
    for a, b in zip(sum(found, []), sum(wanted, []), strict=True):
        np.testing.assert_array_equal(a.token_ids, b.token_ids)
        np.testing.assert_array_equal(a.prompt_ids, b.prompt_ids)
        np.testing.assert_allclose(a.logprobs, b.logprobs, atol=atol)
        assert a.finish_reason == b.finish_reason


@jax.jit
def plain_token(params, ids, length, key, t, temperature):
    """Token t of a row by the full forward pass over everything before it: no cache, no batch, no slots."""
    hidden = transformer.hidden_states(CFG, params, ids[None], jnp.arange(WIDTH)[None])
    logits = transformer.logits(CFG, params, hidden[:, length - 1])
    knobs = sampling.Knobs(temperature, 0, 1.0, 0.0)
    return sampling.draw(logits, jax.random.fold_in(key, t)[None], knobs, filtered=False)[0][0]


def plain(params, prompt, row_id, *, max_new=12, temperature=1.0):
    """The tokens of one response, one full forward pass each."""
    ids = np.zeros(WIDTH, np.int32)
    ids[: len(prompt)] = prompt
    key = jax.random.fold_in(jax.random.key(7), row_id)
    for t in range(max_new):
        n = len(prompt) + t
        ids[n] = plain_token(params, jnp.asarray(ids), n, key, t, temperature)
    return ids[len(prompt) : len(prompt) + max_new]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_tokens_equal_those_of_full_forward_passes(params, temperature):
    for shapes in ({}, {"prefill_chunk": 5, "rows": 2}):
        answers = respond(player(params, **shapes), PROMPTS, temperature=temperature)
        for i, rollouts in enumerate(answers):
            for j, r in enumerate(rollouts):
                expected = plain(params, PROMPTS[i], 10 * i + j, temperature=temperature)
                np.testing.assert_array_equal(r.token_ids, expected)


def test_logprobs_equal_the_learners_full_forward(params):
    for r in sum(respond(player(params), PROMPTS), []):
        np.testing.assert_allclose(rescored(params, r), r.logprobs, atol=1e-5)
        np.testing.assert_allclose(r.sample_logprobs, r.logprobs, atol=1e-6)


UNUSED = (20, 23, 55, 61)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5, "top_k": 60, "min_p": 1e-9}])
def test_ids_that_no_token_has_are_never_drawn_and_have_no_probability(params, settings):
    """Their rows would win every draw; sampler and learner agree as they do without such rows."""
    gone = np.r_[20:23, 55:61]
    likely = params | {"embed": params["embed"].at[gone].set(3 * params["norm"]["scale"])}
    cfg = dataclasses.replace(CFG, unused=UNUSED)
    assert np.isin(np.concatenate([r.token_ids for r in respond(player(likely), PROMPTS)[0]]), gone).any()
    for r in sum(respond(player(likely, cfg=cfg), PROMPTS, **settings), []):
        assert not np.isin(r.token_ids, gone).any()
        ids = jnp.zeros((1, WIDTH), jnp.int32).at[0, : len(r.prompt_ids) + 12].set([*r.prompt_ids, *r.token_ids])
        for chunk in (0, 16):
            np.testing.assert_allclose(rescored(likely, r, cfg=cfg, chunk=chunk), r.logprobs, atol=1e-5)
        hidden = transformer.hidden_states(cfg, likely, ids, jnp.arange(WIDTH)[None])
        shares = jnp.exp(jax.nn.log_softmax(transformer.logits(cfg, likely, hidden)[0]))
        assert not shares[:, gone].any()


def test_a_rows_text_depends_on_neither_neighbours_nor_padding_nor_buckets(params):
    together = respond(player(params), PROMPTS)
    apart = respond(player(params, buckets=(4, 32), rows=4), PROMPTS)
    (alone,) = respond(player(params), PROMPTS[1:2], first_row=[10])
    assert_same([*together, together[1]], [*apart, alone])
    texts = [r.text for rs in together for r in rs]
    assert len(set(texts)) == len(texts), "rows with different ids drew the same text"


def test_same_row_id_same_text_and_other_key_other_text(params):
    one, two = respond(player(params), [[1, 2], [1, 2]], first_row=[5, 5])
    assert [r.text for r in one] == [r.text for r in two]
    (other,) = player(params).respond(
        [[1, 2]], samples=2, first_row=[5], key=jax.random.key(8), settings=sampling.SamplerConfig(), max_new=12
    )
    assert other[0].text != one[0].text


def test_thinking_that_the_prompt_opens_begins_the_text_alone(params):
    plain, opened = (respond(player(params, opening=text), PROMPTS)[0][0] for text in ("", "<think>\n"))
    assert opened.text == "<think>\n" + plain.text
    np.testing.assert_array_equal(opened.token_ids, plain.token_ids)


def test_stop_token_ends_a_row_and_is_kept(params):
    free = [r for rs in respond(player(params), PROMPTS) for r in rs]
    stop = int(free[0].token_ids[3])
    stopped = [r for rs in respond(player(params, stops=[stop]), PROMPTS) for r in rs]
    assert any(r.finish_reason == "stop" for r in stopped)
    for a, b in zip(free, stopped, strict=True):
        where = np.flatnonzero(a.token_ids == stop)
        n = where[0] + 1 if len(where) else len(a.token_ids)
        np.testing.assert_array_equal(b.token_ids, a.token_ids[:n])
        assert b.finish_reason == ("stop" if len(where) else "length")


def test_stop_strings_end_a_row_across_token_borders(params):
    free = [r for rs in respond(player(params), PROMPTS) for r in rs]
    text = free[1].text
    needle = text[2:6]  # begins and ends inside tokens
    stopped = [r for rs in respond(player(params, strings=[needle, "zzzzzzzzz"]), PROMPTS) for r in rs]
    assert stopped[1].finish_reason == "stop"
    for a, b in zip(free, stopped, strict=True):
        assert b.text == a.text.split(needle)[0]
        ended = Letters().decode(a.token_ids[: len(b.token_ids)])
        assert (needle in ended) == (b.finish_reason == "stop")
        assert needle not in Letters().decode(a.token_ids[: len(b.token_ids) - 1]), "stopped a token too late"


MANY = [[i % 60 + 1, *range(1, 2 + i % 7)] for i in range(9)]
LIMITS = [1, 12, 3, 2, 9, 12, 1, 5, 4]


@pytest.mark.parametrize("samples", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_the_schedule_of_slots_changes_no_text(params, samples):
    """One slot for each row, or few, refilled one by one, by halves or all together: the same tokens exactly."""
    whole = respond(player(params, rows=9 * samples), MANY, samples=samples, limits=LIMITS)
    assert [[len(r.token_ids) for r in rs] for rs in whole] == [[n] * samples for n in LIMITS]
    for refill in (0.0, 0.5, 1.0):
        other = respond(player(params, rows=7, refill=refill), MANY, samples=samples, limits=LIMITS)
        assert_same(other, whole)


def test_more_samples_than_row_slots_refill_the_rows_of_one_prompt(params):
    """Sample j of a prompt is row first_row + j, in whichever slot it was written."""
    stop = [3, 17, 40]
    few = respond(player(params, rows=4, refill=0.0, stops=stop), PROMPTS[:2], samples=11)
    many = respond(player(params, rows=22, stops=stop), PROMPTS[:2], samples=11)
    assert len({len(r.token_ids) for rs in many for r in rs}) > 2, "lengths differ, so rows were refilled in turn"
    assert_same(few, many)


@pytest.mark.parametrize(
    ("buckets", "chunk", "prompts", "computed", "held"),
    [
        ((16,), 512, [[1, 2, 3], [4] * 8], 4 * 16, 2 + 7),  # side by side, with room for two more
        ((4, 16), 512, [[1, 2, 3], [4] * 8], 4 * 4 + 4 * 16, 2 + 7),
        ((16,), 4, [[1, 2, 3], [4] * 8], 4 + 8, 2 + 7),  # as many pieces as it takes
        ((16,), 4, [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6, 7]], 4 + 4, 4 + 1),  # the first piece of the second is known
        ((16,), 4, [[1, 2, 3]] * 2, 4, 2),  # equal prompts are one
    ],
)
def test_padding_is_counted_where_prompts_are_computed(params, buckets, chunk, prompts, computed, held):
    who = player(params, buckets=buckets, rows=4, prefill_chunk=chunk)
    respond(who, prompts, samples=1)
    assert (who.tally.computed, who.tally.held) == (computed, held)


@pytest.mark.parametrize("cache", ["compute", "int8"])
@pytest.mark.parametrize("in_place", [True, False], ids=["as on CPU", "as on TPU"])
def test_the_last_rows_go_on_in_a_smaller_engine(params, monkeypatch, cache, in_place):
    """As soon as it holds them: the texts, and the steps, of the large one."""
    monkeypatch.setattr(Layout, "by_layer", in_place)
    monkeypatch.setattr(layouts, "WINDOW", 4)
    monkeypatch.setattr(Layout, "long", 3)
    jax.clear_caches()
    calls = []
    real = engine.decode_jit
    monkeypatch.setattr(
        engine, "decode_jit", lambda *a, **k: calls.append((a[0].lanes, *real(*a, **k))) or calls[-1][1:]
    )

    def decoded(*tails):
        calls.clear()
        texts = respond(player(params, rows=6, cache=cache, tails=tails), MANY, samples=1, limits=LIMITS)
        return texts, [lanes for lanes, *_ in calls], int(calls[-1][1].step)

    whole, lanes, steps = decoded()
    assert set(lanes) == {6}
    found, lanes, same = decoded(0.6, 0.4)
    assert set(lanes) == {6, 3, 2} and lanes == sorted(lanes, reverse=True) and steps == same, lanes
    assert_same(found, whole)
    monkeypatch.setattr(Layout, "long", 13)  # more than a row may write
    assert set(decoded(0.6, 0.4)[1]) == {6}


@pytest.mark.parametrize(
    ("in_place", "temperature"), [(True, 0.0), (False, 1.0), pytest.param(True, 1.0, marks=pytest.mark.slow)]
)
def test_drafts_change_no_text(params, monkeypatch, in_place, temperature):
    """They save passes where rows repeat themselves, as they do without chance."""
    monkeypatch.setattr(Layout, "by_layer", in_place)
    monkeypatch.setattr(Layout, "long", 3)
    jax.clear_caches()
    calls = []
    real = engine.decode_jit
    monkeypatch.setattr(engine, "decode_jit", lambda *a, **k: calls.append((a[0], *real(*a, **k))) or calls[-1][1:])

    def decoded(drafts):
        calls.clear()
        who = player(params, rows=8, tails=(0.5,), drafts=drafts, stops=[3, 17])
        texts = respond(who, MANY[:3], samples=2, max_new=19, limits=[19, 2, 4], temperature=temperature)
        assert calls[-1][0].drafts == drafts
        return texts, int(calls[-1][1].step), who.tally

    whole, steps, tally = decoded(0)
    assert tally.passes == 0
    for drafts in (1, 4):
        found, fewer, tally = decoded(drafts)
        assert_same(found, whole)
        assert fewer <= steps and (temperature or fewer < steps)
        assert 0 < tally.passes and (temperature or steps - fewer <= tally.accepted)
    who = player(params, rows=8, tails=(0.5,), drafts=4)
    who.tally.off = True
    respond(who, MANY[:3], samples=2, max_new=19)
    assert not calls[-1][0].drafts


def test_cost_follows_the_tokens_written(params, monkeypatch):
    """Rows of 1 to 12 tokens through seven slots: 20 % of the longest for each row, not two batches of the longest."""
    steps = []
    real = engine.decode_jit
    monkeypatch.setattr(engine, "decode_jit", lambda *a, **k: steps.append(real(*a, **k)) or steps[-1])
    respond(player(params, rows=7, refill=0.0), MANY * 5, samples=1, limits=LIMITS * 5)
    assert sum(LIMITS * 5) / 7 <= int(steps[-1][0].step) <= sum(LIMITS * 5) / 7 + 12 < 7 * 12


def test_samples_of_a_prompt_do_not_wait_for_the_longest_of_them(params, monkeypatch):
    """Eight samples of each prompt, ended by stop tokens at skewed lengths: two rows a prompt write them in turn."""
    steps = []
    real = engine.decode_jit
    monkeypatch.setattr(engine, "decode_jit", lambda *a, **k: steps.append(real(*a, **k)) or steps[-1])
    who = player(params, rows=8, refill=0.0, stops=[3, 17, 40, 5, 9, 21], buckets=(8,))
    assert shape_of(who, 8, 9, 8, 12).group == 2
    written = [len(r.token_ids) for rs in respond(who, [p[:4] for p in MANY], samples=8) for r in rs]
    longest_of_eight = sum(max(written[i : i + 8]) for i in range(0, 72, 8))
    assert int(steps[-1][0].step) < 0.8 * longest_of_eight, (written, longest_of_eight)


@pytest.mark.parametrize(
    ("window", "in_place"),
    [(1, False), (5, True), *(pytest.param(n, True, marks=pytest.mark.slow) for n in (1, 4, 11)),
     *(pytest.param(n, False, marks=pytest.mark.slow) for n in (4, 5, 11))],
)  # fmt: skip
def test_tokens_that_move_from_the_window_are_seen_as_before(params, monkeypatch, window, in_place):
    """Rows that begin at any step of a window, refills in the middle of one: the texts of one ring."""
    monkeypatch.setattr(Layout, "by_layer", in_place)
    jax.clear_caches()  # programs traced the other way
    settings = {"samples": 4, "max_new": 12, "limits": [12, 5, 9, 12, 2, 12, 7, 12, 11]}
    whole = respond(player(params, rows=4, buckets=(8,)), MANY, **settings)
    monkeypatch.setattr(playing, "layout_for", lambda *work: dataclasses.replace(layout_for(*work), window=window))
    who = player(params, rows=4, buckets=(8,))
    assert shape_of(who, 8, 9, 4, 12).ring == {1: 12, 4: 12, 5: 15, 11: 22}[window]
    assert_same(respond(who, MANY, **settings), whole)


@pytest.mark.parametrize("in_place", [True, False], ids=["as on CPU", "as on TPU"])
def test_sliding_layers_see_the_same_tokens_as_the_learners(monkeypatch, in_place):
    """Chunks of prompts, rows that share one, both rings, a refill: all beyond the model's window."""
    monkeypatch.setattr(Layout, "by_layer", in_place)
    monkeypatch.setattr(layouts, "WINDOW", 4)
    jax.clear_caches()
    cfg = dataclasses.replace(GEMMA3, vocab_size=61, num_layers=2, full_every=2)
    params = jax.tree.map(lambda x: x * 3 if x.ndim > 2 else x, transformer.init(cfg, jax.random.key(0)))
    ids = np.zeros((6, WIDTH), np.int32)
    found = sum(respond(player(params, cfg=cfg, rows=4, cache="bfloat16", prefill_chunk=5), PROMPTS), [])
    for row, r in zip(ids, found, strict=True):
        row[: len(r.prompt_ids) + 12] = [*r.prompt_ids, *r.token_ids]
    positions = jnp.broadcast_to(jnp.arange(WIDTH), ids.shape)
    full = full_logprobs(cfg, params, ids, positions, jnp.ones_like(ids), temperature=1.0, chunk=0)
    for scores, r in zip(full, found, strict=True):
        np.testing.assert_allclose(scores[len(r.prompt_ids) :][:12], r.logprobs, atol=2e-2)


@pytest.mark.parametrize("cache", ["bfloat16", "int8"])
def test_smaller_caches_give_nearly_the_same_logprobs(params, monkeypatch, cache):
    """Scored by the full forward pass in float32: the sampler's own logprobs differ by rounding only."""
    monkeypatch.setattr(layouts, "WINDOW", 4)  # most of the 12 tokens leave it
    rollouts = sum(respond(player(params, cache=cache, prefill_chunk=5), PROMPTS), [])
    gaps = [np.abs(rescored(params, r) - r.logprobs) for r in rollouts]
    assert 1e-5 < np.max(gaps) < 0.05, np.max(gaps)


def sizes():
    return [f._cache_size() for f in (engine.prefill_jit, engine.insert_jit, engine.decode_jit)]


def test_nothing_compiles_after_warm_up(params):
    who = player(params, buckets=(8, 16), prefill_chunk=6)
    respond(who, [[1] * 8, [1] * 16], samples=2)
    before = sizes()
    for length in range(1, 17):
        respond(who, [[3] * length] * (1 + length % 7), samples=2, temperature=0.1 * length)
    assert sizes() == before


def described(who, params, shape):
    """The programs of a layout by name."""
    replicated = sharding.replicated(who.mesh)
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=replicated), params)
    return {p.name: p for p in engine.programs(shape, abstract, stop_states=1, filtered=False)}


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


def test_programs_are_the_ones_that_run(params):
    """What `programs` describes compiles without data and has the shapes of the running engine."""
    who = player(params, cache="int8", prefill_chunk=6)
    shape = shape_of(who, 16, 3, 4, 12)
    assert (shape.prompts, shape.group, shape.prefix, shape.chunk, shape.prefills) == (2, 4, 18, 6, 1)
    made = described(who, params, shape)
    assert list(made) == ["prefill", "insert", "decode"]
    for program in made.values():
        assert program.lower().compile().memory_analysis() is not None
    (prefix, history), state = made["decode"].arguments[1:3]
    one = ((1, 2, 2, 8, 18), jnp.int8), ((1, 8, 2, 12, 8), jnp.float32)
    assert [shapes((p.k, r.v)) for p, r in zip(prefix, state.recent, strict=True)] == [one] * 2, "one of each layer"
    assert history is None
    out, _ = made["decode"].lower().out_info
    assert shapes(out) == shapes(state)


def test_programs_of_rows_of_several_turns(params):
    who = player(params, cache="int8", prefill_chunk=20)
    limits = TurnLimits(turns=3, turn=12, observation=9, total=40)
    shape = shape_of(who, 16, 3, 4, 12, limits)
    assert (shape.prompts, shape.group, shape.history, shape.appends, shape.ring) == (4, 2, 40, 2, 0)
    made = described(who, params, shape)
    assert list(made) == ["prefill", "insert", "decode", "append"]
    history = made["append"].arguments[2]
    assert [shapes(part.k) for part in history] == [((1, 8, 2, 8, 40), jnp.int8)] * 2
    assert shapes(made["append"].lower().out_info) == shapes(history)


def test_layouts_fit_rows_prompts_and_budgets():
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])

    def shape(samples, bucket=600, prompts=99, **more):
        buckets = Buckets((bucket,), 32, **more)
        made = layout_for(CFG, buckets, mesh, Work(bucket, prompts, samples, max_new=5))
        return made.prompts, made.group, made.prefix, made.chunk, made.prefills

    assert shape(8) == (4, 8, 600, 300, 1)
    cut = {bucket: (Buckets((bucket,), 8).piece(bucket), Buckets((bucket,), 8).prefilling(bucket))
           for bucket in (64, 512, 896, 4608)}  # fmt: skip
    assert cut == {64: (64, 512), 512: (512, 512), 896: (448, 2 * 896), 4608: (512, 2 * 4608)}
    assert shape(1, bucket=100) == (32, 1, 100, 100, 5)
    assert shape(1024, bucket=100) == (1, 32, 100, 100, 1)
    assert shape(1, kv_tokens=1820) == (3, 1, 600, 300, 1), "three prompts of 600 and responses of 5"
    short = [lanes_per_prefix(Buckets((600,), 64), Work(bucket, 99, 8, 512)) for bucket in (128, 512, 600)]
    assert short == [2, 2, 4], "never fewer than two"
    assert shape(8, kv_tokens=1279) == (1, 8, 600, 300, 1), "two take 2 x (600 + 8 x 5)"
    small = Buckets((64,), 64, cache="int8", kv_tokens=9000)
    slots = {n: layout_for(CFG, small, mesh, Work(64, 99, 8, n)) for n in (64, 129, 512)}
    for n, made in slots.items():  # a window's float32 entries take 32 bytes where int8 ones take 12
        row = made.ring + made.window * 32 / 12
        assert made.prompts * (64 + made.group * row) <= 9000 < (made.prompts + 1) * (64 + made.group * (row + 1)), n
    assert [made.ring for made in slots.values()] == [0, 256, 512]
    assert shape(8, kv_tokens=1280) == (2, 8, 600, 300, 1) and shape(8, kv_tokens=1) == (1, 8, 600, 300, 1)


def test_prompts_stand_once_where_all_samples_have_a_row():
    def groups(prompts, samples, devices=1, **more):
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1] * devices).reshape(devices, 1, 1), sharding.AXES)
        buckets = Buckets((8,), 64, **more)
        made = layout_for(CFG, buckets, mesh, Work(8, prompts, samples, 12))
        return made.prompts, made.group

    assert groups(8, 8) == (8, 8) and groups(1, 8) == (8, 8)
    assert groups(9, 8) == (32, 2), "samples wait: narrow slots"
    assert groups(1, 48) == (2, 24) and groups(1, 64) == (2, 32), "two copies; no wider slots than 32 rows"
    assert groups(8, 8, kv_tokens=1000) == (8, 8), "832 tokens"
    assert groups(8, 8, kv_tokens=800) == (25, 2), "seven would fit"
    assert groups(8, 8, devices=8) == (8, 8)
    assert groups(4, 16, devices=8) == (8, 8), "a slot for each device, or each would hold all"
    mesh, buckets = (
        jax.sharding.Mesh(np.array(jax.devices()[:1] * 4).reshape(4, 1, 1), sharding.AXES),
        Buckets((8,), 24),
    )
    most = layout_for(CFG, buckets, mesh, Work(8, 3, 7, 12))
    assert (most.shards, most.lanes) == (1, 21), "three prompts are not split over four"
    for share in (0.2, 0.4, 0.7, 0.9):
        tails = layouts.tails_of(most, most, dataclasses.replace(buckets, tails=(share,)), 0)
        assert all(tail.shards == 1 for tail in tails), "nor are their last lanes"


def test_a_small_call_has_a_small_engine(params):
    """Of half, a quarter or an eighth; prefill and the tails are those of every call, and so is each text."""
    who = player(params, rows=32, tails=(0.25,))
    most = layouts.whole(CFG, who.buckets, who.mesh, Work(16, 8, 4, 64))
    shapes = {count: shape_of(who, 16, count, 4, 64) for count in (9, 8, 5, 4, 3, 2, 1)}
    assert {count: shape.prompts for count, shape in shapes.items()} == {9: 16, 8: 8, 5: 8, 4: 4, 3: 4, 2: 2, 1: 1}
    assert shape_of(who, 16, 1, 4, 63).prompts == 8, "too short to be worth a program"
    assert len({shape.filling for count, shape in shapes.items() if count < 9}) == 1
    tails = {count: layouts.tails_of(shape, most, who.buckets, 0) for count, shape in shapes.items() if count < 9}
    assert tails[8] == tails[2] != [] and tails[1] == [], [t[0].lanes for t in tails.values() if t]
    few, many = (respond(who, PROMPTS[:count], samples=4, max_new=64) for count in (1, 3))
    assert [r.token_ids.tolist() for r in few[0]] == [r.token_ids.tolist() for r in many[0]]


def test_copies_of_a_prompt_are_prefilled_once(params, monkeypatch):
    """Ten samples of one prompt through four prompt slots that all hold it."""
    real, calls = engine.prefill_jit, []
    monkeypatch.setattr(engine, "prefill_jit", lambda *a: calls.append(a) or real(*a))
    who = player(params, rows=8, buckets=(8,), prefill_chunk=8)
    assert [(e.prompts, e.group) for e in [shape_of(who, 8, 1, 10, 12)]] == [(4, 2)]
    found = respond(who, MANY[8:], samples=10)
    assert len(calls) == 1
    assert_same(found, respond(player(params, rows=1, buckets=(8,)), MANY[8:], samples=10))


@pytest.mark.parametrize("cache", ["compute", "int8"])
def test_what_prompts_begin_with_is_computed_once(params, monkeypatch, cache):
    """Pieces of four tokens: bit by bit the same texts as where all are computed."""
    request = [*range(1, 11)]
    prompts = [[*request, 20, 21], [*request, 30], [*request[:6], 40], [*request[:6], 41, 42], [*request, 20, 21], [5]]
    real, pieces = engine.prefill_jit, []
    monkeypatch.setattr(engine, "prefill_jit", lambda *a: pieces.append(int(a[3])) or real(*a))
    who = player(params, rows=2, prefill_chunk=5, cache=cache)
    shape = shape_of(who, 16, 6, 1, 12)
    assert (shape.prompts, shape.prefix, shape.chunk, shape.prefills) == (2, 16, 4, 1)

    def texts():
        found = sum(respond(dataclasses.replace(who, params=params), prompts, samples=1), [])
        return [(r.token_ids.tolist(), r.logprobs.tobytes()) for r in found]

    shared = texts()
    assert pieces[0] == 0 and max(pieces) > 0
    pieces.clear()
    monkeypatch.setattr(playing, "common", lambda *_: 0)
    assert texts() == shared and set(pieces) == {0}


def test_equal_prompts_are_computed_once(params, monkeypatch):
    real, lengths = engine.prefill_jit, []
    monkeypatch.setattr(engine, "prefill_jit", lambda *a: lengths.extend(np.asarray(a[5]).tolist()) or real(*a))
    found = respond(player(params, prefill_chunk=64), [PROMPTS[0], PROMPTS[1], PROMPTS[0]], samples=1)
    assert sorted(lengths) == [0, 0, len(PROMPTS[0]) - 1, len(PROMPTS[1]) - 1]
    alone = [respond(player(params), [PROMPTS[i]], samples=1, first_row=[10 * n])[0] for n, i in enumerate((0, 1, 0))]
    assert_same(found, alone)


def test_bad_input_is_named(params):
    with pytest.raises(ValueError, match="prompt of 17 tokens exceeds the largest bucket, 16"):
        respond(player(params), [[1] * 17])
    with pytest.raises(ValueError, match="empty prompt"):
        respond(player(params), [[]])
    with pytest.raises(ValueError, match="limits"):
        respond(player(params), [[1]], limits=[13])
    with pytest.raises(ValueError, match="refill=1.5"):
        Buckets((8,), 8, refill=1.5)
    for shapes, said in (({"tails": ()}, "without tails"), ({"cache": "int8"}, "cache=int8")):
        with pytest.raises(
            ValueError, match=f"drafts=4 with.*{said}" if "cache" in shapes else "drafts=4 without tails"
        ):
            Buckets((8,), 8, drafts=4, **shapes)
    broken = dataclasses.replace(player(params), params=jax.tree.map(lambda x: x * jnp.nan, params))
    with pytest.raises(FloatingPointError, match="NaN"):
        respond(broken, [[1, 2]])


def assert_same_responses(one, same, other):
    """Two players agree, through prefill and decode, and a third one does not."""
    found, wanted, differs = (respond(p, PROMPTS, samples=16) for p in (one, same, other))
    assert_same(found, wanted, atol=1e-4)
    pairs = zip(sum(found, []), sum(differs, []), strict=True)
    assert any(list(a.token_ids) != list(b.token_ids) for a, b in pairs)


def test_adapters_write_what_the_merged_weights_write(params):
    cfg = dataclasses.replace(CFG, lora=LoraConfig(rank=2, alpha=4.0))
    _, adapters = lora.split(transformer.init(cfg, jax.random.key(1)))
    keys = iter(jax.random.split(jax.random.key(2), 100))
    adapters = jax.tree.map(lambda x: 0.1 * jax.random.normal(next(keys), x.shape), adapters)
    beside = lora.join(params, adapters)
    assert_same_responses(player(beside, cfg=cfg), player(lora.merge(cfg.lora, beside)), player(params))


def test_8_bit_weights_write_what_their_dequantized_selves_write(params):
    def whole(x):
        return qwix.dequantize(x) if isinstance(x, qwix.QArray) else x

    small = quantized.quantize(params, "float32")
    same = jax.tree.map(whole, small, is_leaf=lambda x: isinstance(x, qwix.QArray))
    assert_same_responses(player(small), player(same), player(params))
