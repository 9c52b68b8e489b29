"""The linked world: answers follow from its passages, searches find them, and nothing held out is trained on."""

import hashlib
import re

import pytest

from spicejax.retrieval import search
from spicejax.types import Passage
from spicejax.worlds.nano import linked, maker

WORLD = linked.facts(3)
ITEMS = linked.items(3, 600, 90)
FACT = re.compile(r"(\w+) of (\w+) is (\w+)\.|known (\w+): (\w+) of (\w+)\.")


def told() -> dict[tuple[str, str], str]:
    """(relation, name) to the name it leads to, read out of the passages."""
    found = {}
    for row in ITEMS["corpus"]:
        ahead = FACT.fullmatch(row["text"])
        assert ahead, row
        relation, name, other, known, back, start = ahead.groups()
        key, value = ((relation, name), other) if relation else ((back, start), known)
        assert found.setdefault(key, value) == value
        assert row["title"] == (name or known)
    return found


def test_each_fact_stands_under_both_names_and_they_agree():
    assert len(ITEMS["corpus"]) == 2 * len(told()) == 2 * sum(map(len, WORLD.leads.values()))


@pytest.mark.parametrize("name", ["questions", "held_out"])
def test_every_answer_follows_from_the_passages(name):
    facts, hops = told(), set()
    for row in ITEMS[name]:
        *relations, start = row["question"].removesuffix("?").split(" of ")
        for relation in reversed(relations):
            start = facts[relation, start]
        assert start == row["answer"] and row["category"] == f"facts_{len(relations)}"
        hops.add(len(relations))
    assert hops == {1, 2, 3} and len({row["question"] for row in ITEMS[name]}) == len(ITEMS[name])


def test_held_out_questions_begin_elsewhere():
    starts = [{row["question"].removesuffix("?").split()[-1] for row in ITEMS[n]} for n in ("questions", "held_out")]
    assert not starts[0] & starts[1] and all(starts)


def test_a_query_finds_its_fact():
    passages = [Passage(row["id"], row["title"], row["text"]) for row in ITEMS["corpus"]]
    find = search.in_memory(passages)
    facts = list(told())
    found = find([f"{relation} of {name}" for relation, name in facts], 1)
    assert all(hit.id == f"{relation}/{name}" for (hit,), (relation, name) in zip(found, facts, strict=True))
    names = [name for name, led in WORLD.led.items() if led]
    for name, (hit,) in zip(names, find([f"known {name}" for name in names], 1), strict=True):
        assert hit.text.startswith(f"known {name}:")


def test_a_world_does_not_change():
    """Another one is another benchmark, whose numbers do not compare with those before."""
    found = repr((ITEMS, linked.warm_start_examples(3, 900)))
    assert hashlib.sha256(found.encode()).hexdigest()[:16] == "7f50ee55840751a0"
    assert len({maker.world_digest(name) for name in maker.WORLDS}) == len(maker.WORLDS)


def test_another_seed_has_other_facts():
    other = linked.items(4, 600, 90)
    shared = {r["text"] for r in ITEMS["corpus"]} & {r["text"] for r in other["corpus"]}
    assert len(shared) < len(ITEMS["corpus"]) / 50
    told_before = {p.text.strip() for e in linked.warm_start_examples(3, 900) for p in e.parts if p.by == "shown"}
    corpus = {row["text"] for row in ITEMS["corpus"]}
    assert sum(any(text in shown for text in corpus) for shown in told_before) < len(told_before) / 50


def test_the_warm_start_is_right_now_and_then():
    """The less often the more facts a question needs."""
    examples, right = linked.warm_start_examples(3, 4000), {1: [], 2: [], 3: []}
    for i, e in enumerate(examples):
        if e.role == "solver" and i >= 2000:
            *relations, start = e.prompt.removesuffix("?").split(" of ")
            answer = linked.facts(3 + 1_000_003 + i % 3).follow(start, relations[::-1])[-1]
            searched = sum(p.by == "shown" for p in e.parts)
            right[len(relations)].append(searched > 0 and e.parts[-1].text == f"<answer>{answer}</answer>")
            assert all(p.by == ("reply", "shown")[k % 2] for k, p in enumerate(e.parts))
    shares = {hops: sum(found) / len(found) for hops, found in right.items()}
    assert max(shares[2], shares[3]) < 0.35 < shares[1] < 0.6
    assert {e.role for e in examples} == {"solver", "proposer", "verifier"}
