"""The linked world: facts that lead from one to the next, to be found by searching, for the games that search.

Entities have invented names. Each fact is a passage under the name it is about, and stands a second time under the name
it leads to:

    friend of bako is timu.        known timu: friend of bako.

A question follows one to three facts: "home of friend of bako?". The facts of a run are drawn for it and stand nowhere
but in its corpus; the warm start is told of other ones under the same names. So nobody can know an answer, and a query
as short as "friend of bako" finds it.

The warm start knows the tags and little else. A Solver of the warm start searches, or guesses; asks for what the
question needs next, or for something else; answers with what it has been shown, or with the name that it asked about.
A Proposer ("2 timu": two searches, the answer) searches back from the answer, mostly one step, and asks a question that
is right as often as not. What it does by chance reinforcement can choose from.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable
from typing import Any

from spicejax.tags import NANO_TAGS
from spicejax.types import Passage, Task
from spicejax.worlds.nano.example import Example, Part

ENTITIES = 300  # of a world, a third of them towns
SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aiou"]
# Relation: what it leads from and to.
RELATIONS = {
    "friend": ("person", "person"),
    "boss": ("person", "person"),
    "home": ("person", "town"),
    "chief": ("town", "person"),
    "port": ("town", "town"),
}
# Graded: shares of the facts that are told by way of another one, and beside which one stands that held once.
INDIRECT, STALE = 0.25, 0.3
Fact = tuple[str, str]  # relation, and the name it is about
_OF = {kind: [r for r, (start, _) in RELATIONS.items() if start == kind] for kind in ("person", "town")}

SYMBOLS: tuple[str, ...] = (
    *("<search>", "</search>", "<answer>", "</answer>", "<question>", "</question>"),
    *("\n\n<information>\n", "\n</information>\n\n", "<information>", "</information>", "\n"),
    *(f"{relation} of " for relation in RELATIONS),
    *("known ", " is ", ": ", ".", "?", "1 ", "2 ", "3 "),
    *SYLLABLES,
)

# Shares of the warm start's examples: the Solver; the Proposer; the rest verify a question from passages.
SOLVER, PROPOSER = 0.45, 0.25
HOPS = (5, 3, 2)  # weights of questions of one, two, three facts
# How often a Solver of the warm start goes on searching, asks for the right thing, copies the right name.
GOES_ON, ASKS_RIGHT, ANSWERS_RIGHT = 0.7, 0.75, 0.75
# How often a Proposer searches at all, searches a second and third time, and asks the question it has found.
SEARCHES, FURTHER, ASKS_FOUND = 0.85, 0.4, 0.65


class World:
    """The facts of one seed: `leads[entity][relation]` is the entity that a fact leads to.

    Graded (worlds/nano/graded.py), some facts are told by way of another, and some that hold no longer are told too;
    whole, a fact is told in full where it stands under the name it leads to.
    """

    def __init__(self, seed: int, *, graded: bool = False, whole: bool = False):
        rng = random.Random(f"linked world {seed}")
        names = rng.sample([a + b for a in SYLLABLES for b in SYLLABLES], ENTITIES)
        self.kinds = {name: "town" if i % 3 == 0 else "person" for i, name in enumerate(names)}
        by_kind = {kind: [n for n in names if self.kinds[n] == kind] for kind in _OF}
        self.leads = {
            name: {r: rng.choice([n for n in by_kind[RELATIONS[r][1]] if n != name]) for r in _OF[kind]}
            for name, kind in self.kinds.items()
        }
        self.led: dict[str, list[Fact]] = {name: [] for name in names}  # relation and entity it comes from
        for name, facts in self.leads.items():
            for relation, other in facts.items():
                self.led[other].append((relation, name))
        self.whole = whole
        self.told_by: dict[Fact, Fact] = {}  # of a fact, the other one that leads to the same entity
        self.was: dict[str, list[Fact]] = {name: [] for name in names}  # facts that led to an entity once
        if graded:
            rng = random.Random(f"linked world {seed} graded")
            told = {fact: rng.random() >= INDIRECT for name in names for fact in self.facts_of(name)}
            for relation, name in (fact for fact in told if not told[fact]):
                others = [fact for fact in self.led[self.leads[name][relation]] if told[fact] and fact[1] != name]
                if others:
                    self.told_by[relation, name] = rng.choice(others)
            for relation, name in (fact for fact in told if rng.random() < STALE):
                kind, now = RELATIONS[relation][1], self.leads[name][relation]
                self.was[rng.choice([n for n in by_kind[kind] if n not in (name, now)])].append((relation, name))

    def facts_of(self, name: str) -> list[Fact]:
        """The facts about an entity."""
        return [(relation, name) for relation in self.leads[name]]

    def passage(self, relation: str, name: str) -> Passage:
        """The fact under the name it is about."""
        by = self.told_by.get((relation, name))
        told = f"{by[0]} of {by[1]}" if by else self.leads[name][relation]
        return Passage(f"{relation}/{name}", name, f"{relation} of {name} is {told}.")

    def back(self, relation: str, name: str) -> Passage:
        """The same fact under the name it leads to."""
        other, fact = self.leads[name][relation], f"{relation} of {name}"
        if self.whole:  # no title: with it, a search for what is told of the name itself would find this first
            return Passage(f"known/{relation}/{name}", "", f"known {other}: {fact} is {other}.")
        return Passage(f"known/{relation}/{name}", other, f"known {other}: {fact}.")

    def stale(self, relation: str, name: str, once: str) -> Passage:
        """A fact that held once, under the name it led to."""
        if self.whole:
            return Passage(f"once/{relation}/{name}", "", f"known {once}: {relation} of {name} was {once}.")
        return Passage(f"once/{relation}/{name}", once, f"once {once}: {relation} of {name}.")

    def passages(self) -> list[Passage]:
        """All facts under the name they are about, then under those they lead to, then those that held once."""
        pairs = [fact for name in self.leads for fact in self.facts_of(name)]
        once = [self.stale(*fact, other) for other, facts in self.was.items() for fact in facts]
        return [under(*pair) for under in (self.passage, self.back) for pair in pairs] + once

    def path(self, start: str, hops: int, rng: random.Random) -> list[str]:
        """Relations that are followed from `start`, the first one first."""
        relations, at = [], start
        for _ in range(hops):
            relations.append(rng.choice(_OF[self.kinds[at]]))
            at = self.leads[at][relations[-1]]
        return relations

    def follow(self, start: str, relations: list[str]) -> list[str]:
        """The names on the way, `start` first, the answer last."""
        names = [start]
        for relation in relations:
            names.append(self.leads[names[-1]][relation])
        return names

    def leads_to(self, start: str, relations: list[str]) -> str | None:
        """The answer of a question that anybody may ask; None where there is none, as for the port of a person."""
        at: str | None = start
        for relation in relations:
            at = self.leads.get(at or "", {}).get(relation)
        return at


@functools.lru_cache(maxsize=8)
def facts(seed: int, graded: bool = False, whole: bool = False) -> World:
    """The world of this seed."""
    return World(seed, graded=graded, whole=whole)


def read(text: str) -> tuple[str, list[str]] | None:
    """Where a question begins and the relations it follows, the first one first; None of what is no question."""
    *relations, start = text.removesuffix("?").split(" of ")
    return (start, relations[::-1]) if relations and set(relations) <= set(RELATIONS) else None


def question(start: str, relations: list[str]) -> str:
    """Ask what the relations lead to."""
    return "".join(f"{relation} of " for relation in reversed(relations)) + f"{start}?"


def measured(world: World, proposals: Iterable[tuple[str, str, str]]) -> dict[str, float]:
    """What only the world knows of proposals: question, its answer, and why it was rejected ("" = it was not).

    Facts of a question; share of the valid ones that are true; of those that came before the verifier, the true ones
    that it rejected and the false ones that it let pass. What cannot be told is left out.
    """
    facts_asked: list[int] = []
    passed: dict[bool, list[bool]] = {True: [], False: []}  # by truth
    for text, answer, rejected in proposals:
        asked = read(text)
        if asked is None or asked[0] not in world.leads:
            continue
        facts_asked.append(len(asked[1]))
        if rejected in ("", "not_verified"):
            passed[world.leads_to(*asked) == answer].append(not rejected)
    valid = sum(passed[True]), sum(passed[False])
    shares = {
        "proposer/hops": (sum(facts_asked), len(facts_asked)),
        "proposer/true": (valid[0], sum(valid)),
        "verifier/false_rejections": (len(passed[True]) - valid[0], len(passed[True])),
        "verifier/false_acceptances": (valid[1], len(passed[False])),
    }
    return {name: part / whole for name, (part, whole) in shares.items() if whole}


def warm_start_examples(seed: int, n: int) -> list[Example]:
    """Return n supervised examples of all roles in the order in which to train on them, over facts of other seeds."""
    examples = []
    for i in range(n):
        rng = random.Random(f"linked world {seed} warm start {i}")
        world = facts(seed + 1_000_003 + i % 3)
        draw = rng.random()
        role = _solver if draw < SOLVER else _proposer if draw < SOLVER + PROPOSER else _verifier
        examples.append(role(world, rng, i / n))
    return examples


def _solver(world: World, rng: random.Random, when: float) -> Example:
    # One fact first, whose name has to be copied: that is what takes a small model longest.
    hops = 1 if rng.random() > 2 * when else rng.choices((1, 2, 3), HOPS)[0]
    start = rng.choice(list(world.kinds))
    relations = world.path(start, hops, rng)
    names, parts, at = world.follow(start, relations), [], start
    answer = rng.choice(list(world.kinds))
    for relation, name in zip(relations, names, strict=False):
        if rng.random() > GOES_ON and (parts or when > 0.5):
            break
        searched, about = relation, name
        if rng.random() > ASKS_RIGHT and when > 0.5:
            about = rng.choice([start, rng.choice(names)])
            searched = rng.choice(_OF[world.kinds[about]])
        passage = world.passage(searched, about)
        parts += [Part("reply", f"<search>{searched} of {about}</search>"), Part("shown", NANO_TAGS.show([passage]))]
        at, answer = about, world.leads[about][searched]
    if parts and rng.random() > ANSWERS_RIGHT and when > 0.5:
        answer = at
    return Example("solver", question(start, relations), (*parts, Part("reply", f"<answer>{answer}</answer>")))


def _proposer(world: World, rng: random.Random, when: float) -> Example:
    answer = rng.choice([name for name, led in world.led.items() if led])
    searches, parts, relations, at = rng.randint(1, 3), [], [], answer
    while world.led[at] and rng.random() < (FURTHER if parts else SEARCHES) and len(parts) < 2 * 3:
        relation, name = rng.choice(world.led[at])
        observation = NANO_TAGS.show([world.back(relation, name)])
        parts += [Part("reply", f"<search>known {at}</search>"), Part("shown", observation)]
        relations, at = [relation, *relations], name
    if not relations or rng.random() > ASKS_FOUND:
        at = at if relations else rng.choice(list(world.kinds))
        relations = world.path(at, max(len(relations), 1), rng)
    question_text = f"<question>{question(at, relations)}</question>"
    return Example("proposer", f"{searches} {answer}", (*parts, Part("reply", question_text)))


def _verifier(world: World, rng: random.Random, when: float) -> Example:
    hops = 1 if rng.random() > when else rng.choice((1, 2))
    start = rng.choice(list(world.kinds))
    relations = world.path(start, hops, rng)
    names = world.follow(start, relations)
    passages = [world.back(relation, name) for relation, name in zip(relations, names, strict=False)]
    for _ in range(rng.randint(0, round(6 * when))):
        name = rng.choice(list(world.kinds))
        passages.append(world.back(rng.choice(_OF[world.kinds[name]]), name))
    rng.shuffle(passages)
    prompt = "\n".join([*(p.text for p in passages), question(start, relations)])
    return Example("verifier", prompt, (Part("reply", f"<answer>{names[-1]}</answer>"),))


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of all roles."""
    return [text for e in warm_start_examples(seed, n) for text in (e.prompt, *(part.text for part in e.parts))]


