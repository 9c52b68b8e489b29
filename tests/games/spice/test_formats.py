"""SPICE prompts and their parsers: literal filling, every field rule, every reason, and no string that raises."""

import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spicejax import configs
from spicejax.games import reasoner
from spicejax.games.reasoner import STYLES
from spicejax.games.spice import formats
from spicejax.games.spice.formats import parse_task, parse_task_type
from spicejax.games.spice.validity import OURS, PAPER
from spicejax.score.answers import extract_answer
from spicejax.text import prompts, render
from spicejax.types import ANSWER_TYPES, Document, Rejection, Task

DOCUMENT = Document("doc-7", "The Amazon carries 209,000 cubic metres per second. The Nile is 6,650 km long.")
QUESTION = "How many kilometres longer is the second river?"
MCQ = "Which of these rivers carries the most water?\nA) Nile\nB) Amazon\nC) Congo\nD) Rhine"


def free(**fields: object) -> str:
    return json.dumps({"question": QUESTION, "answer": 42, "answer_type": "Integer"} | fields)


def mcq(**fields: object) -> str:
    return json.dumps({"multiple_choice_question": MCQ, "multiple_choice_correct": "B"} | fields)


def reason(result: object) -> str:
    assert isinstance(result, Rejection), result
    assert len(result.detail) <= 200
    return result.reason


def parse(text: str, kind: str = "Integer", **options) -> Task | Rejection:
    return parse_task(text, kind=kind, document=DOCUMENT, **options)  # pyright: ignore[reportArgumentType]


# ---------------------------------------------------------------------------------------------------------- render


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ANSWER_TYPES)
def test_documents_are_filled_in_literally(style, kind) -> None:
    text = "Solve {question} for {answer_type}, {document} and {request} { } {{0}} %s \\1 \\g<0>"
    last = formats.challenger_messages(Document("d", text), kind, style)[-1]
    assert last["role"] == "user" and last["content"].count(text) == 1
    assert kind == "MCQ" or formats.SIMPLE_TYPES[kind] in last["content"] or kind in last["content"].replace(text, "")
    without = formats.challenger_messages(None, kind, style)[-1]["content"]
    assert "{document}" not in without and "{answer_type}" not in without
    assert text in formats.task_type_messages(Document("d", text), style)[-1]["content"]


@pytest.mark.parametrize("style", STYLES)
def test_questions_are_filled_in_literally(style) -> None:
    question = "What does {question} or {document} mean in \\boxed{x}?"
    messages = reasoner.messages(question, style)
    assert messages[-1]["content"].count(question) == 1
    examples = ["user", "assistant"] * 2 if style == "simple" else []
    assert [m["role"] for m in messages] == (["user"] if style == "nano" else ["system", *examples, "user"])


@pytest.mark.parametrize("kind", ANSWER_TYPES)
def test_the_simple_styles_worked_examples_are_valid_tasks(kind) -> None:
    messages = formats.challenger_messages(DOCUMENT, kind, "simple")
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    shown = Document("example", messages[1]["content"])
    task = formats.parse_task(messages[2]["content"], kind=kind, document=shown, style="simple",
                              grounding="answer" if kind in ("MCQ", "Float", "String") else "none")  # fmt: skip
    assert isinstance(task, Task) and task.answer_type == kind
    replies = [m["content"] for m in reasoner.messages("q", "simple") if m["role"] == "assistant"]
    assert [extract_answer(r) for r in replies] == ["false", "18"]


def test_prompt_forms() -> None:
    assert formats.challenger_messages(DOCUMENT, "Integer", "nano") == [
        {"role": "user", "content": f"{DOCUMENT.text}\nask Integer"}
    ]
    assert reasoner.messages("7+5=?", "nano") == [{"role": "user", "content": "7+5=?"}]
    system, user = reasoner.messages("Why?")
    assert system["content"] == "You are a helpful assistant." and "\\boxed{}" in user["content"]
    raw = prompts.fill(render.CONVERSATION, request=user["content"])
    assert "User: Why?" in raw and "\\boxed{}" in raw and raw.endswith("Assistant:")
    for name in ("spice_octothinker3b", "spice_octothinker8b"):
        game: Any = configs.load(name).game
        assert configs.load(name).model.template == "conversation"
        last = reasoner.messages("Why?", game.style, game.templates)[-1]["content"]
        assert last.startswith("Why?\n") and "inside \\boxed{}" in last and "step" not in last, "the frame has it think"
    for field in ("hardening_process", "multiple_choice_question", "multiple_choice_correct", "self_test_solution"):
        assert f'"{field}"' in formats.challenger_messages(DOCUMENT, "MCQ")[-1]["content"]
    for field in ("suitable_for_mcq", "suitable_for_free_form", "best_answer_type", "reason"):
        assert f'"{field}"' in formats.task_type_messages(DOCUMENT)[-1]["content"]


