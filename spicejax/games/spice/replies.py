"""Owns reading a model's reply into named fields: the last JSON object of a text, or `name: value` lines.

Total and bounded: any string gives fields or a Rejection.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from spicejax.score.answers import after_thinking
from spicejax.types import Rejection

MAX_REPLY_CHARS = 131_072  # longer replies are rejected unread
_MAX_STARTS = 1000  # braces that look like an object and are none: each may cost a scan of the whole reply


class Pairs(list):
    """A JSON object as (name, value) pairs, so that repeated names remain visible."""


Fields = dict[str, object]  # str, bool, None, list or Pairs by field name

_OBJECT_START = re.compile(r'\{\s*+(?=["}])')
# In JSON "\frac" is a form feed and "\(" an error, but a model that writes them means LaTeX. A backslash keeps its JSON
# meaning only where LaTeX is implausible; \n, \r, \t yield to the commands listed here.
_ESCAPE = re.compile(
    r'\\(u[0-9a-fA-F]{4}|["\\/]'
    r"|n(?!abla|eq(?![a-z])|otin)"
    r"|r(?!ho(?![a-z])|ight(?![a-z])|angle|floor|ceil)"
    r"|t(?!heta|imes|ext\s?\{|frac|ilde|riangle|au(?![a-z])|an(?![a-z]))"
    r"|[bf](?![A-Za-z]))|\\"
)
_LINE_FIELD = re.compile(r"^[ \t]*(question|answer_type|answer)[ \t]*:", re.MULTILINE | re.IGNORECASE)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    strict=False,  # raw newlines inside strings are common and harmless
    object_pairs_hook=Pairs,
    parse_int=str,  # in the digits they were written with: 42.0 stays "42.0"
    parse_float=str,
    parse_constant=_refuse_constant,
)


def rejection(reason: str, detail: str = "") -> Rejection:
    """Make a Rejection whose detail keeps to 200 printable characters."""
    return Rejection(reason, "".join(c if c.isprintable() else " " for c in detail[:200]))


def _repeated(names: Sequence[str]) -> str:
    return next(name for i, name in enumerate(names) if name in names[:i])


def json_objects(text: str) -> list[Pairs]:
    """Return the complete JSON objects of a text in order, none of them inside another."""
    text = _ESCAPE.sub(lambda m: m[0] if m[1] else "\\\\", text)
    objects: list[Pairs] = []
    position = failures = 0
    while failures < _MAX_STARTS and (match := _OBJECT_START.search(text, position)):
        try:
            value, position = _DECODER.raw_decode(text, match.start())
            objects.append(value)
        except (ValueError, RecursionError):
            position = match.start() + 1
            failures += 1
    return objects if failures < _MAX_STARTS else []


def json_fields(text: str, *, question_field: str) -> Fields | Rejection:
    """Read the last JSON object of a reply.

    Earlier objects are drafts, unless one asks a different non-empty question: then there is not exactly one question.
    """
    objects = json_objects(text)
    if not objects:
        return rejection("unparsable", "no complete JSON object")
    fields = dict(objects[-1])
    # Differs: JSON's last of two values would count; which one is meant nobody knows.
    if len(fields) < len(objects[-1]):
        return rejection("duplicate_key", _repeated([name for name, _ in objects[-1]]))
    question = fields.get(question_field)
    drafts = [value for earlier in objects[:-1] for name, value in earlier if name == question_field]
    if question is not None and any(isinstance(d, str) and d.strip() and d != question for d in drafts):
        return rejection("several_questions", "several objects ask different questions")
    return fields


def line_fields(text: str) -> Fields | Rejection:
    """Read `question:`, `answer_type:` and `answer:` lines; the question may run over several lines."""
    marks = list(_LINE_FIELD.finditer(text))
    if not marks:
        return rejection("unparsable", "no `question:` line")
    names = [mark[1].lower() for mark in marks]
    if len(set(names)) < len(names):
        name = _repeated(names)
        return rejection("several_questions" if name == "question" else "duplicate_key", name)
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    values = [text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)]
    return {n: v if n == "question" else v.partition("\n")[0].strip() for n, v in zip(names, values, strict=True)}


def read_fields(text: str, *, lines: bool, question_field: str) -> Fields | Rejection:
    """Read a reply's fields: lines or the last JSON object, both from behind any thinking."""
    if len(text) > MAX_REPLY_CHARS:
        return rejection("reply_too_long", f"{len(text)} characters")
    reply = after_thinking(text)
    if reply is None:
        return rejection("unparsable", "the thinking is never closed")
    return line_fields(reply) if lines else json_fields(reply, question_field=question_field)
