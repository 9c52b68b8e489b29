"""Chat templates compiled as `transformers` compiles them: jinja2's sandbox and the few names that templates expect.

The sandbox keeps a template from Python's internals, from files and from changing its arguments. It does not bound time
or memory: a template can loop or fill memory as long as it likes, as a tokenizer can, so take model folders from those
you trust that far (docs/security.md).
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jinja2
import jinja2.ext
import jinja2.parser
import jinja2.sandbox
from jinja2 import nodes


def compiled(source: str) -> Callable[[Mapping[str, Any]], str]:
    """Compile a template to a function from its variables to text.

    Raises (here and in the function):
      ValueError: whatever goes wrong in the template, its own raise_exception included, with the cause.
    """
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {"raise_exception": _raise_exception, "strftime_now": clock()}
    with _as_value_error("does not compile"):
        template = environment.from_string(source)

    def render(variables: Mapping[str, Any]) -> str:
        with _as_value_error("failed"):
            return template.render(variables)

    return render


def clock(date: datetime.date | None = None) -> Callable[[str], str]:
    """`strftime_now` of templates at a date; by default when it was first asked, so that prompts stay the same."""
    return lambda pattern: (_now() if date is None else date).strftime(pattern)


@functools.cache
def _now() -> datetime.datetime:
    return datetime.datetime.now()


@contextlib.contextmanager
def _as_value_error(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a template is code of its own and may raise anything
        raise ValueError(f"chat template {what}: {type(error).__name__}: {error}") from error


class _Generation(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}` marks what a model wrote; the text inside passes unchanged."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _tojson(x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False):
    # Unlike Jinja's own filter this leaves <, > and & as they are: the text is for a model, not for a web page.
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