def test_every_prompt_file_is_used_with_each_placeholder_once() -> None:
    names = {path.name for path in resources.files("spicejax.games.spice").joinpath("prompts").iterdir()}
    used = {f"{form}{style}{corpus}.txt" for form in ("mcq", "free_form") for style in ("", "_simple", "_nano")
            for corpus in ("", "_no_corpus")}  # fmt: skip
    used |= {"task_type.txt", "task_type_simple.txt", "task_type_nano.txt"}
    assert names == used | {"simple_examples.json"}
    with pytest.raises(ValueError, match="exactly once"):
        prompts.fill("{question} {question}", question="x")
    with pytest.raises(ValueError, match="exactly once"):
        prompts.fill("nothing", question="x")


@pytest.mark.parametrize("ask", [lambda style: reasoner.messages("q", style),
                                 lambda style: formats.challenger_messages(DOCUMENT, "Integer", style)])  # fmt: skip
def test_unknown_styles_raise_with_the_choices(ask) -> None:
    with pytest.raises(ValueError, match="full, simple, nano"):
        ask("long")


# ------------------------------------------------------------------------------------------------------- free form


@pytest.mark.parametrize(("kind", "given", "read"), [
    ("Integer", 42, "42"), ("Integer", "42", "42"), ("Integer", "-1,234", "-1234"), ("Integer", "+7", "7"),
    ("Integer", int("9" * 400), "9" * 400), ("Float", 3.14, "3.14"), ("Float", "1.5e-3", "1.5e-3"), ("Float", 2, "2"),
    ("Boolean", True, "true"), ("Boolean", "false", "false"), ("String", "Newton's Third Law", "Newton's Third Law"),
    ("String", "TCP/IP", "TCP/IP"), ("Expression", "2*x^2 + 3*x - 5", "2*x^2 + 3*x - 5"),
    ("Expression", "\\frac{\\sin x}{2}", "\\frac{\\sin x}{2}"),
    ("List", ["apple", "banana", "cherry"], "apple, banana, cherry"), ("List", [3, 1.50, True], "3, 1.5, True"),
    ("List", "3, 2, 1", "3, 2, 1"),
])  # fmt: skip
def test_answers_that_fit_their_type(kind: str, given: object, read: str) -> None:
    task = parse(free(answer=given, answer_type=kind), kind)
    assert isinstance(task, Task), task
    assert (task.question, task.answer.lower(), task.answer_type) == (QUESTION, read.lower(), kind)
    assert task.id == "doc-7" and task.options == ()


@pytest.mark.parametrize(("kind", "given", "why"), [
    ("Integer", "42.0", "wrong_answer_type"), ("Integer", "42 metres", "wrong_answer_type"),
    ("Integer", "４２", "wrong_answer_type"), ("Integer", True, "wrong_answer_type"),
    ("Integer", "9" * 401, "answer_too_long"), ("Integer", [42], "nested_field"), ("Integer", "", "abstained"),
    ("Integer", None, "abstained"), ("Integer", "<only the answer>", "placeholder"),
    ("Float", "22/7", "wrong_answer_type"), ("Float", "1e999", "wrong_answer_type"), ("Float", ".", "placeholder"),
    ("Boolean", "True", "wrong_answer_type"), ("Boolean", 1, "wrong_answer_type"),
    ("String", ["Paris"], "nested_field"), ("Expression", "+", "wrong_answer_type"),
    ("Expression", "1" * 401, "answer_too_long"), ("List", [["a"], ["b"]], "nested_field"),
    ("List", [], "nested_field"), ("List", ["a, b", "c"], "wrong_answer_type"),
])  # fmt: skip
def test_answers_that_do_not_fit(kind: str, given: object, why: str) -> None:
    assert reason(parse(free(answer=given, answer_type=kind), kind)) == why


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"question": {"text": "What is 2+2?"}}, "nested_field"),
        ({"question": "?" * 50}, "question_too_short"),
        ({"question": "How long </think> is the river?"}, "unparsable"),
        ({"answer_type": "Float"}, "wrong_answer_type"),
        ({"answer_type": ["Integer"]}, "wrong_answer_type"),
    ],
)
def test_free_form_rules(fields: dict, why: str) -> None:
    assert reason(parse(free(**fields))) == why


