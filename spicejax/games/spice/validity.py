"""Owns when a Challenger's question is a valid task.

The paper's rule (section 2.2) is that a task is formatted as its prompt asks, and parsable: one JSON object (or lines)
with every field that is read, not empty; a single question; the letter of one of four options, or one plain value of
the type asked for. What goes beyond is marked there with the field of ValidityConfig that lifts it. Without a
switch are bounds that what follows needs: answers of at most 1,000 characters and 400 digits and list elements without
separators (the verifier compares no others), replies of at most 131,072 characters that end by themselves, one value a
key, and a question that fits the Reasoner's longest prompt.

Why a task is not valid is counted as rejected/REASON. Reasons that do not explain themselves: unparsable (no complete
JSON object, no `question:` line, or thinking that never ends), nested_field (a list or object where one value belongs),
abstained (an empty string: nothing to ask), placeholder (the form's own <...> or ... copied), control_text (chat
markers that would break out of the Reasoner's prompt), not_self_contained (speaks of a text the Reasoner never sees),
answer_leaked (the question gives its own answer away), held_out (the evaluation asks it too); ungrounded and not_quoted
only occur where `grounding` asks.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from spicejax.games.spice.leaks import leaks
from spicejax.games.spice.references import unseen_reference
from spicejax.games.spice.replies import rejection
from spicejax.score import answers
from spicejax.types import AnswerType, Rejection, Task


@dataclasses.dataclass(frozen=True)
class ValidityConfig:
    """What a task must meet beyond the paper's rule; false and 0 are the paper's setting (`validity.PAPER`)."""

    # refuse a question that speaks of a text, table or figure that the Reasoner does not see. The paper's prompt
    # forbids it, its rule does not check it
    self_contained: bool = True
    # refuse a free-form question that gives its own answer away; in the style `nano`, whose questions are the start of
    # a sentence, one that holds it at all; and a multiple choice that says which option is right
    no_leaks: bool = True
    # refuse several numbered questions in one, and replies whose objects ask different ones; else the last object
    # counts
    one_question: bool = True
    # shortest question, in characters; three are enough in the style `nano`
    min_question_chars: int = 10
    # longest question, in characters, the options of a multiple choice included; 0 = no bound
    max_question_chars: int = 4000
    # refuse the form's own filler (<...>, dots) as a value or option, and chat markers in a question
    no_markup: bool = True
    # refuse an Expression that is prose, a String without letter or digit, a List with an empty element
    typed_answers: bool = True
    # refuse options that are equal, and a question that names another letter than the one given as right
    distinct_options: bool = True
    # refuse a question that the evaluation asks too (eval.tasks), word for word. Off, because a corpus may hold what it
    # asks: the share of such questions is challenger/held_out_questions
    no_held_out: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.min_question_chars <= (self.max_question_chars or self.min_question_chars):
            raise ValueError(
                f"spice.validity.min_question_chars={self.min_question_chars}: must lie between 0 and "
                f"max_question_chars={self.max_question_chars}"
            )


OURS = ValidityConfig()
PAPER = ValidityConfig(False, False, False, 0, 0, False, False, False)

_CONTROL = re.compile(r"<\|[^|<>\n]{1,40}\|>|</?think>|<(?:start|end)_of_turn>|\[/?INST\]")
_NUMBERED = re.compile(r"^[ \t]*(?:q|question)[ \t]*[0-9]+[ \t]*[:.)]", re.MULTILINE | re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)")
_FLOAT = re.compile(r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,} +[A-Za-z]{3,}")
_FUNCTIONS = re.compile(
    r"(?<![A-Za-z])(?:sin|cos|tan|cot|sec|csc|log|exp|sqrt|max|min|gcd|lcm|mod|arcsin|arccos|arctan|sinh|cosh|tanh|det|lim|sum"
    r"|alpha|beta|gamma|delta|epsilon|theta|lambda|sigma|omega|phi|rho|tau|for|and)(?![A-Za-z])"
)


def clean(text: str) -> str:
    """Drop control characters and unpaired surrogates, which no tokenizer or pipe takes; keep newlines and tabs."""
    return "".join(c for c in text if c in "\n\t" or (ord(c) >= 32 and not 0x7F <= ord(c) <= 0x9F)).encode(
        "utf-8", "ignore"
    ).decode().strip()  # fmt: skip


def is_placeholder(text: str) -> bool:
    """Say whether a value is the form's own filler: <...> or dots."""
    return not text.strip(" .…") or (text.startswith("<") and text.endswith(">") and len(text) > 2)