def _questions(world: World, rng: random.Random, names: list[str], n: int, most: int) -> list[tuple[int, Task]]:
    """Distinct questions that begin at these names, of one to `most` facts in turn."""
    questions: dict[str, tuple[int, Task]] = {}
    for i in range(20 * n):
        hops, start = 1 + len(questions) % most, names[i % len(names)]
        relations = world.path(start, hops, rng)
        text, way = question(start, relations), world.follow(start, relations)
        if len(set(way)) == len(way):
            questions.setdefault(text, (hops, Task(text, way[-1], "String", f"{hops}/{len(questions)}")))
        if len(questions) == n:
            break
    return list(questions.values())


def files(
    world: World, seed: int, number: int, held_out: int, *, most: int = 3, answers: int | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Rows of corpus, questions, held_out and answers of a world.

    Held-out questions begin at a fifth of the names, at which no training question begins.
    Args:
      number: training questions, at most.
      held_out: questions of the evaluation, as many of each number of facts, at most.
      most: facts of a question. answers: at most; None = every name that a fact leads to.
    """
    names = list(world.kinds)
    held_out_names, training_names = names[: len(names) // 5], names[len(names) // 5 :]

    def asked(names: list[str], n: int) -> list[dict[str, Any]]:
        rng = random.Random(f"linked world {seed} questions {names[0]}")
        return [
            {"id": t.id, "question": t.question, "answer": t.answer, "answer_type": "String"}
            | {"category": f"facts_{hops}"}
            for hops, t in _questions(world, rng, names, n, most)
        ]

    return {
        "corpus": [{"id": p.id, "title": p.title, "text": p.text} for p in world.passages()],
        "questions": asked(training_names, number),
        "held_out": asked(held_out_names, held_out),
        "answers": [{"id": name, "answer": name} for name, led in world.led.items() if led][:answers],
    }


def items(seed: int, number: int, held_out: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of each file of the world: those of `files`, and as examples what a verifier reads and replies."""
    examples = [e for e in warm_start_examples(seed, number) if e.role == "verifier"]
    return files(facts(seed), seed, number, held_out) | {"examples": as_rows(examples)}


def as_rows(examples: list[Example]) -> list[dict[str, Any]]:
    """Prompts with their completions."""
    return [{"prompt": e.prompt, "completion": e.parts[0].text} for e in examples]
