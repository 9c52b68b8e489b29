"""The nano world: a generated corpus of short true documents, the warm start for it, and a held-out set.

It exists so that self-play can be seen to learn on two CPU cores. Half of the documents are worked calculations,
half are facts; each holds statements of different grades, so that *which* statement the Challenger asks about is its
lever on the Reasoner's pass rate:

    7+5=12. 58+67=125. 93-47=46. 73 is odd. 12*7=84.
    symbol of iron is Fe. group of iron is 8. number of tin is 50. period of iron is 4.

The Challenger reads a document and "ask Integer" (or String, Boolean, MCQ), and writes "question: 58+67=?" and
"answer: 125" on two lines. The Reasoner reads the question alone and writes "521\\boxed{125}": a short working (a
computed number last digit first, otherwise the fact itself) and the boxed answer.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Literal

from spicejax.data import world_truth as truth
from spicejax.data.world_truth import FACTS, GRADES, SUBJECTS, Item, draw_calculation, draw_parity, solve
from spicejax.types import Document, Task

Kind = Literal["Integer", "String", "Boolean", "MCQ"]
KINDS: tuple[Kind, ...] = ("Integer", "String", "Boolean", "MCQ")  # every document can be asked for each of them
LETTERS = "ABCD"
STATEMENTS = 4  # in a document

# Strings worth one piece each in the tokenizer (SentencePiece user_defined_symbols): the format's fixed parts and the
# joints of a statement, so that the same word has the same piece in a document, a question and an answer.
SYMBOLS: tuple[str, ...] = (
    *(
        "user\n",
        "assistant\n",
        "\nask ",
        "question: ",
        "\nanswer: ",
        "\nA) ",
        "\nB) ",
        "\nC) ",
        "\nD) ",
        "\n",
        "\\boxed{",
        "}",
    ),
    *("=?", " is?", " is ", " of ", " in ", " after ", ". ", ".", "?", "=", "+", "-", "*"),
)

# The Reasoner's warm start: share of calculations, share of each grade 0 to 5 among them, and how often a fact of each
# grade is met. Facts are soon learnt by heart, so they are few: a fact of grade 2 or 3 is to be half known.
MATH_SHARE = 0.8
MATH_WEIGHTS = (6, 8, 8, 4, 1, 0)
FACT_WEIGHTS = (8, 4, 2, 1, 0.4, 0)
# Asked of the Challenger. Four options are a long reply to copy for a model this small, so MCQ is left to larger ones.
KIND_WEIGHTS: dict[Kind, int] = {"Integer": 5, "String": 4, "Boolean": 1, "MCQ": 0}
REASONER_WEIGHTS = (6, 1, 0)  # of the statement's own type, Boolean, MCQ
CHALLENGER_SHARE = 0.6  # of the warm start's examples
FAMILY_WEIGHTS = {"element": 6, "country": 5, "planet": 2, "month": 2, "unit": 3, "constant": 2}


@dataclasses.dataclass(frozen=True)
class Example:
    """One supervised pair for the warm start."""

    role: Literal["challenger", "reasoner"]
    prompt: str  # the user's turn
    reply: str  # the assistant's turn; only this is trained
    grade: int
    kind: Kind


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
    items = [draw_calculation(grade, rng) for grade in rng.sample(GRADES, STATEMENTS - 1)] + [draw_parity(rng)]
    rng.shuffle(items)
    return _render(f"math/{index}", items, "calculations")


def _fact_document(seed: int, index: int) -> Document:
    """Three facts of one subject and one of another of the same family."""
    rng = random.Random(f"nano world {seed} facts {index}")
    family = rng.choices(list(FAMILY_WEIGHTS), list(FAMILY_WEIGHTS.values()))[0]
    subject, other = rng.sample([name for name in SUBJECTS if name.startswith(family)], 2)
    own, others = ([item for item in SUBJECTS[name] if not truth.is_reserved(item.stem)] for name in (subject, other))
    items: list[Item] = []
    while len({item.type for item in items}) < 2:  # so that every document can be asked for an Integer and a String
        items = rng.sample(own, STATEMENTS - 1)
    items.append(rng.choice(others))
    rng.shuffle(items)
    return _render(f"{subject}/{index}", items, subject.partition("/")[2])


# ----------------------------------------------------------------------------------------------------- questions


def ask(item: Item, kind: Kind, rng: random.Random) -> Task:
    """Turn a statement into a question of this kind; ValueError where the statement has the other free type."""
    if kind == "Boolean":
        true = rng.random() < 0.5
        value = item.answer if true else _distractors(item, 1, rng)[0]
        return Task(f"{item.stem}{item.link}{value}?", "true" if true else "false", "Boolean")
    if kind == "MCQ":
        options = [item.answer, *_distractors(item, 3, rng)]
        rng.shuffle(options)
        lines = [f"{letter}) {option}" for letter, option in zip(LETTERS, options, strict=True)]
        answer = LETTERS[options.index(item.answer)]
        return Task("\n".join([item.question, *lines]), answer, "MCQ", options=tuple(options))
    if kind != item.type:
        raise ValueError(f"{item.stem!r} has an answer of type {item.type}, not {kind}; choose an item of that type")
    return Task(item.question, item.answer, item.type)


def _distractors(item: Item, n: int, rng: random.Random) -> list[str]:
    """Draw n wrong answers: slips for calculations, values of the same attribute for facts."""
    if item.family == "math" and item.type == "String":
        pool = ["odd", "even", "ten", "prime"]
    elif item.family in ("math", "unit") and item.type == "Integer":
        pool = _slips(int(item.answer))
    else:
        attribute = item.stem.split()[0]
        pool = sorted({f.answer for f in FACTS.values() if f.family == item.family and f.stem.split()[0] == attribute})
        if len(pool) < 4:  # days of a month, kind of a planet
            pool += _slips(int(item.answer)) if item.type == "Integer" else ["dwarf", "star"]
    return rng.sample(sorted({*pool} - {item.answer}), n)


def _slips(value: int) -> list[str]:
    return [str(v) for slip in (1, 2, 10) for v in (value - slip, value + slip) if v >= 0]


@dataclasses.dataclass(frozen=True)
class _Reading:
    """What a question says: its statement and, for Boolean and MCQ, the values on offer."""

    item: Item
    claim: str | None
    options: tuple[str, ...]


_QUESTION = re.compile(r"(?P<stem>.+?)(?:=\?|(?:=(?P<number>\d+)| is (?P<word>[^?]+)| is)?\?)")


def _read(question: str) -> _Reading | None:
    head, *lines = question.split("\n")
    found = _QUESTION.fullmatch(head)
    item = solve(found["stem"]) if found else None
    if found is None or item is None:
        return None
    if lines and [line[:3] for line in lines] != [f"{letter}) " for letter in LETTERS]:
        return None
    return _Reading(item, found["number"] or found["word"], tuple(line[3:] for line in lines))


def truth_of(question: str) -> Item | None:
    """Return the true statement that a question asks for, or None where it is no question of this world."""
    reading = _read(question)
    return None if reading is None else reading.item


def grade_of(question: str) -> int | None:
    """Return the grade 0 to 5 of a question's text, or None where it is no question of this world."""
    item = truth_of(question)
    return None if item is None else item.grade


