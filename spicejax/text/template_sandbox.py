"""A Jinja sandbox for chat templates with bounds on size, steps and memory: templates are other people's code."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.sandbox
import jinja2.utils
from jinja2 import nodes
from jinja2.filters import FILTERS
from jinja2.visitor import NodeTransformer

MAX_TEMPLATE_BYTES = 256 * 1024
MAX_OUTPUT_CHARS = 4 * 1024 * 1024
MAX_STEPS = 250_000  # loop turns and calls of one rendering
MAX_NUMBER = 2**63

ALLOWED_FILTERS = tuple(
    """abs capitalize count d default dictsort e escape first float int items join last length list lower map max min
    reject rejectattr replace reverse round safe select selectattr sort string title trim unique upper""".split()
)
# Methods that make a long string out of a short one by a number are left out.
STRING_METHODS = frozenset(
    """capitalize count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle
    isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition rsplit rstrip split
    splitlines startswith strip title upper""".split()
)


class Template:
    """One compiled chat template.

    Raises (constructor and render):
      ValueError: too large, syntax error, forbidden construct, bound exceeded, or the template's own raise_exception.
    """

    def __init__(self, source: str):
        size = len(source.encode("utf-8", "surrogatepass"))
        if size > MAX_TEMPLATE_BYTES:
            raise ValueError(f"chat template has {size} bytes; at most {MAX_TEMPLATE_BYTES} are accepted")
        self._environment = _Environment()
        try:
            self._template = self._environment.from_string(source)
        except (jinja2.TemplateError, SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"chat template does not compile: {type(error).__name__}: {error}") from error

    def render(self, variables: Mapping[str, Any]) -> str:
        self._environment.budget.left = MAX_STEPS
        parts: list[str] = []
        total = 0
        try:
            for part in self._template.generate(variables):
                total += len(part)
                if total > MAX_OUTPUT_CHARS:
                    raise jinja2.TemplateRuntimeError(f"output is longer than {MAX_OUTPUT_CHARS} characters")
                parts.append(part)
        except (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError) as error:
            raise ValueError(f"chat template failed: {error}") from error
        except (TypeError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"chat template failed: {type(error).__name__}: {error}") from error
        return "".join(parts)


class _Budget(threading.local):
    left = MAX_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise jinja2.TemplateRuntimeError(f"more than {MAX_STEPS} loop turns and calls")


class _Bounds(NodeTransformer):
    """Send every loop and every `~` through a counting filter, and keep underscores out of namespaces."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (name fixed by jinja2)
        self.generic_visit(node)
        node.iter = nodes.Filter(node.iter, "counted", [], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes), "concatenated", [], [], None, None, lineno=node.lineno)

    def visit_NSRef(self, node: nodes.NSRef) -> nodes.Node:  # noqa: N802
        if node.attr.startswith("_"):
            raise jinja2.TemplateSyntaxError(
                f"namespace attribute {node.attr!r} starts with an underscore", node.lineno
            )
        return node


