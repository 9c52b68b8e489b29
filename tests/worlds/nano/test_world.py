"""Tests of the nano world: true by recomputation, deterministic, short, and honest about what is held out."""

import dataclasses
import hashlib
import random
import re
import statistics

import pytest

from spicejax.games.spice import formats
from spicejax.score import answers
from spicejax.types import Document, Rejection, Task
from spicejax.worlds.nano import facts, world
from spicejax.worlds.nano.truth import FACTS, Item, is_reserved, math_grade, slip

DOCUMENTS = world.documents(3, 1200)
WARM = world.warm_start_examples(3, 6000)
CALCULATION = re.compile(r"(?<!\d)(\d+)([+-])(\d+)(?!\d)")


def recompute(left: str, operation: str, right: str) -> int:
    return {"+": int.__add__, "-": int.__sub__}[operation](int(left), int(right))


def item_of(stem: str) -> Item:
    """The true statement with this stem, worked out anew."""
    if calculation := CALCULATION.fullmatch(stem):
        a, operation, b = calculation.groups()
        grade = math_grade(int(a), operation, int(b))
        assert grade is not None
        return Item(stem, str(recompute(a, operation, b)), grade, "math")
    return next(fact for fact in FACTS if fact.stem == stem)


def asked(question: str) -> Item:
    item = item_of(question.removesuffix("?").removesuffix("="))
    assert item.question == question
    return item


def stem_of(question: str) -> str:
    return asked(question).stem


def items_of(document: Document) -> list[Item]:
    statements = document.text.removesuffix(".").split(". ")
    items = [item_of(re.split("=| is ", statement)[0]) for statement in statements]
    assert [item.statement for item in items] == statements
    return items


def reserved(stem: str) -> bool:
    calculation = CALCULATION.fullmatch(stem)
    return calculation is not None and is_reserved(int(calculation[1]), calculation[2], int(calculation[3]))


def is_true(task: Task) -> bool:
    return (task.answer, task.answer_type) == (asked(task.question).answer, "Integer")


def as_task(example: world.Example) -> Task:
    """Read a Challenger's supervised reply as the game reads the model's own, to a prompt that is the game's."""
    document = Document("d", example.prompt.removesuffix("\nask Integer"))
    assert example.prompt == formats.challenger_messages(document, "Integer", "nano")[-1]["content"]
    task = formats.parse_task(example.reply, kind="Integer", document=document, style="nano", grounding="cloze")
    assert not isinstance(task, Rejection), (example, task)
    assert f"question: {task.question}\nanswer: {task.answer}" == example.reply
    return task


def test_a_world_does_not_change() -> None:
    """Another one is another benchmark, whose numbers do not compare with those before."""
    texts = world.texts_for_tokenizer(3, 50)
    found = repr((DOCUMENTS[:200], world.warm_start_examples(3, 2000), world.held_out(3, 100, 80), texts))
    assert hashlib.sha256(found.encode()).hexdigest()[:16] == "0f0243e6fd59bc1e"
    assert world.documents(5, 40) == world.documents(5, 60)[:40] != world.documents(6, 40)


def test_fact_tables_agree_with_laws_that_they_do_not_hold() -> None:
    rows = facts.ELEMENTS
    assert [number for _, number, _, _ in rows] == list(range(1, 55))
    shells = {1: (1, 2), 2: (3, 10), 3: (11, 18), 4: (19, 36), 5: (37, 54)}  # first and last number of each period
    for name, number, period, group in rows:
        first, last = shells[period]
        assert first <= number <= last, name
        from_left, from_right = number - first + 1, 18 - (last - number)
        transition = period >= 4 and 3 <= from_left <= 12
        assert group == (from_left if transition or from_left <= 2 and number != 2 else from_right), name
    assert [order for _, order, _ in facts.PLANETS] == list(range(1, 9))
    assert sum(days for _, days in facts.MONTHS) == 365
    for column in (0, 1):
        assert len({row[column] for row in facts.COUNTRIES}) == 40