def is_held_out(question: str) -> bool:
    """Whether a question asks for a calculation or unit multiple kept for the held-out set (a Challenger may stray)."""
    item = truth_of(question)
    return item is not None and truth.is_reserved(item.stem)


def check_answer(task: Task) -> bool:
    """Whether the task's answer is the true one in this world; False for what is no question of it."""
    reading = _read(task.question)
    if reading is None:
        return False
    item = reading.item
    if task.answer_type == "Boolean":
        return reading.claim is not None and task.answer == ("true" if reading.claim == item.answer else "false")
    if task.answer_type == "MCQ":
        right = [letter for letter, option in zip(LETTERS, reading.options, strict=False) if option == item.answer]
        return reading.claim is None and right == [task.answer]
    return reading.claim is None and not reading.options and (task.answer, task.answer_type) == (item.answer, item.type)


# ----------------------------------------------------------------------------------------------------- examples


def challenger_example(document: Document, rng: random.Random, kind: Kind | None = None) -> Example:
    """Ask about one statement of the document, drawn uniformly among those that can be asked that way."""
    kind = rng.choice(KINDS) if kind is None else kind
    item = rng.choice([item for item in items_of(document) if kind in ("Boolean", "MCQ", item.type)])
    task = ask(item, kind, rng)
    prompt = f"{document.text}\nask {kind}"
    return Example("challenger", prompt, f"question: {task.question}\nanswer: {task.answer}", item.grade, kind)


