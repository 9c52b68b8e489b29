"""The graded world: facts told by way of others, facts that hold no longer, and what is known of proposals."""

import re

import pytest

from spicejax import configs
from spicejax.retrieval import search
from spicejax.text import sentencepieces, tokens
from spicejax.types import Passage
from spicejax.worlds.nano import graded, linked, maker

WORLD = linked.facts(3, True, True)
ITEMS = graded.items(3, 600, 100)
EXAMPLES = graded.warm_start_examples(3, 4000)
PASSAGES = [Passage(row["id"], row["title"], row["text"]) for row in ITEMS["corpus"]]
FACT = re.compile(r"(\w+) of (\w+) is (?:(\w+) of )?(\w+)\.")


def test_the_linked_world_has_the_same_facts():
    assert WORLD.leads == linked.facts(3).leads and not linked.facts(3).told_by


def test_a_fact_told_by_way_of_another_leads_to_the_same():
    told = [FACT.fullmatch(p.text) for p in PASSAGES if p.id.split("/")[0] in linked.RELATIONS]
    assert len(told) == sum(map(len, WORLD.leads.values()))
    by_way = [match for match in told if match[3]]
    assert 0.15 < len(by_way) / len(told) < 0.3
    for match in told:
        relation, name, by, last = match.groups()
        assert WORLD.leads[name][relation] == (WORLD.leads[last][by] if by else last)
        assert not by or (by, last) not in WORLD.told_by, "one search more is enough"


def test_what_held_once_holds_no_longer():
    once = [match for p in PASSAGES if (match := re.fullmatch(r"known (\w+): (\w+) of (\w+) was \1\.", p.text))]
    assert len(once) > 150
    assert all(WORLD.leads[name][relation] not in (other, None) for other, relation, name in (m.groups() for m in once))


def test_a_query_finds_its_fact_mostly():
    """Where a name is in many passages, one of those may come first."""
    find = search.in_memory(PASSAGES)
    facts = [fact for name in WORLD.leads for fact in WORLD.facts_of(name)]
    found = find([f"{relation} of {name}" for relation, name in facts], 1)
    right = [hit.id == f"{relation}/{name}" for (hit,), (relation, name) in zip(found, facts, strict=True)]
    assert 0.9 < sum(right) / len(right)
    names = [name for name, led in WORLD.led.items() if len(led) > 1]
    for name, hits in zip(names, find([f"known {name}" for name in names], 2), strict=True):
        assert all(hit.text.startswith(f"known {name}: ") for hit in hits)


def test_questions_have_one_to_five_facts():
    for name, count in (("questions", 600), ("held_out", 100)):
        rows = ITEMS[name]
        asked = [linked.read(row["question"]) for row in rows]
        assert len(rows) == count and all(asked)
        assert [WORLD.leads_to(*each) for each in asked] == [row["answer"] for row in rows]
        assert {len(relations) for _, relations in asked} == {1, 2, 3, 4, 5}
    starts = [{linked.read(row["question"])[0] for row in ITEMS[name]} for name in ("questions", "held_out")]
    assert not starts[0] & starts[1]
    answers = {row["answer"] for row in ITEMS["answers"]}
    assert len(answers) == graded.ANSWERS < len({row["answer"] for row in ITEMS["held_out"] + ITEMS["questions"]})


def test_a_verifier_of_the_warm_start_answers_what_is_told_alone():
    """The names of its chain each follow from a passage that holds; `none` where one is missing."""
    seen = set()
    for i, e in enumerate(EXAMPLES):
        if e.role != "verifier":
            continue
        *passages, question = e.prompt.split("\n")
        start, relations = linked.read(question)
        told = {
            m.groups()[1:]: m[1] for p in passages if (m := re.fullmatch(r"known (\w+): (\w+) of (\w+) is \1\.", p))
        }
        *chain, answer = re.fullmatch(r"((?:\w+\.)*)<answer>(\w+)</answer>", e.parts[0].text).groups()
        names, at = [], start
        for relation in relations:
            if (at := told.get((relation, at), "")) == "":
                break
            names.append(at)
        expected = "".join(f"{name}." for name in (names[:-1] if at else names))
        assert (chain[0], answer) == (expected, at or "none"), i
        seen.add((len(relations), answer == "none"))
    assert {hops for hops, _ in seen} == {1, 2, 3, 4, 5} and len(seen) > 8


def test_a_solver_of_the_warm_start_is_right_the_less_often_the_longer_the_way():
    right = {hops: [] for hops in range(1, 6)}
    for i, e in enumerate(EXAMPLES):
        if e.role == "solver" and i >= 2000:
            start, relations = linked.read(e.prompt)
            answer = linked.facts(3 + 1_000_003 + i % 3, True, True).leads_to(start, relations)
            right[len(relations)].append(e.parts[-1].text == f"<answer>{answer}</answer>")
    shares = [sum(found) / len(found) for found in right.values()]
    assert 0.25 < shares[0] < 0.5 and shares[4] < 0.15 and shares[0] > shares[2] > shares[4]


def test_what_is_known_of_proposals_by_hand():
    (one, (relation, other)) = next((n, next(iter(facts.items()))) for n, facts in WORLD.leads.items())
    after = next(iter(WORLD.leads[other]))
    two, end = linked.question(one, [relation, after]), WORLD.leads[other][after]
    single = linked.question(one, [relation])
    proposals = [
        (single, other, ""), (single, other, "not_verified"), (two, end, "not_verified"),  # true
        (two, "nobody", ""), (single, "nobody", "not_verified"), (single, "nobody", "short"),  # false
        ("what?", "x", ""), (f"{relation} of nobody?", "x", ""),  # no questions of this world
    ]  # fmt: skip
    assert linked.measured(WORLD, proposals) == {
        "proposer/hops": (1 + 1 + 2 + 2 + 1 + 1) / 6,
        "proposer/true": 1 / 2,
        "verifier/false_rejections": 2 / 3,
        "verifier/false_acceptances": 1 / 2,
    }
    assert linked.measured(WORLD, []) == {}


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("recipe", ["ssp_graded_nano", "acesearcher_graded_nano"])
def test_its_words_are_one_token_each(seed, recipe, tmp_path):
    made = configs.stages(recipe)[0].nano
    world, size = maker.WORLDS[made.world], made.architecture.vocab_size
    texts = world.texts_for_tokenizer(seed, 1000)
    sentencepieces.train_sentencepiece(
        texts, size, tmp_path / "t", text_pieces=world.SYMBOLS, chat_template=maker.CHAT_TEMPLATE
    )
    tokenizer = tokens.load(tmp_path / "t")
    assert len(tokenizer.encode("known timu: friend of bako is timu.")) == 11
    if recipe == "acesearcher_graded_nano":
        assert len(tokenizer.encode("once timu: friend of bako.")) == 8