@pytest.mark.parametrize(("stem", "believed"), [
    ("7+8", None), ("42+5", None), ("58+7", "55"), ("58+67", "115"), ("51+67", None), ("93-47", "54"), ("52-8", "56"),
    ("order of Saturn", None),
])  # fmt: skip
def test_slips_of_calculations(stem: str, believed: str | None) -> None:
    assert slip(item_of(stem)) == believed


def test_every_document_gives_valid_true_tasks_on_any_of_its_statements() -> None:
    rng = random.Random(0)
    for document in DOCUMENTS[:300]:
        stems = set()
        for _ in range(20):
            example = world.challenger_example(items_of(document), rng)
            task = as_task(example)
            assert is_true(task), (document, task)
            assert asked(task.question).grade == example.grade
            stems.add(stem_of(task.question))
            all_tasks = [as_task(dataclasses.replace(example, reply=r)) for r in (example.reply, *example.further)]
            assert {stem_of(t.question) for t in all_tasks} == {item.stem for item in items_of(document)}
            assert all(map(is_true, all_tasks))
        assert len(stems) > 1, "the first question is drawn"


def test_warm_start_teaches_true_tasks_and_both_truth_and_slips() -> None:
    assert {e.role for e in WARM} == {"challenger", "reasoner"}
    slips: dict[tuple[bool, int], list[bool]] = {}
    from_memory = [e for e in WARM if e.prompt == "ask Integer"]
    assert len(from_memory) == pytest.approx(6000 * world.CHALLENGER_SHARE * world.MEMORY_SHARE, rel=0.2)
    for index, example in enumerate(WARM):
        if example.role == "challenger" and example.prompt != "ask Integer":
            assert is_true(as_task(example)), example
            continue
        if example.role == "challenger":
            task = formats.parse_task(example.reply, kind="Integer", document=None, style="nano")
            assert isinstance(task, Task)
            answer, item = task.answer, asked(task.question)
        else:
            answer, item = answers.extract_answer(example.reply), asked(example.prompt)
        assert answer in (item.answer, slip(item)), example
        early = index <= world.CALCULATE_FIRST * len(WARM)
        if item.family == "math" and early:
            assert answer == item.answer, example
        elif slip(item) is not None:
            slips.setdefault((item.family == "math", item.grade), []).append(answer != item.answer)
    for (_, grade), wrong in slips.items():
        assert len(wrong) > 20
        assert statistics.mean(wrong) == pytest.approx(world.DOUBT[grade], abs=0.15)
    assert {grade for _, grade in slips} == {2, 3, 4}


def test_held_out_operands_never_occur_elsewhere() -> None:
    tasks = world.held_out(3, 200, 200)
    held = {stem for t in tasks if reserved(stem := stem_of(t.question))}
    assert len(held) == 200
    texts = (
        [d.text for d in DOCUMENTS]
        + [" ".join((e.prompt, e.reply, *e.further)) for e in WARM]
        + world.texts_for_tokenizer(4, 1500)
    )
    pairs = {m.groups() for text in texts for m in CALCULATION.finditer(text)}
    assert len(pairs) > 4000
    seen = {f"{a}{op}{b}" for a, op, b in pairs}
    assert not held & seen
    assert not [stem for stem in seen if reserved(stem)]
    swapped = {f"{b}+{a}" for a, op, b in pairs if op == "+"}
    assert not held & swapped


def test_held_out_set_is_half_calculations_true_and_graded() -> None:
    tasks = world.held_out(3, 100, 80)
    grades = [asked(t.question).grade for t in tasks]
    math = [t for t in tasks if t.id == "held_out/math"]
    assert (len(math), len(tasks)) == (100, 180)
    assert len({stem_of(t.question) for t in tasks}) == len(tasks)
    assert all(is_true(t) for t in tasks)
    assert set(grades[:100]) == {1, 2, 3, 4} and set(grades[100:]) == {2, 3, 4}
    corpus = {i.stem for d in world.documents(3, 6000) for i in items_of(d)}
    assert all(stem_of(t.question) in corpus for t in tasks[100:])


def test_held_out_refuses_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="n_general=100000"):
        world.held_out(0, 1, 100_000)
