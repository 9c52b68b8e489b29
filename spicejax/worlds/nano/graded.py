"""The graded linked world: longer ways, facts told by way of others, facts that hold no longer.

The linked world's entities and facts, for questions of one to five facts in equal numbers. It is there so that an
ablation can tell something: no policy is soon right about all of it, and a Proposer has harder questions to find than
those that it asks at first.

    friend of bako is timu.          told outright
    boss of bako is friend of nora.  told by way of another fact: a Solver has to search once more
    known timu: friend of bako is timu.
    known zuna: friend of bako was zuna.     under a name it led to once: nothing to build a question on

A Solver is shown one passage a search, a Proposer two, among which it chooses. Questions are sought for a part of the
names alone. A verifier writes the names on the way before its answer, so that a model of this size can read a chain, or
`none` where the passages do not tell: "timu.<answer>zuna</answer>".
"""

from __future__ import annotations

import random
from typing import Any

from spicejax.tags import NANO_TAGS
from spicejax.types import Passage
from spicejax.worlds.nano import linked
from spicejax.worlds.nano.example import Example, Part
from spicejax.worlds.nano.linked import ASKS_FOUND, ASKS_RIGHT, FURTHER, GOES_ON, SEARCHES, World, facts, question

MOST = 5  # facts of a question
ANSWERS = 120  # names that questions are sought for, of about 280 that can be an answer
# As SentencePiece writes them, ▁ for a space
SYMBOLS: tuple[str, ...] = (
    *("<search>", "</search>", "<answer>", "</answer>", "<question>", "</question>", "none"),
    *("\n\n<information>\n", "\n</information>\n\n", "<information>", "</information>", "\n"),
    *(f"{relation}▁of▁" for relation in linked.RELATIONS),
    *("known▁", "▁is▁", "▁was▁", ":▁", ".", "?", *(f"{n}▁" for n in range(1, MOST + 1))),
    *linked.SYLLABLES,
)

# Shares of the warm start's examples: the Solver; the Proposer; the rest verify a question from passages.
SOLVER, PROPOSER = 0.4, 0.2
HOPS = (5, 3, 2, 1, 1)  # weights of a Solver's questions of one to five facts
# How often a Solver follows a fact told by way of another; a Proposer chooses among what it is shown what still holds.
FOLLOWS, HOLDS = 0.5, 0.7
TELLS = 0.8  # share of the verifier's examples whose passages tell the answer; of the others noise tells it 1 in 300
BESIDE = 0.6  # how often a second passage stands beside one, under the same name


def warm_start_examples(seed: int, n: int) -> list[Example]:
    """Return n supervised examples of all roles in the order in which to train on them, over facts of other seeds."""
    examples = []
    for i in range(n):
        rng = random.Random(f"graded world {seed} warm start {i}")
        world = facts(seed + 1_000_003 + i % 3, True, True)
        draw = rng.random()
        role = _solver if draw < SOLVER else _proposer if draw < SOLVER + PROPOSER else _verifier
        examples.append(role(world, rng, i / n))
    return examples


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of all roles."""
    return [text for e in warm_start_examples(seed, n) for text in (e.prompt, *(part.text for part in e.parts))]


def items(seed: int, number: int, held_out: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of each file of the world, as the linked world's."""
    rows = linked.files(facts(seed, True, True), seed, number, held_out, most=MOST, answers=ANSWERS)
    examples = [e for e in warm_start_examples(seed, number) if e.role == "verifier"]
    return rows | {"examples": linked.as_rows(examples)}


