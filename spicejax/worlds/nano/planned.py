"""The planned world: the linked facts again, for a policy that splits a question and answers its parts from passages.

    plan: home of friend of bako?            ### friend of bako?
                                             ### home of #1?
    friend of bako is timu.
    known timu: friend of bako.
    friend of bako?                          timu
    #1: friend of bako? Answer: timu ...
    home of friend of bako?                  <answer>nora</answer>

The warm start can read, answer a question of one fact from passages, and has seen something of the rest. The examples,
for supervised fine-tuning, show all three kinds of reply, and questions answered at once; a share of each is wrong, as
a weaker teacher's would be, so that the policy half believes in bad plans and has much to learn from what its answers
are worth. Graded, it is made of the facts of worlds/nano/graded.py, and questions have up to five.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from spicejax.types import Passage
from spicejax.worlds.nano import linked
from spicejax.worlds.nano.example import Example, Part
from spicejax.worlds.nano.linked import World, facts, question

# Shares of the fine-tuning examples: plans, sub-answers, final answers; the rest are questions answered at once.
PLANS, SUB_ANSWERS, FINALS = 0.4, 0.2, 0.2
# How often each shows what is right.
PLANS_RIGHT, SUB_RIGHT, FINAL_RIGHT = 0.5, 0.8, 0.75
READ_FIRST = 0.5  # of the warm start: reading alone, which takes a small model longest
AT_ONCE_HOPS = (6, 1, 1)  # weights of one, two, three facts, of those answered at once: what they show answers one


@dataclasses.dataclass(frozen=True)
class Planned:
    """The world over plain or graded facts."""

    graded: bool = False
    # weights of questions of one, two, ... facts
    hops: tuple[int, ...] = (1, 2, 2)

    @property
    def SYMBOLS(self) -> tuple[str, ...]:
        """Strings worth a piece each, as SentencePiece writes them: ▁ for a space. linked.SYMBOLS has plain ones."""
        return (
            *("###▁", *(f"#{k}" for k in range(1, len(self.hops) + 1)), "Answer:▁", "plan:▁", "answer:▁"),
            *("<answer>", "</answer>"),
            *(f"{relation}▁of▁" for relation in linked.RELATIONS),
            *("known▁", "▁is▁", ":▁", ".", "?", "\n"),
            *linked.SYLLABLES,
            *(("once▁",) if self.graded else ()),
        )

    def warm_start_examples(self, seed: int, n: int) -> list[Example]:
        """Return n examples: questions of one fact with passages, at the end lessons too; facts of other seeds."""
        rest = iter(self.lessons(seed + 1, n))
        return [
            next(rest) if i > READ_FIRST * n and i % 2 else _reading(*self._drawn(seed, "reading", i), right=1.0)
            for i in range(n)
        ]

    def texts_for_tokenizer(self, seed: int, n: int = 4000) -> list[str]:
        """Return prompts and replies of all kinds."""
        examples = [*self.warm_start_examples(seed, n // 2), *self.lessons(seed, n // 2)]
        return [text for e in examples for text in (e.prompt, *(part.text for part in e.parts))]

    def lessons(self, seed: int, n: int) -> list[Example]:
        """Return n examples to fine-tune on, over facts of other seeds."""
        examples = []
        for i in range(n):
            world, rng = self._drawn(seed, "lesson", i)
            draw = rng.random()
            if draw < PLANS:
                examples.append(_plan(world, rng, self.hops))
            elif draw < PLANS + SUB_ANSWERS:
                examples.append(_reading(world, rng, SUB_RIGHT))
            elif draw < PLANS + SUB_ANSWERS + FINALS:
                examples.append(_final(world, rng, self.hops))
            else:
                examples.append(_at_once(world, rng))
        return examples

    def items(self, seed: int, number: int, held_out: int) -> dict[str, list[dict[str, Any]]]:
        """Rows of each file of the world, as the linked world's; the examples are for supervised fine-tuning."""
        rows = linked.files(facts(seed, self.graded), seed, number, held_out, most=len(self.hops))
        return rows | {"examples": linked.as_rows(self.lessons(seed, number))}

    def _drawn(self, seed: int, what: str, i: int) -> tuple[World, random.Random]:
        rng = random.Random(f"planned world {seed} {what} {i}")
        return facts(seed + 1_000_003 + i % 3, self.graded), rng


