"""Tests of the template sandbox: what real templates use works, hostile ones are refused before they cost anything."""

import datetime

import pytest

from spicejax.text import template_sandbox
from spicejax.text.template_sandbox import Template

NESTED_LISTS = "{% set ns = namespace(x=['x']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}"
HOSTILE = {
    "class walk": "{{ ''.__class__.__mro__ }}",
    "builtins": "{{ cycler.__init__.__globals__.os.popen('id') }}",
    "format walk": "{{ '{0.__class__}'.format(messages) }}",
    "mutation": "{{ messages.append(1) }}",
    "namespace underscore": "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
    "namespace keyword": "{% set ns = namespace(_x=1) %}",
    "import": "{% import 'os' as os %}",
    "include": "{% include '/etc/passwd' %}",
    "self": "{{ self.__init__.__globals__ }}",
    "attr filter": "{{ '' | attr('__class__') }}",
    "map attribute": "{{ ([''] | map(attribute='__class__') | first).__mro__ }}",
    "power": "{{ 10 ** 1000000000 }}",
    "big product": "{% set ns = namespace(n=9) %}{% for i in range(90) %}{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "long string": "{{ 'x' * 1000000000 }}",
    "long list": "{{ [1] * 1000000000 }}",
    "percent width": "{{ '%1000000000d' % 1 }}",
    "format width": "{{ '{:>1000000000}'.format(1) }}",
    "center": "{{ 'x'.center(1000000000) }}",
    "ljust": "{{ 'x'.ljust(1000000000) }}",
    "format filter": "{{ '%1000000000d' | format(1) }}",
    "indent filter": "{{ 'x' | indent(1000000000, true) }}",
    "json indent": "{{ [1] | tojson(indent=1000000000) }}",
    "doubling +": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "doubling ~": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "doubling set": "{% set ns = namespace(x='x') %}{% for i in range(60) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}"
    "{% set ns.x = y %}{% endfor %}",
    "doubling lists": NESTED_LISTS + "{{ ns.x }}",
    "json of lists": NESTED_LISTS + "{{ ns.x | tojson }}",
    "string of lists": NESTED_LISTS + "{{ ns.x | string }}",
    "squaring replace": "{% set ns = namespace(x='x' * 2000) %}{% for i in range(9) %}"
    "{% set ns.x = ns.x.replace('x', ns.x) %}{% endfor %}",
    "squaring join": "{% set ns = namespace(x='x' * 2000) %}"
    "{% for i in range(9) %}{% set ns.x = ns.x.join(ns.x) %}{% endfor %}",
    "long loop": "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
    "long output": "{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}",
    "nested strings": "{% set s = 'x' * 3000 %}{% for a in s %}{% for b in s %}"
    "{% for c in s %}{% endfor %}{% endfor %}{% endfor %}",
    "macro tree": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "endless macro": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "date pattern": "{{ strftime_now('%Y' * 1000) }}",
    "syntax": "{% for %}",
    "missing": "{{ messages[0].missing.more }}",
    "refusal": "{{ raise_exception('roles must alternate') }}",
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_template_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="chat template"):
        Template(source).render({"messages": [{"role": "user", "content": "x"}]})


def test_too_large_template_is_refused_before_it_is_compiled() -> None:
    with pytest.raises(ValueError, match="262144"):
        Template("x" * (template_sandbox.MAX_TEMPLATE_BYTES + 1))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(ValueError, match="compile"):
        Template("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}")
    with pytest.raises(ValueError, match="compile"):
        Template("{% for i in [1] %}" * 200 + "{% endfor %}" * 200)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }}{{ loop.last }}{% endfor %}", "0bFalse1aTrue"),
        ("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}", "x=1;y=2;xy"),
        ("{% for k, v in d | dictsort %}{{ k ~ v }}{% endfor %}", "x1y2"),
        ("{{ messages | map(attribute='role') | join(', ') }}", "a, b"),
        ("{{ messages | selectattr('role', 'equalto', 'b') | list | length }}", "1"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
        ("{{ '<b>' | tojson }}{{ {'é': 1} | tojson }}", '"<b>"{"é": 1}'),
        ("{{ ' a</think>b '.split('</think>')[-1].strip() }}", "b"),
        ("{{ 'aXa'.replace('X', '-') }}{{ 'aXa' | replace('X', '+') }}{{ ','.join(['1', '2']) }}", "a-aa+a1,2"),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f('q') }}", "[q]"),
        ("{% generation %}{{ messages[0].role }}{% endgeneration %}", "a"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% for m in messages if m.role == 'b' %}{{ loop.length }}{{ m.role }}{% endfor %}", "1b"),
        ("{% for m in none_here | default([]) %}x{% else %}none{% endfor %}", "none"),
        ("{{ messages[0]['role'] is string }}{{ x is defined }}{{ messages is mapping }}", "TrueFalseFalse"),
        ("  {%- if true %}\n  {% if true %}\nyes\n  {% endif %}\n  {%- endif %}", "yes\n"),
        ("{{ 2 * 3 }}{{ 'ab' * 2 }}{{ 7 % 4 }}{{ '%' }}", "6abab3%"),
    ],
)
def test_what_templates_use(source: str, expected: str) -> None:
    variables = {"messages": [{"role": "a"}, {"role": "b"}], "d": {"x": 1, "y": 2}}
    assert Template(source).render(variables) == expected


def test_date_function() -> None:
    before = datetime.datetime.now().strftime("%Y")
    assert Template("{{ strftime_now('%Y') }}").render({}) in (before, datetime.datetime.now().strftime("%Y"))


def test_each_rendering_has_its_own_budget() -> None:
    template = Template("{% for i in range(90000) %}{% endfor %}ok")
    assert [template.render({}) for _ in range(12)] == ["ok"] * 12