def check_question(task: Task, rules: ValidityConfig, *, nano: bool = False) -> Rejection | None:
    """Check a question's length, number and markers, and that it gives away neither its answer nor a hidden text."""
    question, least = task.question, min(rules.min_question_chars, 3) if nano else rules.min_question_chars
    # Differs: a question has a shortest and a longest length (min_question_chars, max_question_chars).
    if least and (len(question) < least or not any(c.isalnum() for c in question)):
        return rejection("question_too_short", question)
    if 0 < rules.max_question_chars < len(question):
        return rejection("question_too_long", f"{len(question)} characters")
    # Differs: chat markers in a question are refused (no_markup).
    if rules.no_markup and (match := _CONTROL.search(question)):
        return rejection("control_text", match[0])
    # Differs: several numbered questions in one string are refused (one_question).
    if rules.one_question and len(_NUMBERED.findall(question)) > 1:
        return rejection("several_questions", question)
    # Differs: what the prompt forbids, a reference to the document, is checked (self_contained).
    if rules.self_contained and (reference := unseen_reference(question)):
        return rejection("not_self_contained", reference)
    # Differs: a question may not give its own answer away (no_leaks); true and false are fair words.
    if rules.no_leaks and task.answer_type not in ("MCQ", "Boolean"):
        if (_holds if nano else leaks)(question, task.answer, task.answer_type):
            return rejection("answer_leaked", task.answer)
    return None


def check_answer(
    answer: str, answer_type: AnswerType, *, max_string_words: int, rules: ValidityConfig
) -> str | Rejection:
    """Return a free-form answer in its canonical spelling, or why it does not fit its declared type.

    Integer: a whole number; Float: decimal or scientific notation; Boolean: exactly true or false; String: one line of
    at most `max_string_words` words; Expression: mathematics, not prose; List: values with commas between.
    """
    if len(answer) > answers.MAX_ANSWER_CHARS:
        return rejection("answer_too_long", f"{len(answer)} characters")
    if sum(c in "0123456789" for c in answer) > answers.MAX_DIGITS:
        return rejection("answer_too_long", f"more than {answers.MAX_DIGITS} digits")
    if answer_type in ("Integer", "Float"):
        pattern = _INTEGER if answer_type == "Integer" else _FLOAT
        if not pattern.fullmatch(answer) or answers.parse_number(answer) is None:
            return rejection("wrong_answer_type", f"{answer} is no {answer_type}")
        return answer.replace(",", "").removeprefix("+")
    if answer_type == "Boolean":
        return answer if answer in ("true", "false") else rejection("wrong_answer_type", f"{answer} is no Boolean")
    if answer_type == "String":
        if len(answer.split()) > max_string_words:
            return rejection("answer_too_long", f"more than {max_string_words} words: {answer}")
        answer = " ".join(answer.split())
    # Differs: what a type means is checked beyond its format (typed_answers).
    if not rules.typed_answers:
        return answer
    if answer_type == "String":
        return answer if any(map(str.isalnum, answer)) else rejection("wrong_answer_type", f"no word in {answer}")
    if answer_type == "List":
        elements = answers.split_list(answer)
        full = bool(elements) and all(elements)
        return answer if full else rejection("wrong_answer_type", f"an empty element in {answer}")
    if not any(c.isalnum() for c in answer) or "\n" in answer or _PROSE.search(_FUNCTIONS.sub(" + ", answer)):
        return rejection("wrong_answer_type", f"{answer} is no Expression")
    return answer


def _holds(question: str, answer: str, answer_type: AnswerType) -> bool:
    """Say whether a cloze holds its answer as whole tokens (a number: as that number); one symbol may stand there."""
    if (number := answers.canonical_number(answer)) is not None:
        return number in answers.number_tokens(question)
    if answer_type == "Expression" and len(answers.tokens(answer).split()) < 2:
        return False
    return answers.phrase(answer) in answers.tokens(question)


@functools.lru_cache(maxsize=32)
def _document_tokens(text: str) -> tuple[str, frozenset[str]]:
    return answers.tokens(text), frozenset(answers.number_tokens(text))


def has_numbers(document: str) -> bool:
    """Say whether a number stands in the document, which a grounded answer could be."""
    return bool(_document_tokens(document)[1])


def grounded(document: str, answer: str, answer_type: str) -> bool:
    """Say whether the answer stands in the document as whole tokens; each element of a List.

    True for Boolean and Expression answers, which are derived rather than quoted.
    """
    if answer_type in ("Boolean", "Expression"):
        return True
    words, numbers = _document_tokens(document)
    for element in answers.split_list(answer) if answer_type == "List" else [answer]:
        number = answers.canonical_number(element)
        if not (number in numbers if number is not None else answers.phrase(element) in words):
            return False
    return True


_SENTENCE_END = re.compile(r"\.(?:\s+|$)|\n+")


def is_cloze(document: str, question: str, answer: str) -> bool:
    """Say whether the question is the start of a sentence of the document and the answer its end.

    "58+67=?" with 125 and "capital of Kenya?" with Nairobi are, of "58+67=125. capital of Kenya is Nairobi."
    """
    stem = question.rstrip("?= ")
    pattern = re.compile(rf"{re.escape(stem)}\b(?:.*[^\w.-])?{re.escape(answer)}")
    return any(pattern.fullmatch(sentence) for sentence in _SENTENCE_END.split(document))
