"""Owns the SPICE prompts and the parser of the format each asks for: document to messages, reply to Task or Rejection.

Three styles ask for the same fields: `full` (the paper's procedure, JSON), `simple` (a short request after one worked
example, `question:` and `answer:` lines, for small models) and `nano` (the same lines, for a model of a million
parameters). Field names follow SPICE
(arXiv:2510.24684, appendix 11). Parsers are total: any string gives a value or a Rejection, in bounded time.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from spicejax.games.reasoner import SYSTEM, Style, check_style
from spicejax.games.spice import validity
from spicejax.games.spice.replies import Fields, Pairs, read_fields, rejection
from spicejax.games.spice.validity import ValidityConfig
from spicejax.text import prompts
from spicejax.text.prompts import NO_TEMPLATES, Templates
from spicejax.types import ANSWER_TYPES, AnswerType, Document, Messages, Rejection, Task

PACKAGE = "spicejax.games.spice"  # that holds the templates
Grounding = Literal["none", "answer", "cloze"]

SIMPLE_TYPES = {
    "Integer": "a whole number",
    "Float": "a decimal number",
    "Expression": "a formula",
    "String": "one to three words",
    "Boolean": "true or false",
    "List": "a list with commas",
}
LETTERS = "ABCD"
ABSTAINING = ("exam_question", "correct_answer")  # beside question and answer: empty, they say there is no task
_OPTION_LINE = re.compile(r"^[ \t]*(?:[-*][ \t]+)?\**\(?([A-Za-z])\**[).:]\**[ \t]*(?=\S)", re.MULTILINE)
_OPTION_INLINE = re.compile(r"(?<!\S)\(?([A-Z])\)[ \t]*(?=\S)")
_AFTER_OPTIONS = re.compile(r"\n[ \t]*\n|\n[ \t]*\**(?:correct|answer|explanation|solution)\b", re.IGNORECASE)
# A letter said to be right, at the end of a clause: "Correct: B", "the answer is (C)."; not "the answer is A, B or C"
_LABEL = r"\bcorrect(?: answer| option| choice| letter)?|\banswer"
_CLAUSE_ENDS = r"(?=[ \t]*[)\]*]*(?:[ \t]*(?:\n|$)|[.;:](?:\s|$)|\)[ \t])|[ \t]+(?:because|since)\b)"
_NAMED_RIGHT = re.compile(
    rf"(?:\bthe[ \t]+)?(?:{_LABEL})\**(?:[ \t]*[:=][ \t*]*\(?([a-d])|[ \t]+is:?[ \t*]*\(?(?-i:([A-D]))){_CLAUSE_ENDS}"
    r"|\b(?:option|answer|choice)[ \t]+\(?(?-i:([A-D]))\)?[ \t]+is[ \t]+(?:the[ \t]+)?(?:correct|right)\b",
    re.IGNORECASE,
)
_MARKED_RIGHT = re.compile(
    r"[(\[][ \t]*(?:correct(?: answer| option| choice)?|right (?:answer|option|choice))[ \t]*[)\]]"
    r"|(?:←|<-+)[ \t]*(?:correct|right)\b|\S[ \t]*[✓✔✅☑]|[✓✔✅☑][ \t]*\S",
    re.IGNORECASE,
)
_QUESTION_LABEL = re.compile(r"^\**question\**[ \t]*[0-9]{0,3}[ \t]*[:.)]\**\s*", re.IGNORECASE)
_LETTER = re.compile(r"\(?([A-D])(?:[).:](?:\s.*)?)?|([a-d])", re.DOTALL)


# ---------------------------------------------------------------------------------------------------------- render


def _request(base: str, style: Style, document: Document | None, templates: Templates, **values: str) -> dict[str, str]:
    """The user's turn: one of the templates, filled."""
    check_style(style)
    if document is not None:
        values["document"] = document.text
    # Differs: the prompts ask for the paper's fields in words of our own (spice.prompts brings others).
    name = base + ("" if style == "full" else f"_{style}") + ("" if document is not None else "_no_corpus")
    return {"role": "user", "content": prompts.fill(prompts.read(PACKAGE, name, templates), **values)}


def task_type_messages(document: Document, style: Style = "full", templates: Templates = NO_TEMPLATES) -> Messages:
    """Ask the Challenger whether a document suits an MCQ or a free-form question, and which answer type."""
    request = _request("task_type", style, document, templates)
    return [request] if style == "nano" else [SYSTEM, request]


