"""Which part of a reply is its program, in the forms that models write, and what it says; or why it says nothing."""

import pytest
from scripted import written

from spicejax.games.acesearcher import programs
from spicejax.score.sandbox import Ran, Sandbox

FUNCTION = "def solution():\n    return 6 * 7\n"
FORMS = [
    f"So:\n```python\n{FUNCTION}```", f"```python\n{FUNCTION}```\nOutput:\n```\n41\n```",
    f"```python\n{FUNCTION}```\n```output\n41\n```\nThat is 41.",
    f"```python\n{FUNCTION}```\nUse it so:\n```python\nprint(solution() + 1)\n```",
    f"```python\nimport math\n```\nfirst, then\n```python\n{FUNCTION}```",
    f"```\nans = 41\n```\nNo:\n```\n{FUNCTION}```",
    f"```python3\n{FUNCTION}```", f"```Python\n{FUNCTION}```", f"```py3.11 title=x\n{FUNCTION}```",
    f"```tool_code\n{FUNCTION}```", f"``` python \n{FUNCTION}```", f"Here is it: ```python\n{FUNCTION}```",
    f"```python\n{FUNCTION}", "1. So:\n   ```python\n   def solution():\n       return 6 * 7\n   ```",
    f"```python\n{FUNCTION}```\nOutput:\n```\n41\n```".replace("\n", "\r\n"), "```python\nans = 6 * 7\n```",
    "```\nans = 6 * 7\n```\nOutput:\n```\n41\n```", "```python\nx = 6\nanswer = x * 7\nprint('It is', answer)\n```",
    "```python\nresult = 42.0\n```", "```python\nsolution = 42\n```", "```python\nprint('so:')\nprint(6 * 7)\n\n```",
    "```python\ndef main():\n    print(6 * 7)\n\nif __name__ == '__main__':\n    main()\n```",
    "```python\ndef solution():\n    print(6 * 7)\n```",
    f"```python\nimport sys\n{FUNCTION}if __name__ == '__main__':\n    sys.exit(solution())\n```",
    f"```python\n{FUNCTION}if __name__ == '__main__':\n    print(input())\n```",
    "```python\nimport sys\ndef main():\n    print(6 * 7)\nmain()\nsys.exit()\n```",
]  # fmt: skip


def test_forms_that_models_write_say_what_they_calculate():
    for text, ran in zip(
        FORMS, Sandbox(accept=True).run([programs.program_of(written(t)) for t in FORMS]), strict=True
    ):
        said, fault = programs.answer(ran)
        assert said in ("42", "42.0") and not fault, (text, ran)


@pytest.mark.parametrize(
    "text", ["42", "```\n42\n```", "```json\n{}\n```", "```python\n```", "Call `x = 1`, then ```y = 2``` and\nrest", ""]
)
def test_what_is_no_program_is_none(text):
    assert programs.program_of(written(text)) == ""
    assert programs.program_of(written(f"```python\n{FUNCTION}```", "length")) == "", "cut off"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("import numpy\ndef solution():\n    return 1", "program_import"),
        ("def solution():\n    return 1 / 0", "program_error"),
        ("def solution():\n    return {}", "program_form"),
        ("def solution():\n    return ' '", "program_nothing"),
        ("x = 1", "program_nothing"),
    ],
)
def test_why_a_program_says_nothing_has_a_name(text, fault):
    (ran,) = Sandbox(accept=True).run([text])
    assert programs.answer(ran) == (None, fault)


@pytest.mark.parametrize(("value", "said"), [(True, "Yes"), ([1, [None, "b"]], "1, b"), ([], None), (2.5, "2.5")])
def test_values_as_answers(value, said):
    assert programs.answer(Ran("value", value))[0] == said
