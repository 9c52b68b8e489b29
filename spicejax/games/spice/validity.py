"""Owns when a Challenger's question is a valid task.

Why it is not is counted as rejected/REASON. Reasons that do not explain themselves: unparsable (no complete JSON
object, no `question:` line, or thinking that never ends), nested_field (a list or object where one value belongs),
abstained (empty strings: nothing to ask), placeholder (the form's own <...> or ... copied), control_text (chat markers
that would break out of the Reasoner's prompt), not_self_contained (speaks of a text the Reasoner never sees),
answer_leaked (the question holds its own answer); ungrounded and not_quoted only occur where `grounding` asks for them.
"""

from __future__ import annotations

import functools
import re

from spicejax.games.spice.replies import rejection
from spicejax.score import answers
from spicejax.types import Rejection

MAX_QUESTION_CHARS = 4000  # options included

_SOURCE = r"(?:text|passage|document|article|excerpt|paragraph|author|snippet|webpage|web page)s?"
_NOT_SELF_CONTAINED = re.compile(
    rf"\b(?:according to (?:the|this|that) (?:\w+ )?{_SOURCE}"
    rf"|according to the (?:above|following|information|given information|provided information)"
    rf"|(?:in|from|by|within|throughout|based on|refer to|using) (?:the|this) (?:\w+ )?{_SOURCE}"
    rf"|the (?:\w+ )?{_SOURCE} (?:\w+ )?(?:states?|says?|mention(?:s|ed)?|describe[sd]?|discuss(?:es|ed)?|impl(?:y|ies)"
    rf"|explain(?:s|ed)?|suggest(?:s|ed)?|provide[sd]?|claim(?:s|ed)?|note[sd]?|argue[sd]?|above|below)"
    rf"|(?:this|the (?:given|provided|above|following)) {_SOURCE}"
    r"|as mentioned"
    r"|as (?:described|stated|discussed|shown|noted|outlined|explained|defined|given) (?:above|earlier|previously)"
    r"|(?:mentioned|described|discussed|listed|stated) (?:above|earlier|previously)"
    r"|based on the (?:above|analysis|given information|provided information|information (?:provided|given|above))"
    r"|(?:figure|table|appendix) [0-9]+)\b"
)
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


def check_question(question: str, *, min_chars: int) -> Rejection | None:
    """Check one question's length, number, markers and independence of any text."""
    if len(question) < min_chars or not any(c.isalnum() for c in question):
        return rejection("question_too_short", question)
    if len(question) > MAX_QUESTION_CHARS:
        return rejection("question_too_long", f"{len(question)} characters")
    if found := _CONTROL.search(question):
        return rejection("control_text", found[0])
    if len(_NUMBERED.findall(question)) > 1:
        return rejection("several_questions", question)
    if found := _NOT_SELF_CONTAINED.search(" ".join(question.casefold().split())):
        return rejection("not_self_contained", found[0])
    return None


def check_answer(answer: str, answer_type: str, *, max_string_words: int) -> str | Rejection:
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
        return (
            " ".join(answer.split())
            if answers.normal(answer)
            else rejection("wrong_answer_type", f"no word in {answer}")
        )
    if answer_type == "List":
        elements = answers.split_list(answer)
        full = bool(elements) and all(elements)
        return answer if full else rejection("wrong_answer_type", f"an empty element in {answer}")
    if not any(c.isalnum() for c in answer) or "\n" in answer or _PROSE.search(_FUNCTIONS.sub(" + ", answer)):
        return rejection("wrong_answer_type", f"{answer} is no Expression")
    return answer


def leaks(question: str, answer: str, answer_type: str) -> bool:
    """Say whether a free-form question holds its own answer as whole tokens (a number: as that number).

    Of 200 GSM8K questions 11 do. Not asked of Boolean answers, whose word is part of many fair questions, nor of
    one-token Expressions (solve for x).
    """
    if answer_type == "Boolean":
        return False
    if (number := answers.canonical_number(answer)) is not None:
        return number in answers.number_tokens(question)
    if answer_type == "Expression" and len(answers.tokens(answer).split()) < 2:
        return False
    return answers.phrase(answer) in answers.tokens(question)


@functools.lru_cache(maxsize=32)
def _document_tokens(text: str) -> tuple[str, frozenset[str]]:
    return answers.tokens(text), frozenset(answers.number_tokens(text))


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