def challenger_messages(
    document: Document | None, kind: AnswerType, style: Style = "full", templates: Templates = NO_TEMPLATES
) -> Messages:
    """Ask the Challenger for one question of this kind on a document; None = the no-corpus ablation.

    Args:
        templates: by name, in place of ours.
    Raises:
        ValueError: unknown style.
    """
    base = "mcq" if kind == "MCQ" else "free_form"
    values = {} if kind == "MCQ" else {"answer_type": SIMPLE_TYPES[kind] if style == "simple" else kind}
    request = _request(base, style, document, templates, **values)
    if style != "simple":
        return [request] if style == "nano" else [SYSTEM, request]
    # The example stands in turns of its own: small models follow what they see done.
    example = json.loads(prompts.read(PACKAGE, "simple_examples", templates))[kind]
    example_document = None if document is None else Document("example", example["document"])
    reply = {"role": "assistant", "content": example["reply"]}
    return [SYSTEM, _request(base, style, example_document, templates, **values), reply, request]


# ----------------------------------------------------------------------------------------------------------- parse


def _text_of(fields: Fields, name: str, rules: ValidityConfig) -> str | Rejection:
    """Return one field as clean, non-empty text."""
    if name not in fields:
        return rejection("missing_field", name)
    value = fields[name]
    if isinstance(value, Pairs):
        return rejection("nested_field", f"{name} is an object")
    if isinstance(value, list):
        several = name in ("question", "multiple_choice_question")
        return rejection("several_questions" if several else "nested_field", f"{name} is a list")
    text = validity.clean("" if value is None else str(value).lower() if isinstance(value, bool) else str(value))
    if not text:
        return rejection("abstained", f"{name} is empty")
    # Differs: the form's own filler is no value (no_markup).
    filler = rules.no_markup and validity.is_placeholder(text)
    return rejection("placeholder", f"{name}: {text}") if filler else text


def parse_task_type(text: str) -> AnswerType | Rejection:
    """Read the Challenger's choice of task: "MCQ", or the answer type of a free-form question.

    Exactly one of `suitable_for_mcq` and `suitable_for_free_form` must be true. A reply that is only the name of an
    answer type (the nano style) is taken as the choice.
    """
    if (word := text.strip()) in ANSWER_TYPES:
        return word  # pyright: ignore[reportReturnType]  # one of the literal's own values
    fields = read_fields(text, lines=False, question_field="")
    if isinstance(fields, Rejection):
        return fields
    for name in ("suitable_for_mcq", "suitable_for_free_form"):
        if name not in fields:
            return rejection("missing_field", name)
    mcq, free = (str(fields[f"suitable_for_{form}"]).strip().lower() == "true" for form in ("mcq", "free_form"))
    if mcq == free:
        return rejection("bad_task_type", f"suitable_for_mcq and suitable_for_free_form are both {mcq}".lower())
    if mcq:
        return "MCQ"
    chosen = fields.get("best_answer_type")
    if not isinstance(chosen, str) or chosen not in ANSWER_TYPES or chosen == "MCQ":
        return rejection("bad_task_type", f"best_answer_type is {str(chosen)[:100]}")
    return chosen  # pyright: ignore[reportReturnType]  # as above


def parse_task(
    text: str,
    *,
    kind: AnswerType,
    document: Document | None,
    style: Style = "full",
    rules: ValidityConfig = validity.OURS,
    max_string_words: int = 3,
    grounding: Grounding = "none",
) -> Task | Rejection:
    """Read a Challenger's reply as one valid task of the kind that was asked for, or say why it is none.

    Args:
        text: the model's reply; the prompt and the document in it are never parsed.
        document: what the prompt showed, for the task's `id` and for grounding; None = no corpus.
        rules: what is checked beyond the form.
        max_string_words: longest String answer, in words.
        grounding: what must stand in the document: nothing, the answer (MCQ: the right option's text), or a sentence
            that begins with the question and ends with the answer.
    """
    names = ("question", "answer")
    if kind == "MCQ" and style == "full":
        names = ("multiple_choice_question", "multiple_choice_correct")
    # Differs: earlier objects that ask other questions are refused, not taken for drafts (one_question).
    fields = read_fields(text, lines=style != "full", question_field=names[0] if rules.one_question else "")
    if isinstance(fields, Rejection):
        return fields
    question, answer, *others = (_text_of(fields, name, rules) for name in (*names, *ABSTAINING))
    for field in (question, answer, *others):
        if isinstance(field, Rejection) and field.reason == "abstained":
            return field
    if kind == "List" and isinstance(elements := fields.get("answer"), list):
        answer = _list_text(elements)
    if isinstance(question, Rejection):
        return question
    if isinstance(answer, Rejection):
        return answer
    if kind == "MCQ":
        read = _read_mcq(question, answer, rules)
    else:
        read = _read_free_form(question, answer, kind, fields, max_string_words, rules)
    if isinstance(read, Rejection):
        return read
    if problem := validity.check_question(read, rules, nano=style == "nano"):
        return problem
    if grounding != "none" and document is not None:
        quoted = read.options[LETTERS.index(read.answer)] if kind == "MCQ" else read.answer
        if not validity.grounded(document.text, quoted, kind):
            return rejection("ungrounded", quoted)
        stem = read.question.partition("\nA)")[0]
        if grounding == "cloze" and kind != "Boolean" and not validity.is_cloze(document.text, stem, quoted):
            return rejection("not_quoted", f"{stem} {quoted}")
    return Task(read.question, read.answer, kind, document.id if document is not None else "", read.options)


