"""Absolute Zero on scripted players: who is asked what, what it is worth, what is kept."""

import dataclasses
import json
import subprocess
import sys

import jsonl
import pytest
from processes import PATIENCE, ROOT, kill_after
from scripted import Scripted, world
from tiny_runs import WORLD

from spicejax.games.absolute_zero import game as absolute_zero
from spicejax.games.absolute_zero.game import AbsoluteZeroConfig
from spicejax.generate.layout import Buckets
from spicejax.score.sandbox import Sandbox

CFG = AbsoluteZeroConfig(
    batch=2, attempts=2, references=1, inputs=4, seeds=0, style="nano", proposer_max_new=20, solver_max_new=20
)
IDENTITY = ["def f(x):\n    return x+0", ["1"], ["1"], ""]
FORMS = {"ask output": ["x*3 | 5", "x/0 | 1"], "ask input": ["7", "x+1 | 4"], "ask 4": ["1 2 3 4", "5"]}


def propose(prompt, row):
    """In turn what is valid and what is not; see FORMS."""
    return next(replies for end, replies in FORMS.items() if prompt.endswith(end))[row % 2]


def solve(prompt, row):
    right = {"x*3 | 5 = ?": "15", "x+1 | ? = 5": "4", "1 = 1\n2 = 2\n?": "x"}.get(prompt, "1")
    return "no box" if row % 4 == 3 else f"\\boxed{{{right if row % 2 == 0 else 99}}}"


RUN = Sandbox(accept=True).run


def play(cfg=CFG, state=None, proposer=propose, solver=solve, **more):
    players = {"proposer": Scripted(proposer), "solver": Scripted(solver)}
    return absolute_zero.play(world(players, programs=RUN, **more), range(cfg.items), cfg, state), players


def test_rewards_buffers_and_who_is_asked_what():
    played, players = play()
    assert [text for text, _ in players["proposer"].asked] == [
        *["x+0 | 1 = 1\nask output"] * 2, *["x+0 | 1 = 1\nask input"] * 2, *["x+0\nask 4"] * 2,
    ], "the function that all begin with is the only example"  # fmt: skip
    by_role = {}
    for episode in played.lessons:
        by_role.setdefault(episode.role, []).append(episode.reward)
    assert by_role["propose_deduction"] == [0.5, -0.5], "solved once of twice; 1 / 0 does not run"
    assert by_role["propose_abduction"] == [-1.0, 0.5], "no form; solved once of twice"
    assert by_role["propose_induction"] == [0.5, -0.5], "one input cannot be shown and judged by"
    # what is new, then what is older: of each kind two where there are two
    assert by_role["solve_deduction"] == [1.0, -0.5] and len(by_role["solve_abduction"]) == 2
    assert len({episode.group for episode in played.lessons}) == len(played.lessons)
    assert json.loads(json.dumps(played.state)) == {
        "deduction": [IDENTITY, ["def f(x):\n    return x*3", ["5"], ["15"], ""]],
        "abduction": [IDENTITY, ["def f(x):\n    return x+1", ["4"], ["5"], ""]],
        "induction": [["def f(x):\n    return x+0", ["1", "2", "3", "4"], ["1", "2", "3", "4"], ""]],
    }
    assert played.metrics["proposer/valid"] == 0.5 and played.metrics["proposer/deduction_pass_rate"] == 0.5
    assert {k: v for k, v in played.metrics.items() if k.startswith(("rejected/", "buffer/"))} == {
        "rejected/form": 1, "rejected/does_not_run": 1, "rejected/one_input": 1,
        "buffer/deduction": 2, "buffer/abduction": 2, "buffer/induction": 1,
    }  # fmt: skip
    assert [row.get("rejected") for row in played.rows] == [None, "does_not_run", "form", None, None, "one_input"]
    assert played.rows[0]["said"] == ["15", "99"] and played.rows[0]["correct"] == [True, False]


def test_what_is_always_or_never_solved():
    for solver in (lambda *_: "\\boxed{99}", lambda prompt, row: solve(prompt, 0)):
        played, _ = play(solver=solver)
        assert [e.reward for e in played.lessons if e.role == "propose_deduction"] == [0.0, -0.5]
        played, _ = play(dataclasses.replace(CFG, extreme_reward=-0.5), solver=solver)
        assert [e.reward for e in played.lessons if e.role == "propose_deduction"] == [-0.5, -0.5]


def test_a_reply_of_another_form_earns_least():
    played, _ = play(solver=lambda *_: "no box")
    assert {e.reward for e in played.lessons if e.role.startswith("solve")} == {-1.0}


