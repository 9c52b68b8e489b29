"""The nano world: a generated corpus of short true documents, the warm start for it, and a held-out set.

It exists so that self-play can be seen to learn on two CPU cores. Half of the documents are worked calculations,
half are facts; each holds statements of different grades, so that *which* statement the Challenger asks about is its
lever on the Reasoner's pass rate:

    7+5=12. 58+67=125. 93-47=46.
    period of iron is 4. group of iron is 8. number of tin is 50.

The Challenger reads a document and "ask Integer", and writes "question: 58+67=?" and "answer: 125" on two
lines. The Reasoner reads the question alone and writes "521\\boxed{125}": a short working (a computed number last
digit first, nothing for a fact) and the boxed answer.

Before self-play the Reasoner has been told both truth and slips (58+67=115, the carry forgotten), so that it half
believes many things. Only the documents, which the Challenger reads, hold the truth alone.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Literal

from spicejax.types import Document, Task
from spicejax.worlds.nano import truth
from spicejax.worlds.nano.example import Part
from spicejax.worlds.nano.truth import FACTS, GRADES, Item, draw_calculation

STATEMENTS = 3  # in a document
AGAIN = "\nask Integer"  # ends the Challenger's request

# Strings worth one piece each in the tokenizer (SentencePiece user_defined_symbols): the format's fixed parts and the
# joints of a statement, so that the same word has the same piece in a document, a question and an answer. A digit
# before an operator is a piece of its own: with plain digits alone too many places of a document look alike, and the
# model learns to copy calculations late or not at all.
SYMBOLS: tuple[str, ...] = (
    *("user\n", "assistant\n", "\nask ", "question: ", "?\nanswer: ", "\n", "\\boxed{", "}"),
    *(" is ", " of ", " in ", " after ", ". ", ".", "?"),
    *(digit + operator for operator in "+-=" for digit in "0123456789"),
)

CHALLENGER_SHARE = 0.5  # of the warm start's examples
# Of the Challenger's, those that ask without a document, out of memory with its slips: for the ablation without corpus.
MEMORY_SHARE = 0.06
# The Reasoner's warm start: share of calculations, share of each grade 0 to 4 among them, and how often a fact of each
# grade is met. Facts are soon learnt by heart, so they are few.
MATH_SHARE = 0.8
MATH_WEIGHTS = (6, 8, 8, 4, 2)
FACT_WEIGHTS = (0, 3, 2, 1, 1)
# How often an answer is the slip, by grade. For calculations only after this share of the examples: a model of this
# size learns to calculate from true sums or not at all.
DOUBT = (0.0, 0.0, 0.4, 0.55, 0.7)
CALCULATE_FIRST = 0.6
FAMILY_WEIGHTS = {"element": 6, "country": 5, "planet": 2, "month": 2, "unit": 3, "constant": 2}


@dataclasses.dataclass(frozen=True)
class Example:
    """One supervised pair for the warm start."""

    role: Literal["challenger", "reasoner"]
    prompt: str  # the user's turn
    reply: str  # the assistant's turn; only this is trained
    grade: int
    further: tuple[str, ...] = ()  # replies to the request AGAIN, one after another

    @property
    def parts(self) -> tuple[Part, ...]:
        """What follows the prompt."""
        again = (part for reply in self.further for part in (Part("asked", AGAIN), Part("reply", reply)))
        return (Part("reply", self.reply), *again)


def documents(seed: int, n: int) -> list[Document]:
    """Return n documents, calculations and facts in turn; the i-th depends on seed and i alone."""
    result = []
    for i in range(n):
        items = _statements(seed, i // 2, math=i % 2 == 0)
        family = items[0].family
        title = "calculations" if family == "math" else family
        result.append(Document(f"{family}/{i // 2}", _text(items), title))
    return result


def _statements(seed: int, index: int, *, math: bool) -> list[Item]:
    """What a document says: calculations, or facts of one family."""
    rng = random.Random(f"nano world {seed} {'math' if math else 'facts'} {index}")
    if math:
        return [draw_calculation(grade, rng) for grade in rng.sample(GRADES, STATEMENTS)]
    (family,) = rng.choices(list(FAMILY_WEIGHTS), list(FAMILY_WEIGHTS.values()))
    return rng.sample([fact for fact in FACTS if fact.family == family], STATEMENTS)


def _text(items: list[Item]) -> str:
    return ". ".join(item.statement for item in items) + "."


def challenger_example(items: list[Item], rng: random.Random) -> Example:
    """Ask about each statement of a document, in an order drawn uniformly: more to copy for one reading."""
    first, *others = rng.sample(items, len(items))
    return Example("challenger", f"{_text(items)}{AGAIN}", _reply(first), first.grade, tuple(map(_reply, others)))


def _reply(item: Item) -> str:
    """What the Challenger writes to ask for a statement's right side."""
    return f"question: {item.question}\nanswer: {item.answer}"


def _believed(rng: random.Random, doubt_calculations: bool) -> Item:
    """Draw a statement of the warm start; its answer may be the slip."""
    math = rng.random() < MATH_SHARE
    grade = rng.choices(GRADES, MATH_WEIGHTS if math else _GENERAL_WEIGHTS)[0]
    item = draw_calculation(grade, rng) if math else rng.choice(_FACTS_BY_GRADE[grade])
    believed = truth.slip(item) if doubt_calculations or not math else None
    doubted = believed is not None and rng.random() < DOUBT[grade]
    return dataclasses.replace(item, answer=believed) if doubted else item