def test_the_longest_string_is_an_argument() -> None:
    long = free(answer="United States of America", answer_type="String")
    assert reason(parse(long, "String")) == "answer_too_long"
    assert isinstance(parse(long, "String", max_string_words=4), Task)


def test_what_is_no_leak() -> None:
    # the word of a Boolean answer, and the one symbol of an Expression, are fair parts of a question
    assert isinstance(
        parse(free(question="Is it true that 7 is prime?", answer="true", answer_type="Boolean"), "Boolean"), Task
    )
    assert isinstance(
        parse(free(question="Simplify x + 0 fully.", answer="x", answer_type="Expression"), "Expression"), Task
    )


def test_missing_fields() -> None:
    assert reason(parse('{"answer": 42}')) == "missing_field"
    assert reason(parse(json.dumps({"question": QUESTION}))) == "missing_field"
    assert isinstance(parse(json.dumps({"question": QUESTION, "answer": 42})), Task)  # answer_type was our own word


def test_grounding_is_asked_for() -> None:
    for answer, kind, stands in (("6650", "Integer", True), ("6651", "Integer", False), ("amazon", "String", True),
                                 ("Amaz", "String", False), ("Nile, Amazon", "List", True),
                                 ("Nile, Rhine", "List", False),
                                 ("true", "Boolean", True), ("x+1", "Expression", True)):  # fmt: skip
        task = parse(free(answer=answer, answer_type=kind), kind, grounding="answer")
        assert isinstance(task, Task) is stands, (answer, task)
        assert stands or reason(task) == "ungrounded"
    assert isinstance(parse(mcq(), "MCQ", grounding="answer"), Task)
    assert reason(parse(mcq(multiple_choice_correct="C"), "MCQ", grounding="answer")) == "ungrounded"


@pytest.mark.parametrize(("question", "answer", "quoted"), [
    ("58+67=?", "125", True), ("capital of Kenya?", "Nairobi", True), ("73 is?", "odd", True),
    ("power of Planck?", "-34", True), ("8+67=?", "125", False), ("58+6=?", "125", False), ("58+67=?", "25", False),
    ("power of Planck?", "34", False), ("58+67=?", "odd", False), ("capital of Peru?", "Nairobi", False),
])  # fmt: skip
def test_a_cloze_is_a_sentence_of_the_document(question: str, answer: str, quoted: bool) -> None:
    document = Document("d", "58+67=125. capital of Kenya is Nairobi. 73 is odd. power of Planck is -34.")
    kind = "Integer" if answer.lstrip("-").isdigit() else "String"
    text = f"question: {question}\nanswer: {answer}"
    result = formats.parse_task(text, kind=kind, document=document, style="nano", grounding="cloze")
    assert isinstance(result, Task) if quoted else reason(result) in ("not_quoted", "ungrounded")
    assert isinstance(formats.parse_task(text, kind=kind, document=document, style="nano"), Task)


# ------------------------------------------------------------------------------------------------------------ json


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "Here it is:\n```json\n{}\n```\nGood luck!",
        "<think>Maybe {{\"question\": \"draft\"}}?</think>\n{}",
        "the thinking was opened by the prompt </think>{}",
        "Take the set {{a, b}} and \\frac{{1}}{{2}}: {}",
        "A stray {{\"brace and then {}",
        "[{}]",
        "{} {{not json}}",
        "{} {{\"unfinished\": \"",
    ],
)  # fmt: skip
def test_one_object_is_found_in_any_dress(text: str) -> None:
    body = free()
    wrapped = text.replace("{{", "\0").replace("}}", "\1").replace("{}", body).replace("\0", "{").replace("\1", "}")
    task = parse(wrapped)
    assert isinstance(task, Task) and task.answer == "42", task