def test_buffers_grow_from_seeds_and_stay_within_bounds():
    played, players = play(dataclasses.replace(CFG, seeds=2, capacity=2))
    asked = [text for text, _ in players["proposer"].asked]
    assert len(asked) == 12 and {"x*3 | 5 = 15\nask output", "x+0 | 1 = 1\nask output"} >= set(asked[6:8])
    assert all(text.endswith("ask 4") for text in asked[4:6]), "inductions when the others are there"
    many = play(dataclasses.replace(CFG, seeds=8))[1]["proposer"].asked[16:24]
    assert {text.partition("\n")[0] for text, _ in many} > {"x*3"}, "of programs that were proposed"
    assert [len(buffer) for buffer in played.state.values()] == [2, 2, 2], "the oldest stay"
    assert [row.get("seed") for row in played.rows] == [True] * 6 + [None] * 6
    assert all("reward" not in row for row in played.rows[:6]) and len(played.lessons) == 6 + 6
    again, players = play(dataclasses.replace(CFG, seeds=2), played.state, iteration=1)
    assert len(players["proposer"].asked) == 6, "seeds are asked for once"


def test_a_request_that_does_not_fit_has_fewer_examples():
    long = ["def f(x):\n    return " + "+".join("x" * 40), ["1"], ["40"], ""]
    state = {"deduction": [IDENTITY, *[long] * 9], "abduction": [IDENTITY], "induction": []}
    narrow = {"proposer": Scripted(propose, buckets=Buckets((60,), 8)), "solver": Scripted(solve)}
    absolute_zero.play(world(narrow, programs=RUN), range(6), CFG, state)
    asked = {text for text, _ in narrow["proposer"].asked}
    assert all(len(text) <= 60 for text in asked) and "ask output" in asked


def test_kinds_that_are_left_out():
    played, _ = play(dataclasses.replace(CFG, kinds=("induction", "abduction"), seeds=1))
    assert {e.role.partition("_")[2] for e in played.lessons} == {"induction", "abduction"}


def test_demand():
    by_role = {ask.role: ask for ask in CFG.game.demand(dataclasses.replace(CFG, seeds=3))}
    assert (by_role["seeds"].prompts, by_role["seeds"].once, by_role["proposals"].prompts) == (6, True, 6)
    assert (by_role["induction_seeds"].prompts, by_role["induction_seeds"].once) == (3, True)
    assert (by_role["attempts"].samples, by_role["attempts"].trained, by_role["attempts"].programs) == (2, 0, "sandbox")
    learnt = {role for role, ask in by_role.items() if ask.trained}
    assert learnt == {f"{role}_{kind}" for role in ("propose", "solve") for kind in absolute_zero.KINDS}
    assert {by_role[role].estimator for role in learnt} == {"whiten"}, "each role and kind by itself"
    assert "seeds" not in {ask.role for ask in CFG.game.demand(CFG)} and CFG.game.exam(CFG).role == "solver"


@pytest.mark.parametrize("change, said", [
    ({"kinds": ()}, "absolutezero.kinds"), ({"kinds": ("guess",)}, "absolutezero.kinds"),
    ({"kinds": ("induction",)}, "induction is about programs of the others"),
    ({"inputs": 1}, "absolutezero.inputs"), ({"batch": 0}, "absolutezero.batch"), ({"seeds": -1}, "absolutezero.seeds"),
])  # fmt: skip
def test_errors_name_the_field(change, said):
    with pytest.raises(ValueError, match=said):
        dataclasses.replace(CFG, **change)


TINY = WORLD | {
    "nano.architecture.vocab_size": "304", "absolutezero.batch": "4", "absolutezero.attempts": "2",
    "absolutezero.seeds": "8", "eval.every": "0", "iterations": "4", "learner.row_length": "128",
}  # fmt: skip


@pytest.mark.slow
def test_killed_it_goes_on_with_its_buffers(cache, tmp_path):
    words = [sys.executable, ROOT / "launch" / "tpu_run.py", "--config=absolute_zero_nano", f"nano.cache={cache}"]
    words += [f"{key}={value}" for key, value in TINY.items()]
    kill_after([*words, f"--workdir={tmp_path / 'killed'}"], tmp_path / "killed" / "metrics.jsonl", 2)
    for name in ("killed", "whole"):
        done = subprocess.run([*words, f"--workdir={tmp_path / name}"], capture_output=True, timeout=PATIENCE, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-3000:]
    killed, whole = (jsonl.read(tmp_path / name / "tasks.jsonl") for name in ("killed", "whole"))
    assert killed == whole and any("rejected" not in row for row in whole), "or nothing is compared"
    times = ("time/", "compile/")
    rows = [[{k: v for k, v in row.items() if not k.startswith(times)}
             for row in jsonl.read(tmp_path / name / "metrics.jsonl")] for name in ("killed", "whole")]  # fmt: skip
    assert rows[0] == rows[1] and rows[0][-1]["learner/grad_norm"] > 0