class _Generation(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}` marks what a model wrote; the text inside passes unchanged."""

    tags = {"generation"}

    def parse(self, parser: Any) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Environment(
    jinja2.sandbox.ImmutableSandboxedEnvironment
):  # jinja2's sandbox is adjusted by overriding, there is no other way
    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        extensions = [_Generation, jinja2.ext.loopcontrols]
        # optimized=False: constants are not folded, so that a template costs nothing while it compiles.
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=extensions, optimized=False, finalize=self._measured
        )
        self.budget = _Budget()
        self.filters: dict[str, Any] = {name: FILTERS[name] for name in ALLOWED_FILTERS}
        self.filters |= {"tojson": self._tojson, "counted": self._counted, "concatenated": self._concatenated}
        self.filters |= {"join": self._join, "replace": _replace, "string": self._string}
        self.globals = {
            "namespace": _namespace,
            "range": self._range,
            "dict": dict,
            "raise_exception": _raise_exception,
            "strftime_now": _strftime_now,
        }

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        return _Bounds().visit(super()._parse(source, name, filename))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str) and attr not in STRING_METHODS:
            return False
        if isinstance(obj, bytes | type | int | float):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Any:
        # jinja2 wraps str.format before it asks is_safe_attribute, and a wrapped "{:>1000000000}" still allocates.
        if super().wrap_str_format(value) is not None:
            raise jinja2.exceptions.SecurityError("str.format is not allowed here")
        return None

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: B902, N805 (as jinja2)
        __self.budget.spend(1)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str) and getattr(__obj, "__name__", "") in ("replace", "join"):
            __obj = {"replace": _replace, "join": lambda s, items: __self._join(items, s)}[__obj.__name__]
            args = (owner, *args)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" or (operator == "%" and isinstance(left, str | bytes)):
            raise jinja2.exceptions.SecurityError(f"operator {operator!r} is not allowed here")
        if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
            _check_length(len(left) + len(right))
        if operator == "*":
            for sequence, count in ((left, right), (right, left)):
                if hasattr(sequence, "__len__") and isinstance(count, int):
                    _check_length(len(sequence) * max(count, 0))
        result = super().call_binop(context, operator, left, right)
        if isinstance(result, int) and abs(result) >= MAX_NUMBER:
            raise jinja2.TemplateRuntimeError("number beyond 64 bits")
        return result

    def _counted(self, items: Iterable[Any]) -> Any:
        if isinstance(items, jinja2.Undefined):
            return items  # iterating it raises or is empty, as Jinja decides
        if isinstance(items, Mapping):
            items = list(items)
        elif not hasattr(items, "__len__"):
            items = self._drained(items)
        self.budget.spend(len(items))  # type: ignore[arg-type]
        return items

    def _drained(self, items: Iterable[Any]) -> list[Any]:
        kept = []
        for item in items:
            self.budget.spend(1)
            kept.append(item)
        return kept

    def _range(self, *args: int) -> range:
        numbers = range(*args)
        self.budget.spend(len(numbers))
        return numbers

    def _measured(self, value: Any) -> Any:
        """Let `value` pass if its text stays within bounds; nested lists can repeat one another without end."""
        length, stack = 0, [value]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                length += len(item)
                _check_length(length)
            elif isinstance(item, Mapping):
                self.budget.spend(len(item))
                stack.extend([*item.keys(), *item.values()])
            elif isinstance(item, list | tuple):
                self.budget.spend(len(item))
                stack.extend(item)
        return value

    def _string(self, value: Any) -> str:
        return str(self._measured(value))

    def _concatenated(self, items: list[Any]) -> str:
        return _Environment.concat([self._string(item) for item in items])

    def _join(self, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
        if attribute is not None:
            value = [item[attribute] for item in value]
        texts = [self._string(item) for item in value]
        _check_length(sum(map(len, texts)) + len(d) * len(texts))
        return str(d).join(texts)

    def _tojson(
        self,
        x: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        # Unlike Jinja's own filter this leaves <, > and & as they are: the text is for a model, not for a web page.
        if indent is not None and not 0 <= int(indent) <= 16:
            raise jinja2.TemplateRuntimeError(f"tojson indent {indent} is outside 0..16")
        self._measured(x)
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    @staticmethod
    def concat(parts: Iterable[str]) -> str:  # jinja2 joins the bodies of macros and set blocks with it
        parts = list(parts)
        _check_length(sum(map(len, parts)))
        return "".join(parts)


def _check_length(length: int) -> None:
    if length > MAX_OUTPUT_CHARS:
        raise jinja2.TemplateRuntimeError(f"a value longer than {MAX_OUTPUT_CHARS}")


def _replace(s: Any, old: str, new: str, count: int = -1) -> str:
    s, old, new = str(s), str(old), str(new)
    _check_length(len(s) + s.count(old) * len(new))
    return s.replace(old, new, -1 if count is None else count)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(f"the template refused the messages: {message}")


def _strftime_now(pattern: str) -> str:
    if len(pattern) > 100:
        raise jinja2.TemplateRuntimeError("strftime_now pattern is longer than 100 characters")
    return datetime.datetime.now().strftime(pattern)


def _namespace(**values: Any) -> jinja2.utils.Namespace:
    if any(name.startswith("_") for name in values):
        raise jinja2.exceptions.SecurityError(f"namespace attributes {sorted(values)} may not start with an underscore")
    return jinja2.utils.Namespace(**values)