def test_the_last_of_several_objects_counts_unless_questions_differ() -> None:
    assert isinstance(parse('{"plan": "hard"}\n' + free()), Task)
    assert isinstance(parse(free(answer=41) + "\n" + free()), Task)
    assert parse(free(answer=41) + "\n" + free()).answer == "42"  # pyright: ignore[reportAttributeAccessIssue]
    assert reason(parse(free(question="What is another question?") + free())) == "several_questions"
    assert reason(parse(f"[{free()}, {free(question='What is another question?')}]")) == "several_questions"
    assert reason(parse(free() + '{"note": "done"}')) == "missing_field"
    assert reason(parse('{"output": ' + free() + "}")) == "missing_field"


@pytest.mark.parametrize(("text", "why"), [
    ("", "unparsable"), ('{"question": "unfinished', "unparsable"), ("{'question': 'single quotes'}", "unparsable"),
    ('{"question": "Why is it so?", "answer": NaN}', "unparsable"),
    ('{"question": "Why is it so?", "answer": 1,}', "unparsable"),
    ("<think>" + '{"question": "Why is it so?", "answer": 1}', "unparsable"),
    ('{"question": "Why is it so?", "answer": 1, "answer": 2}', "duplicate_key"),
    ('{"question": "Why is it so?", "question": "And why that?", "answer": 1}', "duplicate_key"),
    ("{" * 50_000, "unparsable"), ('{"a":' * 20_000, "unparsable"), ('{"' * 40_000, "unparsable"),
    ('{"x": [' + "[],\\" * 20_000, "unparsable"), ("x" * 200_000, "reply_too_long"),
])  # fmt: skip
def test_broken_json(text: str, why: str) -> None:
    assert reason(parse(text)) == why


def test_latex_backslashes_survive_sloppy_and_correct_json() -> None:
    for written in (
        "\\frac{1}{2} \\(x\\) \\theta \\beta \\nabla \\rho",
        "\\\\frac{1}{2} \\\\(x\\\\) \\\\theta \\\\beta \\\\nabla \\\\rho",
    ):
        task = parse('{"question": "What is ' + written + '?\\nTell \\"me\\" \\u00e9", "answer": 42}')
        assert isinstance(task, Task)
        assert task.question == 'What is \\frac{1}{2} \\(x\\) \\theta \\beta \\nabla \\rho?\nTell "me" é'


def test_texts_that_no_tokenizer_takes_are_cleaned() -> None:
    task = parse('{"question": "Why\\u0000 is \\ud800it so\\u0007 often?", "answer": 42}')
    assert isinstance(task, Task) and task.question == "Why is it so often?"
    task.question.encode("utf-8")


def test_numbers_keep_their_spelling_and_size_does_not_matter() -> None:
    assert parse(free(answer_type="Float").replace("42", "42.10"), "Float").answer == "42.10"  # pyright: ignore
    assert reason(parse(free().replace("42", "9" * 100_000))) == "answer_too_long"


# ------------------------------------------------------------------------------------------------------------- mcq


@pytest.mark.parametrize("written", [
    MCQ, MCQ.replace(")", "."), MCQ.replace(")", ":"),
    MCQ.replace("A)", "(A)").replace("B)", "(B)").replace("C)", "(C)").replace("D)", "(D)"),
    MCQ.replace("A)", "**A)**").replace("B)", "**B)**").replace("C)", "**C)**").replace("D)", "**D)**"),
    MCQ.replace("\n", "\n- "), MCQ.replace("\n", " "), MCQ.replace("\n", "\n\n"), "Question: " + MCQ,
    "**Question:** " + MCQ, MCQ + "\nCorrect: B", MCQ + "\n\n**Correct answer:** B) Amazon",
    MCQ + "\n\nExplanation: the Amazon carries most.", MCQ.replace("Amazon", "\n   Amazon"),
    MCQ + " Correct: B", MCQ + " (The correct answer is B)", MCQ.replace("\n", " ") + " **Answer:** b",
])  # fmt: skip
def test_options_are_read_in_any_common_dress(written: str) -> None:
    task = parse(mcq(multiple_choice_question=written), "MCQ")
    if "\n   Amazon" in written:
        assert reason(task) == "bad_options"  # an option that begins on the next line is taken as empty
        return
    assert task == Task(MCQ, "B", "MCQ", "doc-7", ("Nile", "Amazon", "Congo", "Rhine"))


