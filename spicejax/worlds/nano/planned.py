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
are worth.
"""

from __future__ import annotations

import random
from typing import Any

from spicejax.types import Passage
from spicejax.worlds.nano import linked
from spicejax.worlds.nano.example import Example, Part
from spicejax.worlds.nano.linked import World, facts, question

# As SentencePiece writes them, ▁ for a space; linked.SYMBOLS has plain ones, which are never used.
SYMBOLS: tuple[str, ...] = (
    *("###▁", "#1", "#2", "#3", "Answer:▁", "plan:▁", "answer:▁", "<answer>", "</answer>"),
    *(f"{relation}▁of▁" for relation in linked.RELATIONS),
    *("known▁", "▁is▁", ":▁", ".", "?", "\n"),
    *linked.SYLLABLES,
)

# Shares of the fine-tuning examples: plans, sub-answers, final answers; the rest are questions answered at once.
PLANS, SUB_ANSWERS, FINALS = 0.4, 0.2, 0.2
# How often each shows what is right.
PLANS_RIGHT, SUB_RIGHT, FINAL_RIGHT = 0.5, 0.8, 0.75
READ_FIRST = 0.5  # of the warm start: reading alone, which takes a small model longest
HOPS = (1, 2, 2)  # weights of questions of one, two, three facts
AT_ONCE_HOPS = (6, 1, 1)  # of those answered at once: what they show answers one fact alone


def warm_start_examples(seed: int, n: int) -> list[Example]:
    """Return n examples: questions of one fact with passages, at the end lessons among them; facts of other seeds."""
    rest = iter(lessons(seed + 1, n))
    return [
        next(rest) if i > READ_FIRST * n and i % 2 else _reading(*_drawn(seed, "reading", i), right=1.0)
        for i in range(n)
    ]


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of all kinds."""
    examples = [*warm_start_examples(seed, n // 2), *lessons(seed, n // 2)]
    return [text for e in examples for text in (e.prompt, *(part.text for part in e.parts))]


def lessons(seed: int, n: int) -> list[Example]:
    """Return n examples to fine-tune on, over facts of other seeds."""
    examples = []
    for i in range(n):
        world, rng = _drawn(seed, "lesson", i)
        draw = rng.random()
        if draw < PLANS:
            examples.append(_plan(world, rng))
        elif draw < PLANS + SUB_ANSWERS:
            examples.append(_reading(world, rng, SUB_RIGHT))
        else:
            examples.append((_final if draw < PLANS + SUB_ANSWERS + FINALS else _at_once)(world, rng))
    return examples


def items(seed: int, number: int, held_out: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of each file of the world, as the linked world's; the examples are for supervised fine-tuning."""
    rows = linked.items(seed, number, held_out)
    return rows | {"examples": [{"prompt": e.prompt, "completion": e.parts[0].text} for e in lessons(seed, number)]}


def _drawn(seed: int, what: str, i: int) -> tuple[World, random.Random]:
    return facts(seed + 1_000_003 + i % 3), random.Random(f"planned world {seed} {what} {i}")


def _asked(world: World, rng: random.Random, hops: int) -> tuple[str, list[str]]:
    """Where a question begins, and the relations it follows."""
    start = rng.choice(list(world.kinds))
    return start, world.path(start, hops, rng)


def _steps(start: str, relations: list[str]) -> list[str]:
    return [f"{relation} of {f'#{k}' if k else start}?" for k, relation in enumerate(relations)]


def _plan(world: World, rng: random.Random) -> Example:
    start, relations = _asked(world, rng, rng.choices((1, 2, 3), HOPS)[0])
    planned = relations
    if rng.random() > PLANS_RIGHT and len(relations) > 1:
        # A step left out, or two of them the wrong way round.
        k = rng.randrange(len(relations) - 1)
        swapped = [*relations[:k], relations[k + 1], relations[k], *relations[k + 2 :]]
        planned = rng.choice([relations[:k] + relations[k + 1 :], swapped])
    plan = "\n".join(f"### {step}" for step in _steps(start, planned))
    return Example("decomposer", f"plan: {question(start, relations)}", (Part("reply", plan),))


def _passages(world: World, relation: str, name: str, rng: random.Random) -> list[Passage]:
    """What a search for one fact finds: it, the fact led back, or one that shares a word."""
    about = [world.passage(relation, name), world.back(relation, name)]
    other = rng.choice([r for r in world.leads[name] if r != relation])
    return rng.choice([about, about[::-1], [about[0], world.passage(other, name)]])


def _reading(world: World, rng: random.Random, right: float) -> Example:
    start, (relation,) = _asked(world, rng, 1)
    passages = "\n".join(p.text for p in _passages(world, relation, start, rng))
    answer = (
        world.leads[start][relation] if rng.random() < right else rng.choice([start, rng.choice(list(world.kinds))])
    )
    return Example("solver", f"{passages}\n{relation} of {start}?", (Part("reply", answer),))


def _final(world: World, rng: random.Random) -> Example:
    start, relations = _asked(world, rng, rng.choices((1, 2, 3), HOPS)[0])
    names = world.follow(start, relations)[1:]
    pairs = zip(_steps(start, relations), names, strict=True)
    steps = "\n".join(f"#{n}: {step}\nAnswer: {name}" for n, (step, name) in enumerate(pairs, 1))
    answer = names[-1] if rng.random() < FINAL_RIGHT else rng.choice([start, *names])
    return Example("solver", f"{steps}\n{question(start, relations)}", (Part("reply", f"<answer>{answer}</answer>"),))


def _at_once(world: World, rng: random.Random) -> Example:
    start, relations = _asked(world, rng, rng.choices((1, 2, 3), AT_ONCE_HOPS)[0])
    passages = "\n".join(p.text for p in _passages(world, relations[0], start, rng))
    answer = world.follow(start, relations)[-1]
    return Example(
        "solver", f"{passages}\nanswer: {question(start, relations)}", (Part("reply", f"<answer>{answer}</answer>"),)
    )
