"""Tests of the nano world: true by recomputation, deterministic, short, and honest about what is held out."""

import random
import re
import statistics

import pytest

from spicejax.data import formats, world, world_facts
from spicejax.data.world_truth import FACTS, GRADES, RESERVED_ONE_IN, SUBJECTS, draw_calculation, is_reserved, solve
from spicejax.types import Document, Rejection, Task

DOCUMENTS = world.documents(3, 1200)
WARM = world.warm_start_examples(3, 6000)
CALCULATION = re.compile(r"(?<!\d)(\d+)([+\-*])(\d+)(?==)")


def recompute(left: str, operation: str, right: str) -> int:
    return {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[operation](int(left), int(right))


def stem_of(question: str) -> str:
    item = world.truth_of(question)
    assert item is not None
    return item.stem


def as_task(example: world.Example) -> Task:
    """Read a Challenger's supervised reply with the parser that judges the model's own replies."""
    document = Document("d", example.prompt)
    task = formats.parse_task(example.reply, kind=example.kind, document=document, style="nano")
    assert not isinstance(task, Rejection), (example, task)
    return task


def test_same_seed_same_world() -> None:
    assert world.documents(5, 40) == world.documents(5, 60)[:40]
    assert world.documents(5, 40) != world.documents(6, 40)
    assert world.warm_start_examples(5, 80) == world.warm_start_examples(5, 80)
    assert world.held_out(5, 10, 10) == world.held_out(5, 10, 10)
    assert world.texts_for_tokenizer(5, 50) == world.texts_for_tokenizer(5, 50)


def test_half_of_the_documents_are_calculations_and_ids_are_unique() -> None:
    ids = [d.id for d in DOCUMENTS]
    assert len(set(ids)) == len(ids)
    assert sum(i.startswith("math/") for i in ids) == len(ids) // 2
    assert {i.split("/")[0] for i in ids} == {"math", *world.FAMILY_WEIGHTS}


def test_calculations_in_documents_are_right() -> None:
    found = 0
    for document in DOCUMENTS:
        for statement in document.text.removesuffix(".").split(". "):
            if match := CALCULATION.match(statement):
                assert recompute(*match.groups()) == int(statement.split("=")[1]), statement
                found += 1
            elif match := re.fullmatch(r"(\d+) is (even|odd)", statement):
                assert (int(match[1]) % 2 == 0) == (match[2] == "even"), statement
    assert found == 3 * len(DOCUMENTS) // 2


def test_fact_tables_agree_with_laws_that_they_do_not_hold() -> None:
    rows = world_facts.ELEMENTS
    assert [number for _, _, number, _, _ in rows] == list(range(1, 55))
    assert len({symbol for _, symbol, *_ in rows}) == 54
    shells = {1: (1, 2), 2: (3, 10), 3: (11, 18), 4: (19, 36), 5: (37, 54)}  # first and last number of each period
    for name, _, number, period, group in rows:
        first, last = shells[period]
        assert first <= number <= last, name
        from_left, from_right = number - first + 1, 18 - (last - number)
        transition = period >= 4 and 3 <= from_left <= 12
        assert group == (from_left if transition or from_left <= 2 and number != 2 else from_right), name
    assert [order for _, order, *_ in world_facts.PLANETS] == list(range(1, 9))
    assert sum(days for _, days in world_facts.MONTHS) == 365
    for column in (0, 1, 3):
        assert len({row[column] for row in world_facts.COUNTRIES}) == 40


@pytest.mark.parametrize(
    ("stem", "answer"),
    [
        ("symbol of iron", "Fe"),
        ("number of tin", "50"),
        ("capital of Kenya", "Nairobi"),
        ("month after December", "January"),
        ("inches in 3 feet", "36"),
        ("power of Planck", "-34"),
        ("order of Saturn", "6"),
        ("97*8", "776"),
        ("40", "even"),
    ],
)
def test_known_answers(stem: str, answer: str) -> None:
    item = solve(stem)
    assert item is not None and item.answer == answer


@pytest.mark.parametrize("stem", ["", "symbol of unobtainium", "5-9", "12-6", "07+1", "1000+1", "7", "3/2", "7+5 "])
def test_nonsense_has_no_answer(stem: str) -> None:
    assert solve(stem) is None


def test_every_document_can_be_asked_for_every_kind_and_gives_a_valid_true_task() -> None:
    rng = random.Random(0)
    for document in DOCUMENTS[:300]:
        for kind in world.KINDS:
            example = world.challenger_example(document, rng, kind)
            task = as_task(example)
            assert world.check_answer(task), (document, task)
            assert world.grade_of(task.question) == example.grade
            stem = re.split(r"=|\?| is", task.question)[0]
            assert stem in document.text


def test_warm_start_replies_are_right_and_parsed() -> None:
    assert {e.role for e in WARM} == {"challenger", "reasoner"}
    assert {e.kind for e in WARM} == {k for k, weight in world.KIND_WEIGHTS.items() if weight} | {"Boolean"}
    for example in WARM:
        if example.role == "challenger":
            assert world.check_answer(as_task(example)), example
        else:
            answer = formats.extract_answer(example.reply)
            assert answer is not None
            assert world.check_answer(Task(example.prompt, answer, example.kind)), example


def test_warm_start_documents_grow_to_full_length() -> None:
    counts = [e.prompt.count(". ") + 1 for e in WARM if e.role == "challenger"]
    assert set(counts[:100]) == {1} and max(counts) == world.STATEMENTS
    assert statistics.mean(counts[-500:]) > 2


def test_grades_follow_the_warm_start_weights() -> None:
    reasoner = [e for e in WARM if e.role == "reasoner"]
    share = [sum(e.grade == g for e in reasoner) / len(reasoner) for g in GRADES]
    general = [
        w * len([f for f in FACTS.values() if f.grade == g]) for g, w in zip(GRADES, world.FACT_WEIGHTS, strict=True)
    ]
    wanted = [
        world.MATH_SHARE * m / sum(world.MATH_WEIGHTS) + (1 - world.MATH_SHARE) * f / sum(general)
        for m, f in zip(world.MATH_WEIGHTS, general, strict=True)
    ]
    assert share == pytest.approx(wanted, abs=0.03)
    assert share[5] == 0  # the hardest grade is never taught to the Reasoner
    assert {i.grade for d in DOCUMENTS for i in world.items_of(d)} == set(GRADES)  # but documents hold it


def test_held_out_operands_never_occur_elsewhere() -> None:
    tasks, _ = world.held_out(3, 200, 200)
    held = {stem_of(t.question) for t in tasks if world.is_held_out(t.question)}
    texts = [d.text for d in DOCUMENTS] + [f"{e.prompt} {e.reply}" for e in WARM] + world.texts_for_tokenizer(4, 1500)
    pairs = {m.groups() for text in texts for m in CALCULATION.finditer(text)}
    assert len(pairs) > 4000
    seen = {f"{a}{op}{b}" for a, op, b in pairs}
    assert not held & seen
    assert not [stem for stem in seen if is_reserved(stem)]
    assert not [stem for stem in FACTS if is_reserved(stem) and any(stem in text for text in texts)]
    swapped = {f"{b}+{a}" for a, op, b in pairs if op == "+"}
    assert not held & swapped


def test_held_out_set_is_half_calculations_true_and_graded() -> None:
    tasks, grades = world.held_out(3, 100, 80)
    math = [t for t in tasks if t.document_id == "held_out/math"]
    assert (len(math), len(tasks)) == (100, 180)
    assert len({stem_of(t.question) for t in tasks}) == len(tasks)
    assert all(world.check_answer(t) for t in tasks)
    assert [world.grade_of(t.question) for t in tasks] == grades
    assert all(world.is_held_out(t.question) for t in math)
    assert set(grades[:100]) == {1, 2, 3, 4, 5}
    corpus = {i.stem for d in world.documents(3, 6000) for i in world.items_of(d)}
    for task in tasks[100:]:  # either kept out altogether, or a fact that the corpus holds
        assert world.is_held_out(task.question) or stem_of(task.question) in corpus, task


def test_held_out_refuses_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="n_general=100000"):
        world.held_out(0, 1, 100_000)