PLAIN = Planned()
GRADED = Planned(graded=True, hops=(1, 2, 2, 2, 2))


def _asked(world: World, rng: random.Random, hops: tuple[int, ...]) -> tuple[str, list[str]]:
    """Where a question begins, and the relations it follows; `hops` are weights of one, two, ... facts."""
    number = rng.choices(range(1, len(hops) + 1), hops)[0] if len(hops) > 1 else 1
    start = rng.choice(list(world.kinds))
    return start, world.path(start, number, rng)


def _steps(start: str, relations: list[str]) -> list[str]:
    return [f"{relation} of {f'#{k}' if k else start}?" for k, relation in enumerate(relations)]


def _plan(world: World, rng: random.Random, hops: tuple[int, ...]) -> Example:
    start, relations = _asked(world, rng, hops)
    planned = relations
    if rng.random() > PLANS_RIGHT and len(relations) > 1:
        # A step left out, or two of them the wrong way round.
        k = rng.randrange(len(relations) - 1)
        swapped = [*relations[:k], relations[k + 1], relations[k], *relations[k + 2 :]]
        planned = rng.choice([relations[:k] + relations[k + 1 :], swapped])
    plan = "\n".join(f"### {step}" for step in _steps(start, planned))
    return Example("decomposer", f"plan: {question(start, relations)}", (Part("reply", plan),))


def _passages(world: World, relation: str, name: str, rng: random.Random) -> list[Passage]:
    """What a search for one fact finds: it, and the fact led back or another that shares a word."""
    about = [world.passage(relation, name), world.back(relation, name)]
    other = rng.choice([r for r in world.leads[name] if r != relation])
    found = [about, about[::-1], [about[0], world.passage(other, name)]]
    if world.told_by:  # graded
        found += [[about[0], world.back(*fact)] for fact in world.led[name][:2]]
        once = (n for n, facts_then in world.was.items() if (relation, name) in facts_then)
        found += [[about[0], world.stale(relation, name, n)] for n in once]
    return rng.choice(found)


def _reading(world: World, rng: random.Random, right: float) -> Example:
    start, (relation,) = _asked(world, rng, (1,))
    found = _passages(world, relation, start, rng)
    passages, by = "\n".join(p.text for p in found), world.told_by.get((relation, start))
    answer = world.leads[start][relation]
    if by and world.back(relation, start) not in found:
        answer = by[1]  # told by way of another fact: the name that stands there
    if rng.random() >= right:
        answer = rng.choice([start, rng.choice(list(world.kinds))])
    return Example("solver", f"{passages}\n{relation} of {start}?", (Part("reply", answer),))


def _final(world: World, rng: random.Random, hops: tuple[int, ...]) -> Example:
    start, relations = _asked(world, rng, hops)
    names = world.follow(start, relations)[1:]
    pairs = zip(_steps(start, relations), names, strict=True)
    steps = "\n".join(f"#{n}: {step}\nAnswer: {name}" for n, (step, name) in enumerate(pairs, 1))
    answer = names[-1] if rng.random() < FINAL_RIGHT else rng.choice([start, *names])
    return Example("solver", f"{steps}\n{question(start, relations)}", (Part("reply", f"<answer>{answer}</answer>"),))


def _at_once(world: World, rng: random.Random) -> Example:
    start, relations = _asked(world, rng, AT_ONCE_HOPS)
    passages = "\n".join(p.text for p in _passages(world, relations[0], start, rng))
    answer = world.follow(start, relations)[-1]
    return Example(
        "solver", f"{passages}\nanswer: {question(start, relations)}", (Part("reply", f"<answer>{answer}</answer>"),)
    )
