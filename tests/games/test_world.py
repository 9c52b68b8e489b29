"""What a world adds to a player: messages become prompts, streams become keys, seconds are counted."""

import dataclasses
import time

import pytest
from scripted import Scripted, typist

from spicejax.games.world import World
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.search import Limits, search
from spicejax.score.judge import Claim
from spicejax.tags import SEARCH_TAGS
from spicejax.types import Passage


def slow(queries, k):
    time.sleep(0.05)
    return [[Passage("1", "Sage", q)][:k] for q in queries]


def test_search_renders_names_the_stream_and_counts_seconds():
    def script(text, row):
        return f"<answer>{row}</answer>" if "</information>" in text else f"<search>{text}{row}</search>"

    who = typist(script)
    world = World({"solver": who}, lambda pairs: [], SamplerConfig(), seed=3, iteration=2, find=slow)
    settings = {"tags": SEARCH_TAGS, "limits": Limits(3, 50, 200, 400), "samples": 2, "first_row": [8]}
    began = time.perf_counter()
    found = world.search("solver", [[{"role": "user", "content": "Q"}]], stream=5, **settings)
    took, keys = time.perf_counter() - began, list(who.keys)
    wanted = search(
        who, [who.encode("Q")], search_fn=slow, key=world.key(5), settings=world.sampler, **settings
    )  # fmt: skip
    assert [[t.query for t in row.turns] for row in found[0]] == [["Q8", ""], ["Q9", ""]]
    assert [row.rollout.text for row in found[0]] == [row.rollout.text for row in wanted[0]]
    assert len(keys) == 2 and keys == who.keys[2:]
    assert world.clock["searching"] >= 0.05 and 0 <= world.clock["sampling"]
    assert world.clock["sampling"] + world.clock["searching"] <= took, "no second is counted twice"


def test_seconds_of_a_judge_in_a_seat_count_as_judging_alone():
    judge = Scripted(lambda text, row: "yes" if "Answer: Roma" in text else "no", buckets=Buckets((5000,), 8))
    world = World({"judge": judge}, lambda pairs: [], SamplerConfig(), seed=3, iteration=2)
    claims = [Claim("Where?", ("Rome",), said) for said in ("Roma", "Oslo", None)]
    assert world.judge(claims, max_new=4) == [True, False, False]
    assert set(world.clock) == {"judging"}


def test_no_row_is_drawn_twice_and_nobody_without_a_seat_is_asked():
    world = World(
        {"solver": typist(lambda text, row: str(row))}, lambda pairs: [], SamplerConfig(), seed=0, iteration=0
    )
    prompts, settings = [[{"role": "user", "content": "Q"}]] * 2, {"samples": 2, "max_new": 4}
    world.ask("solver", prompts, first_row=[0, 2], stream=0, **settings)
    world.ask("solver", prompts, first_row=[0, 2], stream=1, **settings)
    for rows, stream, again in (([4, 5], 0, 5), ([2, 8], 0, 2)):
        with pytest.raises(ValueError, match=rf"row {again} of stream {stream} is drawn twice, .* 'solver'"):
            world.ask("solver", prompts, first_row=rows, stream=stream, **settings)
    # probes and greedy evaluations ask again
    dataclasses.replace(world, iteration=1).ask("solver", prompts, first_row=[0, 2], stream=0, **settings)
    greedy = dataclasses.replace(world, sampler=SamplerConfig(temperature=0.0))
    assert all(greedy.ask("solver", prompts, first_row=[0, 0], stream=0, **settings) for _ in range(2))
    for asked in (
        lambda: world.fits("sovler", prompts[0]),
        lambda: world.ask("sovler", [], first_row=[], stream=2, **settings),
    ):
        with pytest.raises(ValueError, match="the game asks 'sovler', who has no seat: its demand names solver"):
            asked()