_FACTS_BY_GRADE = [[f for f in FACTS if f.grade == g] for g in GRADES]
_GENERAL_WEIGHTS = [len(facts) * weight for facts, weight in zip(_FACTS_BY_GRADE, FACT_WEIGHTS, strict=True)]


def answer_text(item: Item) -> str:
    """Write the Reasoner's reply: working, then the boxed answer."""
    return f"{item.answer[::-1] if item.family in ('math', 'unit') else ''}\\boxed{{{item.answer}}}"


def warm_start_examples(seed: int, n: int) -> list[Example]:
    """Return n supervised examples for both roles in the order in which to train on them; the same for (seed, n).

    Copying out of a document is what takes a small model longest. So documents begin with one statement and grow to
    their full length over the first 60 % of the examples. The documents are not those of `documents(seed, ...)`,
    but the facts are the same ones.
    """
    examples = []
    for i in range(n):
        rng = random.Random(f"nano world {seed} warm start {i}")
        doubt = i > CALCULATE_FIRST * n
        if rng.random() >= CHALLENGER_SHARE:
            item = _believed(rng, doubt)
            examples.append(Example("reasoner", item.question, answer_text(item), item.grade))
        elif rng.random() < MEMORY_SHARE:
            item = _believed(rng, doubt)
            examples.append(Example("challenger", AGAIN.strip(), _reply(item), item.grade))
        else:
            longest = rng.randint(1, min(STATEMENTS, 1 + int(STATEMENTS * i / (0.6 * n))))
            items = _statements(seed + 1_000_003, i, math=rng.random() < 0.5)
            examples.append(challenger_example(rng.sample(items, longest), rng))
    return examples


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of both roles, plus every fact once."""
    examples = warm_start_examples(seed, n)
    return [e.prompt for e in examples] + [e.reply for e in examples] + [fact.statement for fact in FACTS]


def statements(seed: int, n: int) -> list[tuple[str, Item]]:
    """Return the distinct statements of `documents(seed, n)`, each with the document's name, in their order."""
    distinct: dict[str, tuple[str, Item]] = {}
    for i in range(n):
        for item in _statements(seed, i // 2, math=i % 2 == 0):
            distinct.setdefault(item.stem, (f"{item.family}/{i // 2}", item))
    return list(distinct.values())


def replies(seed: int, n: int) -> list[dict[str, str]]:
    """Return n questions as prompts with the Reasoner's true replies as completions, drawn apart from `documents`."""
    items = [item for _, item in statements(seed + 2_000_003, n)[:n]]
    return [{"prompt": item.question, "completion": answer_text(item)} for item in items]


def ask(item: Item, place: str) -> Task:
    """Turn a statement into the question for its right side."""
    return Task(item.question, item.answer, "Integer", place)


def held_out(seed: int, n_math: int, n_general: int) -> list[Task]:
    """Return a fixed Reasoner evaluation set, all of grades that can be learnt; `id` ends with the family.

    Calculations (grades 1 to 4) use operand pairs that no document and no warm-start example ever holds: they measure
    generalisation. Facts (grades 2 to 4) stand in the documents, and the warm start teaches them and their slips;
    self-play may ask the very same question. This half measures how much of the corpus the Reasoner has come to know.

    No statement is asked twice. Raises: ValueError for more tasks than there are statements.
    """
    rng = random.Random(f"nano world {seed} held out")
    learnable = [fact for grade in (2, 3, 4) for fact in _FACTS_BY_GRADE[grade]]
    tasks: dict[str, Task] = {}
    for count, general in ((n_math, False), (n_math + n_general, True)):
        repeats = 0
        while len(tasks) < count:
            if repeats > 2000:
                raise ValueError(f"{n_math=} or {n_general=}: the world holds fewer distinct ones; ask for fewer")
            item = rng.choice(learnable) if general else draw_calculation(1 + len(tasks) % 4, rng, reserved=True)
            repeats = repeats + 1 if item.stem in tasks else 0
            tasks.setdefault(item.stem, ask(item, f"held_out/{item.family}"))
    return list(tasks.values())


def items(seed: int, number: int, n_held_out: int) -> dict[str, list[dict[str, Any]]]:
    """Rows of each file of the world: corpus, questions that it answers, held_out, and examples with true replies.

    Args:
      number: documents.
      n_held_out: questions of the evaluation, half of them calculations.
    """

    def row(task: Task, category: str) -> dict[str, Any]:
        base = {"id": task.id, "question": task.question, "answer": task.answer}
        return base | {"answer_type": task.answer_type, "category": category}

    tasks = held_out(seed, n_held_out // 2, n_held_out - n_held_out // 2)
    return {
        "corpus": [{"id": d.id, "title": d.title, "text": d.text} for d in documents(seed, number)],
        "questions": [row(ask(item, place), "all") for place, item in statements(seed, number)],
        "held_out": [row(t, "math" if t.id == "held_out/math" else "general") for t in tasks],
        "examples": replies(seed, number),
    }