@pytest.mark.parametrize("letter", ["B", "b", "(B)", "B)", "B.", "B: Amazon", "**B**", "B) Amazon"])
def test_letters(letter: str) -> None:
    assert parse(mcq(multiple_choice_correct=letter), "MCQ").answer == "B"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"multiple_choice_correct": "Amazon"}, "bad_letter"),
        ({"multiple_choice_correct": "\u0412"}, "bad_letter"),
        ({"multiple_choice_correct": 2}, "bad_letter"),
        ({"multiple_choice_correct": ""}, "abstained"),
        ({"multiple_choice_correct": ["B"]}, "nested_field"),
        ({"multiple_choice_question": ""}, "abstained"),
        ({"exam_question": ""}, "abstained"),
        ({"exam_question": None}, "abstained"),
        ({"correct_answer": "", "multiple_choice_question": [MCQ]}, "abstained"),
        ({"multiple_choice_question": [MCQ]}, "several_questions"),
        ({"multiple_choice_question": MCQ + "\nE) Volga"}, "bad_options"),
        ({"multiple_choice_question": MCQ[:-9]}, "bad_options"),
        ({"multiple_choice_question": MCQ.replace("Congo", "Nile.")}, "bad_options"),
        ({"multiple_choice_question": MCQ + " x" * 3000}, "question_too_long"),
    ],
)
def test_mcq_rules(fields: dict, why: str) -> None:
    assert reason(parse(mcq(**fields), "MCQ")) == why


def test_real_exam_questions_are_valid(shared_data) -> None:
    for line in (shared_data / "multiple_choice" / "mmlu_val_200.jsonl").read_text(encoding="utf-8").splitlines():
        item = json.loads(line)
        written = item["question"] + "".join(f"\n{x}) {y}" for x, y in zip("ABCD", item["choices"], strict=True))
        task = parse(mcq(multiple_choice_question=written, multiple_choice_correct=item["answer"]), "MCQ")
        assert isinstance(task, Task), (task, written)  # two of them bring the excerpt that they speak of
        assert task.answer == item["answer"]
        assert list(task.options) == [" ".join(choice.split()) for choice in item["choices"]]


@pytest.mark.parametrize("written", [
    "Correct: B\n" + MCQ, "The answer is B.\n" + MCQ, MCQ.replace("\n", "\nAnswer: (B)\n", 1),
    MCQ.replace("Amazon", "Amazon (correct)"), MCQ.replace("Amazon", "Amazon ✓"),
    MCQ.replace("Amazon", "Amazon ← correct"), MCQ.replace("Rhine", "the answer is B"),
    MCQ.replace("Congo", "Congo, but the correct option is B"), MCQ.replace("Congo", "Congo. Option B is correct"),
    MCQ + ", though the answer is B because it rains", "Correct letter: B\n" + MCQ,
])  # fmt: skip
def test_no_question_says_which_option_is_right(written: str) -> None:
    assert reason(parse(mcq(multiple_choice_question=written), "MCQ")) == "answer_leaked"


@pytest.mark.parametrize("stem", [
    "Choose the correct answer:", "If the answer is a river in Africa, which is it?",
    "The correct answer: a river. Which one?", "The answer is c times as long as d. Which river is c?",
    "Choose the correct answer: A 45-year-old boat sails where?",
    "Select the correct option: A, B, C or D. Which river?",
    "Choose the correct answer: C is the length of which?", "Choose the correct answer: D-Day took place near which?",
])  # fmt: skip
def test_articles_and_labels_name_no_option(stem: str) -> None:
    for written in (
        MCQ.replace(MCQ.partition("\n")[0], stem),
        MCQ.replace(MCQ.partition("\n")[0], stem).replace("\n", " "),
    ):
        task = parse(mcq(multiple_choice_question=written), "MCQ")
        assert isinstance(task, Task) and task.question.startswith(stem), task