def test_about_one_pair_in_six_is_reserved_in_either_order() -> None:
    rng = random.Random(0)
    sums = [(rng.randrange(10, 100), rng.randrange(10, 100)) for _ in range(4000)]
    share = statistics.mean(is_reserved(f"{a}+{b}") for a, b in sums)
    assert share == pytest.approx(1 / RESERVED_ONE_IN, abs=0.03)
    assert all(is_reserved(f"{a}+{b}") == is_reserved(f"{b}+{a}") for a, b in sums)
    assert is_reserved(draw_calculation(3, rng, reserved=True).stem)


def test_free_form_questions_never_hold_their_answer() -> None:
    rng = random.Random(0)
    items = [*FACTS.values(), *(i for d in DOCUMENTS for i in world.items_of(d))]
    for item in items:
        task = world.ask(item, item.type, rng)
        assert not re.search(rf"(?<![\w-]){re.escape(task.answer)}(?!\w)", task.question), task


def test_asking_a_statement_for_the_other_free_type_is_refused() -> None:
    with pytest.raises(ValueError, match="type String, not Integer"):
        world.ask(FACTS["symbol of iron"], "Integer", random.Random(0))


def test_check_answer_tells_wrong_from_right() -> None:
    options = "\nA) Ir\nB) Fe\nC) F\nD) In"
    right = [
        Task("58+67=?", "125", "Integer"),
        Task("58+67=115?", "false", "Boolean"),
        Task("symbol of iron is Fe?", "true", "Boolean"),
        Task("symbol of iron?" + options, "B", "MCQ"),
        Task("73 is?", "odd", "String"),
    ]
    wrong = [
        Task("58+67=?", "124", "Integer"),
        Task("58+67=115?", "true", "Boolean"),
        Task("58+67=?", "true", "Boolean"),
        Task("symbol of iron?" + options, "A", "MCQ"),
        Task("symbol of iron?" + options.replace("Ir", "Fe"), "B", "MCQ"),  # two right options
        Task("symbol of iron?", "26", "Integer"),
        Task("who are you?", "me", "String"),
        Task("symbol of iron?\nA) Fe", "A", "MCQ"),
    ]
    assert [world.check_answer(t) for t in right] == [True] * len(right)
    assert [world.check_answer(t) for t in wrong] == [False] * len(wrong)
    assert world.grade_of("who are you?") is None and not world.is_held_out("who are you?")


def test_options_are_distinct_and_the_letter_is_spread() -> None:
    rng = random.Random(0)
    items = [*FACTS.values(), *(i for d in DOCUMENTS[:200] for i in world.items_of(d))]
    tasks = [world.ask(item, "MCQ", rng) for item in items]
    assert all(len(set(t.options)) == 4 and world.check_answer(t) for t in tasks)
    assert min(sum(t.answer == letter for t in tasks) for letter in "ABCD") > len(tasks) / 5


def test_texts_are_short() -> None:
    characters = [len(d.text) for d in DOCUMENTS]
    assert statistics.mean(characters) < 90 and max(characters) <= 150
    assert max(len(e.reply) for e in WARM) <= 90
    words = {w for text in world.texts_for_tokenizer(0, 1500) for w in re.findall(r"[a-z]{2,}", text)}
    names = {w for s in SUBJECTS for w in re.findall(r"[a-z]{2,}", s)}
    assert len(words - names) < 150


def test_a_foreign_document_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="3\\+3=7.*'x'"):
        world.items_of(Document("x", "2+2=4. 3+3=7."))