def _solver(world: World, rng: random.Random, when: float) -> Example:
    late = when > 0.5  # one fact first, told outright: copying is what takes a small model longest
    hops = rng.choices(range(1, MOST + 1), HOPS)[0] if rng.random() < 2 * when else 1
    start = rng.choice(list(world.kinds))
    relations = world.path(start, hops, rng)
    parts: list[Part] = []
    answer = at = start
    for relation, name in zip(relations, world.follow(start, relations), strict=False):
        if rng.random() > GOES_ON and (parts or late):
            break
        wanted = relation, name
        if rng.random() > ASKS_RIGHT and late:
            about = rng.choice([start, name])
            wanted = rng.choice(world.facts_of(about))
        while True:
            passage, by = world.passage(*wanted), world.told_by.get(wanted)
            query = f"<search>{wanted[0]} of {wanted[1]}</search>"
            parts += [Part("reply", query), Part("shown", NANO_TAGS.show([passage]))]
            at, answer = wanted[1], by[1] if by else world.leads[wanted[1]][wanted[0]]
            if not by or (late and rng.random() > FOLLOWS):
                break
            wanted = by
    if not parts:
        answer = rng.choice(list(world.kinds))
    elif rng.random() > linked.ANSWERS_RIGHT and late:
        answer = at
    return Example("solver", question(start, relations), (*parts, Part("reply", f"<answer>{answer}</answer>")))


def _known(world: World, name: str) -> list[tuple[bool, linked.Fact, Passage]]:
    """What a search for a name may find: whether it holds, the fact, its passage."""
    now = [(True, fact, world.back(*fact)) for fact in world.led[name]]
    return now + [(False, fact, world.stale(*fact, name)) for fact in world.was[name]]


def _proposer(world: World, rng: random.Random, when: float) -> Example:
    answer = rng.choice([name for name in world.kinds if _known(world, name)])
    parts: list[Part] = []
    relations: list[str] = []
    at = answer
    while (known := _known(world, at)) and rng.random() < (FURTHER if parts else SEARCHES) and len(relations) < MOST:
        found = rng.sample(known, min(2, len(known)))
        parts += [Part("reply", f"<search>known {at}</search>")]
        parts += [Part("shown", NANO_TAGS.show([passage for *_, passage in found]))]
        chosen = max(found, key=lambda each: each[0]) if rng.random() < HOLDS else rng.choice(found)
        relation, at = chosen[1]
        relations = [relation, *relations]
    if not relations or rng.random() > ASKS_FOUND:
        at = at if relations else rng.choice(list(world.kinds))
        relations = world.path(at, max(len(relations), 1), rng)
    asked = f"<question>{question(at, relations)}</question>"
    return Example("proposer", f"{rng.randint(1, MOST)} {answer}", (*parts, Part("reply", asked)))


def _verifier(world: World, rng: random.Random, when: float) -> Example:
    hops = rng.randint(1, max(1, min(MOST, round(1 + 2 * MOST * (when - 0.2)))))
    start = rng.choice(list(world.kinds))
    relations = world.path(start, hops, rng)
    names = world.follow(start, relations)
    facts_told = list(zip(relations, names, strict=False))
    missing = rng.randrange(hops) if rng.random() > TELLS and when > 0.3 else None
    passages: list[Passage] = []
    for k, fact in enumerate(facts_told):
        if k != missing:
            passages.append(world.back(*fact))
        if rng.random() < BESIDE * when or k == missing:
            beside = [p for _, other, p in _known(world, names[k + 1]) if other != fact]
            passages += rng.sample(beside, min(1, len(beside)))
    if missing is not None:  # what it was once, or nothing
        once = [world.stale(*fact, n) for n, was in world.was.items() for fact in was if fact == facts_told[missing]]
        passages += once[:1]
    for _ in range(rng.randint(0, round(3 * when))):
        passages.append(rng.choice(_known(world, rng.choice([n for n in world.kinds if world.led[n]])))[2])
    passages = list(dict.fromkeys(passages))
    rng.shuffle(passages)
    prompt = "\n".join([*(p.text for p in passages), question(start, relations)])
    told = names[1:-1] if missing is None else names[1 : missing + 1]
    answer = names[-1] if missing is None else "none"
    reply = "".join(f"{name}." for name in told) + f"<answer>{answer}</answer>"
    return Example("verifier", prompt, (Part("reply", reply),))