def _list_text(value: list) -> str | Rejection:
    """Write a JSON list of plain values as one line; an element with a comma would read as two."""
    if isinstance(value, Pairs) or not value or not all(isinstance(v, str | bool) for v in value):
        return rejection("nested_field", "answer is not a list of plain values")
    if any(mark in str(v) for v in value for mark in ",;\n"):
        return rejection("wrong_answer_type", "a list element holds a separator")
    return validity.clean(", ".join(map(str, value)))


def _read_free_form(
    question: str, answer: str, kind: AnswerType, fields: Fields, max_string_words: int, rules: ValidityConfig
) -> Task | Rejection:
    declared = fields.get("answer_type", kind)
    if declared != kind:
        return rejection("wrong_answer_type", f"declared {str(declared)[:50]}, asked for {kind}")
    fitting = validity.check_answer(answer, kind, max_string_words=max_string_words, rules=rules)
    return fitting if isinstance(fitting, Rejection) else Task(question, fitting, kind)


def _read_mcq(question: str, correct: str, rules: ValidityConfig) -> Task | Rejection:
    """Read an MCQ as stem, options and letter."""
    # Differs: the question is written anew from its parts, without the "Correct: B" line of the prompt.
    parts = _split_options(question)
    if parts is None:
        return rejection("bad_options", "the options are not labelled A, B, C, D")
    stem, options, rest = _QUESTION_LABEL.sub("", parts[0].strip()), parts[1], parts[2]
    if not all(options) or rules.no_markup and any(map(validity.is_placeholder, options)):
        return rejection("bad_options", "an option is empty")
    # Differs: two equal options, or a right one named twice, are refused (distinct_options).
    if rules.distinct_options and len({o.rstrip(".") for o in options}) != 4:
        return rejection("bad_options", "two options are the same")
    letter = _LETTER.fullmatch(correct.strip("* "))
    if not letter:
        return rejection("bad_letter", correct)
    right = (letter[1] or letter[2]).upper()
    said = (match for part in (stem, *options, rest) for match in _NAMED_RIGHT.finditer(part))
    named = {str(match[match.lastindex or 0]).upper() for match in said}
    if rules.distinct_options and named - {right}:
        return rejection("bad_letter", "the question names another letter than multiple_choice_correct")
    # Differs: neither the question nor an option may say which letter is right (no_leaks).
    if rules.no_leaks and any(says.search(part) for says in (_NAMED_RIGHT, _MARKED_RIGHT) for part in (stem, *options)):
        return rejection("answer_leaked", "the question says which option is right")
    if len(stem) < min(3, rules.min_question_chars):
        return rejection("question_too_short", stem)
    lines = [f"{label}) {option}" for label, option in zip(LETTERS, options, strict=True)]
    return Task("\n".join([stem, *lines]), right, "MCQ", options=tuple(options))


def _split_options(question: str) -> tuple[str, list[str], str] | None:
    """Split an MCQ text into stem, options A to D, written one per line or all in one line, and what comes after."""
    for pattern in (_OPTION_LINE, _OPTION_INLINE):
        marks = list(pattern.finditer(question))
        labels = "".join(mark[1] for mark in marks).upper()
        if not labels.endswith(LETTERS):
            # Differs: more options than four are refused, not cut, since the right one might go.
            continue
        marks = marks[-4:]
        starts = [mark.start() for mark in marks[1:]] + [len(question)]
        options = [question[mark.end() : start] for mark, start in zip(marks, starts, strict=True)]
        rest, options[3] = options[3], _AFTER_OPTIONS.split(options[3], maxsplit=1)[0]
        for said in _NAMED_RIGHT.finditer(options[3]):  # "D) silver Correct: B", with nothing behind
            before, behind = options[3][: said.start()].rstrip(" \t(*"), options[3][said.end() :]
            if before and not behind.strip(" \t\n.)]*"):
                options[3] = before
                break
        rest = rest[len(options[3]) :]
        return question[: marks[0].start()], [" ".join(option.split()) for option in options], rest
    return None