@pytest.mark.parametrize("last", [
    "Because the correct answer is C minor", "He wrote answer: C on a sheet", "none; the answer is B only", "✓",
    "the correct answer is D-ribose",
])  # fmt: skip
def test_an_option_is_not_cut_where_no_option_is_named(last: str) -> None:
    task = parse(mcq(multiple_choice_question=MCQ.replace("Rhine", last)), "MCQ")
    assert isinstance(task, Task) and task.options[3] == last, task


def test_genotypes_differ_by_case() -> None:
    genetics = "Which genotype is heterozygous here?\nA) AA\nB) Aa\nC) aa\nD) aA"
    assert isinstance(parse(mcq(multiple_choice_question=genetics), "MCQ"), Task)


# ------------------------------------------------------------------------------------------------------- task type


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ('{"suitable_for_mcq": true, "suitable_for_free_form": false, "best_answer_type": null, "reason": "x"}', "MCQ"),
        ('{"suitable_for_mcq": false, "suitable_for_free_form": true, "best_answer_type": "Integer"}', "Integer"),
        ('{"suitable_for_mcq": "false", "suitable_for_free_form": "true", "best_answer_type": "List"}', "List"),
        ('<think>hm</think>```json\n{"suitable_for_mcq": true, "suitable_for_free_form": false}\n```', "MCQ"),
        ("Integer", "Integer"),
        (" MCQ\n", "MCQ"),
    ],
)  # fmt: skip
def test_task_types(text: str, choice: str) -> None:
    assert parse_task_type(text) == choice


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unparsable"),
        ("Integers", "unparsable"),
        ('{"suitable_for_mcq": true}', "missing_field"),
        ('{"suitable_for_mcq": true, "suitable_for_free_form": true}', "bad_task_type"),
        ('{"suitable_for_mcq": false, "suitable_for_free_form": false}', "bad_task_type"),
        ('{"suitable_for_mcq": 1, "suitable_for_free_form": 0}', "bad_task_type"),
        ('{"suitable_for_mcq": false, "suitable_for_free_form": true}', "bad_task_type"),
        ('{"suitable_for_mcq": false, "suitable_for_free_form": true, "best_answer_type": "MCQ"}', "bad_task_type"),
        ('{"suitable_for_mcq": false, "suitable_for_free_form": true, "best_answer_type": ["List"]}', "bad_task_type"),
        ('{"suitable_for_mcq": false, "suitable_for_mcq": true, "suitable_for_free_form": true}', "duplicate_key"),
    ],
)
def test_task_type_rules(text: str, why: str) -> None:
    assert reason(parse_task_type(text)) == why


# ------------------------------------------------------------------------------------------------------------ nano


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("question: 7+5=?\nanswer: 12", "Integer", ("7+5=?", "12")),
        ("question: 7+5=?\nanswer_type: Integer\nanswer: 12", "Integer", ("7+5=?", "12")),
        ("Question:7+5=?\n Answer:12\nand more", "Integer", ("7+5=?", "12")),
        ("question: 73 is?\nanswer: odd", "String", ("73 is?", "odd")),
        ("question: symbol of iron?\nA) Ir\nB) Fe\nC) I\nD) In\nanswer: B", "MCQ", None),
        ("question: 7+5=?\nanswer_type: String\nanswer: 12", "Integer", "wrong_answer_type"),
        ("question: 7+5=?", "Integer", "missing_field"),
        ("answer: 12", "Integer", "missing_field"),
        ("question:\nanswer:", "Integer", "abstained"),
        ("question: 7+5=?\nanswer: 12\nquestion: 1+1=?\nanswer: 2", "Integer", "several_questions"),
        ("question: 7+5=?\nanswer: 12\nanswer: 13", "Integer", "duplicate_key"),
        ("question: 7+12=?\nanswer: 12", "Integer", "answer_leaked"),
        ("question: 7\nanswer: 12", "Integer", "question_too_short"),
        ('{"question": "7+5=?", "answer": 12}', "Integer", "unparsable"),
        ("question: \n" * 10_000, "Integer", "several_questions"),
        ("", "Integer", "unparsable"),
    ],
)
def test_nano_lines(text: str, kind: str, expected: tuple[str, str] | str | None) -> None:
    result = parse(text, kind, style="nano")
    if isinstance(expected, str):
        assert reason(result) == expected
    elif expected is None:
        assert result == Task(
            "symbol of iron?\nA) Ir\nB) Fe\nC) I\nD) In", "B", "MCQ", "doc-7", ("Ir", "Fe", "I", "In")
        )
    else:
        assert isinstance(result, Task) and (result.question, result.answer) == expected