def reasoner_example(rng: random.Random, kind: Kind | None = None, grade: int | None = None) -> Example:
    """Answer one question without a document: grades by the warm-start weights."""
    math = rng.random() < MATH_SHARE
    if grade is None:
        grade = rng.choices(GRADES, MATH_WEIGHTS if math else _GENERAL_WEIGHTS)[0]
    if math:
        item = draw_parity(rng) if grade == 0 and rng.random() < 0.2 else draw_calculation(grade, rng)
    else:
        item = rng.choice(_FACTS_BY_GRADE[grade])
    if kind is None:
        kind = _draw_kind(item, rng)
    task = ask(item, kind, rng)
    return Example("reasoner", task.question, answer_text(item, task), item.grade, kind)


_FACTS_BY_GRADE = [[f for f in FACTS.values() if f.grade == g and not truth.is_reserved(f.stem)] for g in GRADES]
_GENERAL_WEIGHTS = [len(facts) * weight for facts, weight in zip(_FACTS_BY_GRADE, FACT_WEIGHTS, strict=True)]


def _draw_kind(item: Item, rng: random.Random) -> Kind:
    kinds: tuple[Kind, ...] = (item.type, "Boolean", "MCQ")
    return rng.choices(kinds, REASONER_WEIGHTS)[0]


def answer_text(item: Item, task: Task) -> str:
    """Write the Reasoner's reply: working, then the boxed answer."""
    computed = item.family in ("math", "unit") and item.type == "Integer"
    working = item.working if computed or task.answer_type in ("Boolean", "MCQ") else ""
    return f"{working}\\boxed{{{task.answer}}}"


def warm_start_examples(seed: int, n: int) -> list[Example]:
    """Return n supervised examples for both roles in the order in which to train on them; the same for (seed, n).

    Copying out of a document is what takes a small model longest. So documents begin with one statement and grow to
    their full length over the first 60 % of the examples. The documents are not those of `documents(seed, ...)`,
    but the facts are the same ones.
    """
    examples = []
    for i in range(n):
        rng = random.Random(f"nano world {seed} warm start {i}")
        if rng.random() < CHALLENGER_SHARE:
            longest = min(STATEMENTS, 1 + int(STATEMENTS * i / (0.6 * n)))
            examples.append(_short_document_example(seed + 1_000_003, i, rng.randint(1, longest), rng))
        else:
            examples.append(reasoner_example(rng))
    return examples


def _short_document_example(seed: int, index: int, statements: int, rng: random.Random) -> Example:
    document = (_math_document if rng.random() < 0.5 else _fact_document)(seed, index)
    items = rng.sample(items_of(document), statements)
    kinds: list[Kind] = [k for k in KINDS if k in ("Boolean", "MCQ") or k in {item.type for item in items}]
    kind = rng.choices(kinds, [KIND_WEIGHTS[kind] for kind in kinds])[0]
    return challenger_example(_render(document.id, items, document.title), rng, kind)


def texts_for_tokenizer(seed: int, n: int = 4000) -> list[str]:
    """Return prompts and replies of both roles, plus every fact that is not held out, once."""
    examples = warm_start_examples(seed, n)
    return (
        [e.prompt for e in examples]
        + [e.reply for e in examples]
        + [fact.statement for fact in FACTS.values() if not truth.is_reserved(fact.stem)]
    )


# ----------------------------------------------------------------------------------------------------- held out


def held_out(seed: int, n_math: int, n_general: int) -> tuple[list[Task], list[int]]:
    """Return a fixed Reasoner evaluation set and the grade of each task.

    Calculations (grades 1 to 5) use operand pairs that no document and no warm-start example ever holds: they measure
    generalisation. General tasks (grades 2 to 4) are of two sorts: a few unit multiples kept out of documents and warm
    start in the same way, and literal facts that the documents hold and the warm start teaches seldom.
    Those facts stand in the warm start's documents too, and the exact question may be met in the warm start or in
    self-play: this half measures how much of the corpus the Reasoner has come to know, not generalisation.

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
            item = _held_out_fact(rng) if general else draw_calculation(1 + count % 5, rng, reserved=True)
            task = ask(item, _draw_kind(item, rng), rng)
            repeats += 1
            if item.stem not in seen:
                seen.add(item.stem)
                pairs.append((item, dataclasses.replace(task, document_id=f"held_out/{item.family}")))
                count, repeats = count + 1, 0
    return [task for _, task in pairs], [item.grade for item, _ in pairs]


def _held_out_fact(rng: random.Random) -> Item:
    return rng.choice(_MULTIPLES if rng.random() < 0.2 else _SELDOM)


_MULTIPLES = [fact for fact in FACTS.values() if truth.is_reserved(fact.stem)]
_SELDOM = [fact for grade in (2, 3, 4) for fact in _FACTS_BY_GRADE[grade]]
