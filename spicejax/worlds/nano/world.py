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
import re
from typing import Literal

from spicejax.types import Document, Task
from spicejax.worlds.nano import truth
from spicejax.worlds.nano.truth import FACTS, FAMILIES, GRADES, Item, draw_calculation, solve

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


# ----------------------------------------------------------------------------------------------------- documents


def documents(seed: int, n: int) -> list[Document]:
    """Return n documents, calculations and facts in turn; the i-th depends on seed and i alone."""
    return [(_math_document if i % 2 == 0 else _fact_document)(seed, i // 2) for i in range(n)]


def items_of(document: Document) -> list[Item]:
    """Return the statements of a document of this world; ValueError for any other text."""
    items = []
    for statement in document.text.removesuffix(".").split(". "):
        stem, link, _ = statement.partition("=" if "=" in statement else " is ")
        item = solve(stem) if link else None
        if item is None or item.statement != statement:
            raise ValueError(f"{statement!r} of document {document.id!r} is no statement of the nano world")
        items.append(item)
    return items


def _render(id_: str, items: list[Item], title: str) -> Document:
    return Document(id=id_, text=". ".join(item.statement for item in items) + ".", title=title)


def _math_document(seed: int, index: int) -> Document:
    rng = random.Random(f"nano world {seed} math {index}")
    items = [draw_calculation(grade, rng) for grade in rng.sample(GRADES, STATEMENTS)]
    return _render(f"math/{index}", items, "calculations")


def _fact_document(seed: int, index: int) -> Document:
    """Facts of one family."""
    rng = random.Random(f"nano world {seed} facts {index}")
    family = rng.choices(list(FAMILY_WEIGHTS), list(FAMILY_WEIGHTS.values()))[0]
    return _render(f"{family}/{index}", rng.sample(FAMILIES[family], STATEMENTS), family)


# ----------------------------------------------------------------------------------------------------- questions

_QUESTION = re.compile(r"(?P<stem>.+?)=?\?")


def ask(item: Item) -> Task:
    """Turn a statement into the question for its right side."""
    return Task(item.question, item.answer, "Integer")


def truth_of(question: str) -> Item | None:
    """Return the true statement that a question asks for, or None where it is no question of this world."""
    found = _QUESTION.fullmatch(question)
    item = solve(found["stem"]) if found else None
    return item if item is not None and item.question == question else None


def grade_of(question: str) -> int | None:
    """Return the grade 0 to 4 of a question's text, or None where it is no question of this world."""
    item = truth_of(question)
    return None if item is None else item.grade


def check_answer(task: Task) -> bool:
    """Whether the task's answer is the true one in this world; False for what is no question of it."""
    item = truth_of(task.question)
    return item is not None and (task.answer, task.answer_type) == (item.answer, "Integer")


# ----------------------------------------------------------------------------------------------------- examples


def challenger_example(document: Document, rng: random.Random) -> Example:
    """Ask about each statement of the document, in an order drawn uniformly: more to copy for one reading."""
    items = items_of(document)
    first, *others = rng.sample(items, len(items))
    return Example("challenger", f"{document.text}{AGAIN}", _reply(first), first.grade, tuple(map(_reply, others)))


def _reply(item: Item) -> str:
    """What the Challenger writes to ask for a statement's right side."""
    return f"question: {item.question}\nanswer: {item.answer}"


def memory_example(rng: random.Random, *, doubt_calculations: bool = True) -> Example:
    """Ask without a document what the Reasoner is taught, with the answer as it is believed."""
    item = _believed(rng, doubt_calculations)
    return Example("challenger", AGAIN.strip(), _reply(item), item.grade)


def reasoner_example(rng: random.Random, *, doubt_calculations: bool = True) -> Example:
    """Answer one question without a document, truly or with the slip: grades and doubt by the tables above."""
    item = _believed(rng, doubt_calculations)
    return Example("reasoner", item.question, answer_text(item), item.grade)


def _believed(rng: random.Random, doubt_calculations: bool) -> Item:
    """Draw a statement of the warm start; its answer may be the slip."""
    math = rng.random() < MATH_SHARE
    grade = rng.choices(GRADES, MATH_WEIGHTS if math else _GENERAL_WEIGHTS)[0]
    item = draw_calculation(grade, rng) if math else rng.choice(_FACTS_BY_GRADE[grade])
    believed = truth.slip(item) if doubt_calculations or not math else None
    doubted = believed is not None and rng.random() < DOUBT[grade]
    return dataclasses.replace(item, answer=believed) if doubted else item


_FACTS_BY_GRADE = [[f for f in FACTS.values() if f.grade == g] for g in GRADES]
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
            examples.append(reasoner_example(rng, doubt_calculations=doubt))
        elif rng.random() < MEMORY_SHARE:
            examples.append(memory_example(rng, doubt_calculations=doubt))
        else:
            longest = min(STATEMENTS, 1 + int(STATEMENTS * i / (0.6 * n)))
            examples.append(_short_document_example(seed + 1_000_003, i, rng.randint(1, longest), rng))
    return examples


def _short_document_example(seed: int, index: int, statements: int, rng: random.Random) -> Example:
    document = (_math_document if rng.random() < 0.5 else _fact_document)(seed, index)
    items = rng.sample(items_of(document), statements)
    return challenger_example(_render(document.id, items, document.title), rng)


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of both roles, plus every fact once."""
    examples = warm_start_examples(seed, n)
    return [e.prompt for e in examples] + [e.reply for e in examples] + [fact.statement for fact in FACTS.values()]


def questions(seed: int, n: int) -> list[Task]:
    """Return the distinct questions that `documents(seed, n)` answer, in their order."""
    found = {}
    for document in documents(seed, n):
        for item in items_of(document):
            found.setdefault(item.stem, dataclasses.replace(ask(item), document_id=document.id))
    return list(found.values())


def replies(seed: int, n: int) -> list[tuple[str, str]]:
    """Return (question, the Reasoner's true reply) of n statements, none of the calculations those of `documents`."""
    tasks = questions(seed + 2_000_003, n)[:n]
    return [(task.question, answer_text(item)) for task in tasks if (item := truth_of(task.question))]


# ----------------------------------------------------------------------------------------------------- held out


def held_out(seed: int, n_math: int, n_general: int) -> tuple[list[Task], list[int]]:
    """Return a fixed Reasoner evaluation set and the grade of each task, all of grades that can be learnt.

    Calculations (grades 1 to 4) use operand pairs that no document and no warm-start example ever holds: they measure
    generalisation. Facts (grades 2 to 4) stand in the documents, and the warm start teaches them and their slips;
    self-play may ask the very same question. This half measures how much of the corpus the Reasoner has come to know.

    No statement is asked twice. Raises: ValueError for more tasks than there are statements.
    """
    rng = random.Random(f"nano world {seed} held out")
    pairs: list[tuple[Item, Task]] = []
    seen: set[str] = set()
    for wanted, general in ((n_math, False), (n_general, True)):
        count = repeats = 0
        while count < wanted:
            if repeats > 2000:
                raise ValueError(f"{n_math=} or {n_general=}: the world holds fewer distinct ones; ask for fewer")
            item = rng.choice(_LEARNABLE) if general else draw_calculation(1 + count % 4, rng, reserved=True)
            repeats += 1
            if item.stem not in seen:
                seen.add(item.stem)
                pairs.append((item, dataclasses.replace(ask(item), document_id=f"held_out/{item.family}")))
                count, repeats = count + 1, 0
    return [task for _, task in pairs], [item.grade for item, _ in pairs]


_LEARNABLE = [fact for grade in (2, 3, 4) for fact in _FACTS_BY_GRADE[grade]]
