"""Owns reading a model's reply into named fields: the last JSON object of a text, or `name: value` lines.

Total and bounded: any string gives fields or a Rejection, in time linear in its length.
"""

from __future__ import annotations

import json
import re

from spicejax.types import Rejection

MAX_REPLY_CHARS = 131_072  # longer replies are rejected unread
MAX_DEPTH = 32  # nesting of objects and lists
_SCAN_TOKENS = 40_000  # quotes and brackets looked at over all candidate objects of one reply


class NumberText(str):
    """A JSON number in the digits it was written with: 42.0 stays "42.0", a million digits stay text."""


class Pairs(list):
    """A JSON object as (name, value) pairs, so that repeated names remain visible."""


Fields = dict[str, object]  # str, NumberText, bool, None, list or Pairs by field name

_OBJECT_START = re.compile(r'\{\s*+(?=["}])')
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\]]', re.DOTALL)
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
    parse_int=NumberText,
    parse_float=NumberText,
    parse_constant=_refuse_constant,
)


def rejection(reason: str, detail: str = "") -> Rejection:
    """Make a Rejection whose detail keeps to 200 printable characters."""
    return Rejection(reason, "".join(c if c.isprintable() else " " for c in detail[:200]))


def after_thinking(text: str) -> str | None:
    """Return the text behind the last </think>; None where thinking was opened and never closed."""
    _, closed, rest = text.rpartition("</think>")
    if closed:
        return rest
    return None if "<think>" in text else text


def _object_end(text: str, start: int, budget: int) -> tuple[int, int]:
    """Return (end, tokens used) of the balanced object at `start`; end is -1 where unbalanced, too deep or too long."""
    open_brackets: list[str] = []
    used = 0
    for match in _BRACKET.finditer(text, start):
        used += 1
        mark = match[0]
        if used > budget or mark == '"':  # a lone quote: the string never ends
            return -1, used
        if mark in "{[":
            open_brackets.append("}" if mark == "{" else "]")
            if len(open_brackets) > MAX_DEPTH:
                return -1, used
        elif mark in "}]":
            if open_brackets.pop() != mark:
                return -1, used
            if not open_brackets:
                return match.end(), used
    return -1, used


def json_objects(text: str) -> list[Pairs] | Rejection:
    """Return the complete JSON objects of a text in order, none of them inside another."""
    objects: list[Pairs] = []
    budget, position = _SCAN_TOKENS, 0
    while match := _OBJECT_START.search(text, position):
        end, used = _object_end(text, match.start(), budget)
        budget -= used + 16  # the constant bounds the number of starts
        if budget <= 0:
            return rejection("unparsable", "too many brackets")
        position = match.start() + 1
        if end < 0:
            continue
        try:
            value = _DECODER.decode(_ESCAPE.sub(lambda m: m[0] if m[1] else "\\\\", text[match.start() : end]))
        except ValueError:
            continue
        objects.append(value)
        position = end
    return objects


def json_fields(text: str, *, question_field: str) -> Fields | Rejection:
    """Read the last JSON object of a reply.

    Earlier objects are drafts, unless one asks a different non-empty question: then there is not exactly one question.
    """
    objects = json_objects(text)
    if isinstance(objects, Rejection):
        return objects
    if not objects:
        return rejection("unparsable", "no complete JSON object")
    names = [name for name, _ in objects[-1]]
    if len(set(names)) != len(names):
        return rejection("duplicate_key", next(n for i, n in enumerate(names) if n in names[:i]))
    fields = dict(objects[-1])
    asked = fields.get(question_field)
    for earlier in objects[:-1]:
        for name, value in earlier:
            if asked is None or name != question_field or not isinstance(value, str):
                continue
            if value.strip() and value != asked:
                return rejection("several_questions", "several objects ask different questions")
    return fields


def line_fields(text: str) -> Fields | Rejection:
    """Read `question:`, `answer_type:` and `answer:` lines; the question may run over several lines."""
    marks: list[re.Match[str]] = []
    for mark in _LINE_FIELD.finditer(text):
        name = mark[1].lower()
        if any(name == earlier[1].lower() for earlier in marks):
            return rejection("several_questions" if name == "question" else "duplicate_key", name)
        marks.append(mark)
    if not marks:
        return rejection("unparsable", "no `question:` line")
    fields: Fields = {}
    for mark, end in zip(marks, [mark.start() for mark in marks[1:]] + [len(text)], strict=True):
        value = text[mark.end() : end].strip()
        fields[mark[1].lower()] = value if mark[1].lower() == "question" else value.partition("\n")[0].strip()
    return fields


def read_fields(text: str, *, lines: bool, question_field: str) -> Fields | Rejection:
    """Read a reply's fields: lines or the last JSON object, both from behind any thinking."""
    if len(text) > MAX_REPLY_CHARS:
        return rejection("reply_too_long", f"{len(text)} characters")
    rest = after_thinking(text)
    if rest is None:
        return rejection("unparsable", "the thinking is never closed")
    return line_fields(rest) if lines else json_fields(rest, question_field=question_field)
