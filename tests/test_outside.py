"""Code of a user's own: found by name in any process, and refused in one line where it is not."""

import functools
import os
import sys

import pytest
from processes import python

from spicejax import outside


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_rules.py"
    path.write_text(
        "import dataclasses\n"
        "@dataclasses.dataclass(frozen=True)\nclass Mine:\n    words: 'int' = 1  # of an answer\n"
        "def close(text, task):\n    return text == task.answer\n"
        "def outer():\n    def inner(text, task):\n        return True\n    return inner\n"
        "short = lambda text, task: True\n"
    )
    return path


def test_a_function_and_a_class_of_a_file_are_found_by_their_names(file):
    module = outside.run_file(str(file))
    for value in (module.close, module.Mine):
        name = outside.name_of(value, "verifier")
        assert name == f"{file}:{value.__name__}" and outside.name_of(name, "verifier") == name
        assert outside.load(name, "verifier") is value
    assert python(f"from spicejax import outside; print(outside.load({name!r}, 'game')(3).words)") == "3"
    assert os.listdir(file.parent) == ["my_rules.py"]


def test_a_file_is_run_anew_and_one_that_fails_leaves_the_old_one(file):
    old = outside.run_file(str(file))
    file.write_text(file.read_text().replace("= 1", "= 2"))  # of the same size, in the same second
    assert outside.run_file(str(file)).Mine().words == 2 and old.Mine().words == 1
    file.write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        outside.run_file(str(file))
    assert outside.load(f"{file}:Mine", "game")().words == 2


def test_a_function_of_a_module_is_found_on_the_path(file, monkeypatch):
    monkeypatch.syspath_prepend(file.parent)
    assert outside.name_of(outside.load("my_rules:close", "verifier"), "verifier") == "my_rules:close"


@pytest.mark.parametrize("name", ["inner", "<lambda>", "partial", "print_of_main"])
def test_what_no_other_process_finds_is_refused_with_the_fix(file, name, monkeypatch):
    module = outside.run_file(str(file))
    main = type(os)("__main__")
    exec("def print_of_main(): pass", vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    values = {
        "inner": module.outer(),
        "<lambda>": module.short,
        "partial": functools.partial(module.close),
        "print_of_main": main.print_of_main,
    }
    with pytest.raises(ValueError, match=f"verifier: no other process finds .*{name}.*; define it with def or class"):
        outside.name_of(values[name], "verifier")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("close", "verifier=close: give module:name, or FILE.py:name"),
        ("a:", "verifier=a:: give module:name"),
        ("nowhere:close", "no module nowhere; install it, add its folder to PYTHONPATH, or give FILE.py:close"),
        ("spicejax.nowhere:close", "no module spicejax.nowhere; install"),
        ("{folder}/no.py:close", "there is no file .*no.py"),
        ("{folder}/my_rules.py:closed", "my_rules.py has no closed; did you mean close?"),
        ("{folder}/broken.py:close", "broken.py:close: No module named 'not_there'"),
        ("{folder}/raises.py:close", "raises.py:close: ZeroDivisionError: division by zero"),
        ("{folder}/syntax.py:close", "syntax.py:close: SyntaxError: "),
    ],
)
def test_what_is_not_there_is_named_with_the_fix(file, name, said):
    for other, text in (("broken", "import not_there"), ("raises", "1 / 0"), ("syntax", "def")):
        (file.parent / f"{other}.py").write_text(text)
    with pytest.raises(ValueError, match=said.replace("?", r"\?")) as error:
        outside.load(name.format(folder=file.parent), "verifier")
    assert "\n" not in str(error.value)
