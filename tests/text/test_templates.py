"""Tests of compiled chat templates: what transformers renders, private names refused, one error for all causes."""

import datetime
import json
from pathlib import Path

import pytest

from spicejax.text.chat import Chat
from spicejax.text.templates import compiled

REFUSED = {
    "class walk": "{{ ''.__class__.__mro__ }}",
    "builtins": "{{ cycler.__init__.__globals__.os.popen('id') }}",
    "format walk": "{{ '{0.__class__.__mro__}'.format(messages) }}",
    "mutation": "{{ messages.append(1) }}",
    "include": "{% include '/etc/passwd' %}",
    "endless macro": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "number": "{{ 1 // 0 }}",
    "json": "{{ missing | tojson }}",
}
MESSAGES = [{"role": "a"}, {"role": "b"}]
WRITTEN = [
    ("{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{{ loop.last }}{% endfor %}", "0bFalse1aTrue"),
    ("{{ '<b>' | tojson }}{{ {'é': 1} | tojson }}", '"<b>"{"é": 1}'),
    ("{{ d | tojson(indent=1) }}{{ 'é' | tojson(ensure_ascii=true) }}", '{\n "x": 1,\n "y": 2\n}"\\u00e9"'),
    ("{% generation %}{{ messages[0].role }}{% set x = 1 %}{% endgeneration %}{{ x }}", "a"),
    ("{% for m in messages %}{% generation %}{{ m.role }}\n{% endgeneration %}{% endfor %}", "a\nb\n"),
    ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
    ("  {%- if true %}\n  {% if true %}\nyes\n  {% endif %}\n  {%- endif %}", "yes\n"),
]


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_what_the_sandbox_refuses_and_what_fails_is_a_value_error(source: str) -> None:
    with pytest.raises(ValueError, match="chat template"):
        compiled(source)({"messages": [{"role": "user", "content": "x"}]})


def test_errors_name_their_cause() -> None:
    with pytest.raises(ValueError, match="chat template failed: .*roles must alternate"):
        compiled("{{ raise_exception('roles must alternate') }}")({})
    with pytest.raises(ValueError, match="does not compile: TemplateSyntaxError"):
        compiled("{% for %}")
    for deep in ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{% for i in [1] %}" * 200 + "{% endfor %}" * 200):
        with pytest.raises(ValueError, match="does not compile"):
            compiled(deep)


@pytest.mark.parametrize(("source", "expected"), WRITTEN)
def test_templates_write_what_transformers_writes(source: str, expected: str) -> None:
    assert compiled(source)({"messages": MESSAGES, "d": {"x": 1, "y": 2}}) == expected
    utilities = pytest.importorskip("transformers.utils.chat_template_utils")
    (text,), _ = utilities.render_jinja_template([MESSAGES], chat_template=source, d={"x": 1, "y": 2})
    assert text == expected


@pytest.mark.parametrize("family", ["qwen3", "smollm2"])
def test_real_templates_write_what_transformers_writes(shared_data: Path, family: str) -> None:
    utilities = pytest.importorskip("transformers.utils.chat_template_utils")
    config = json.loads((shared_data / "tokenizers" / family / "tokenizer_config.json").read_text(encoding="utf-8"))
    ours = compiled(config["chat_template"])
    tool = {"type": "function", "function": {"name": "f", "description": "<é>", "parameters": {"type": "object"}}}
    call = {"name": "f", "arguments": {"x": [1, "<"]}}
    question, answer = (
        {"role": "user", "content": "a?"},
        {"role": "assistant", "content": "b", "reasoning_content": "r"},
    )
    used = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "3"}]
    chats = [[question], [{"role": "system", "content": "s"}, question, answer, question], [question, *used, answer]]
    for messages in chats:
        for more in ({}, {"enable_thinking": False}, {"tools": [tool]}):
            for opens in (True, False):
                (text,), _ = utilities.render_jinja_template(
                    [messages], chat_template=config["chat_template"], add_generation_prompt=opens, **more
                )
                variables = {"tools": None, "documents": None, "messages": messages, "add_generation_prompt": opens}
                assert ours(variables | more) == text


def test_a_template_writes_the_date_it_is_given() -> None:
    """Llama 3.2's way to it."""
    source = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}26 Jul 2024{% endif %}"
    user = [{"role": "user", "content": "a"}]
    for day, written in ((datetime.date(2026, 2, 3), "03 Feb 2026"), (datetime.date(2025, 12, 31), "31 Dec 2025")):
        assert Chat(source, []).pieces(user, {}, day) == [written]
    assert Chat(source, []).dated and not Chat("a", []).dated


def test_the_time_stays_that_of_the_first_question() -> None:
    clock = compiled("{{ strftime_now('%H:%M:%S.%f') }}")
    assert clock({}) == clock({}) == compiled("{{ strftime_now('%H:%M:%S.%f') }}")({})