# ----------------------------------------------------------------------------------------------------------- boxed


@pytest.mark.parametrize(("text", "answer"), [
    ("\\boxed{42}", "42"), ("first \\boxed{1}, no: \\boxed{2}.", "2"), ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
    ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"), ("\\boxed{ 42 } then a stray } and {", "42"),
    ("\\boxed{a \\boxed{b} c}", "b"), ("\\boxed{1} and cut \\boxed{2", "1"), ("\\boxed {7}", "7"), ("\\boxed{}", ""),
    ("\\boxed{4} and then \\boxed{}", "4"), ("\\boxed{4 \\boxed{}}", "4 \\boxed{}"), ("<think>so \\boxed{4}", None),
    ("<think>so \\boxed{3}</think> \\boxed{4}", "4"), ("so \\boxed{4}</think>", "4"), ("<think>\n\\boxed{3}", None),
    ("\\boxed{4} <think>or \\boxed{5}", "4"), ("\\boxed{\\text{(B)}}", "\\text{(B)}"), ("no box", None),
    ("\\boxed", None), ("\\\\boxed{3}", None), ("", None), ("\\boxed{" * 20_000, None),
    ("\\boxed{" * 20_000 + "x" + "}" * 20_000, "x"), ("{" * 60_000 + "\\boxed{5}", "5"),
    ("x" * 300_000 + "\\boxed{5}", "5"),
])  # fmt: skip
def test_the_last_complete_box_counts(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


# ------------------------------------------------------------------------------------------------------------ fuzz

_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from([MCQ, QUESTION, "B"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["A", "B", "C", "D", "question"]), inner)
    ),
    max_leaves=8,
)
_NAMES = ["question", "answer", "answer_type", "multiple_choice_question", "multiple_choice_correct",
          "suitable_for_mcq", "suitable_for_free_form", "best_answer_type"]  # fmt: skip
_PIECES = ['{"', '"}', "{", "}", "[", "]", '"', "\\", ":", ",", "\n", "question", "answer", ": ", "A) ", "B) ",
           "C) ", "D) ", "<think>", "</think>", "\\boxed{", "42", "NaN", "\ud800", "\0", "é", "true"]  # fmt: skip
_REPLIES = (
    st.text(max_size=300)
    | st.lists(st.sampled_from(_PIECES), max_size=60).map("".join)
    | st.dictionaries(st.sampled_from(_NAMES), _JSON).map(json.dumps)
    | st.tuples(st.text(max_size=40), st.text(max_size=40)).map(lambda p: f"question: {p[0]}\nanswer: {p[1]}")
)


@settings(max_examples=300, deadline=None)
@given(_REPLIES, st.sampled_from(ANSWER_TYPES), st.sampled_from(STYLES), st.sampled_from(["none", "answer", "cloze"]),
       st.sampled_from([OURS, PAPER]))  # fmt: skip
def test_parsers_are_total(text, kind, style, grounding, rules) -> None:
    result = parse_task(text, kind=kind, document=DOCUMENT, style=style, grounding=grounding, rules=rules)
    if isinstance(result, Task):
        assert result.question and result.answer and result.answer_type == kind
        assert len(result.options) == (4 if kind == "MCQ" else 0)
        assert rules is PAPER or len(set(result.options)) == len(result.options)
        assert kind != "MCQ" or result.answer in formats.LETTERS
        (result.question + result.answer).encode("utf-8")
    else:
        reason(result)
    choice = parse_task_type(text)
    assert choice in ANSWER_TYPES if isinstance(choice, str) else reason(choice)
    extracted = extract_answer(text)
    assert extracted is None or extracted in text
