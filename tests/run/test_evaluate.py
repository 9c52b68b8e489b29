"""A saved policy asked on several devices: neither their number nor their order changes what it says."""

import json
import textwrap

import jsonl
from processes import python, simulated
from tiny_runs import rows, saved

from spicejax import commands
from spicejax.run.host.screen import Screen

ASKED = ("Who?", "What is it, and where?")
# On a v5e:2x4 the devices of a run's meshes stand in this order, not in that of jax.devices().
SNAKE = [0, 1, 2, 3, 7, 6, 5, 4]
# argv: order of the devices, commands with their words. Prints exit codes.
PROGRAM = textwrap.dedent(
    """
    import json, sys
    import jax
    from spicejax import commands, sharding
    order, asked = map(json.loads, sys.argv[1:])
    made = sharding.make_meshes
    sharding.make_meshes = lambda learner, sampler, devices: made(learner, sampler, [devices[k] for k in order])
    assert len(jax.devices()) == 8
    print("codes", [commands.run(name, words) for name, words in asked])
    """
)


def asking(run, out, *changes):
    """Commands that load a saved policy, and their words."""
    jsonl.write(out / "questions.jsonl", ({"question": q, "answer": "a"} for q in ASKED))
    return [
        ("generate", [f"--run={run}", f"--prompt={ASKED[0]}", "--max_new=8", "--json"]),
        ("ask", [f"--model={run}", *(f"--question={text}" for text in ASKED), "--json", *changes]),
        ("evaluate", [f"--model={run}", f"--questions={out}/questions.jsonl", f"--out={out}", "--json", *changes]),
        ("export", [f"--run={run}", f"--out={out}/exported"]),
    ]


def told(said, out):
    """What was answered: token ids, texts, records of the evaluation."""
    generated, *answers = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert len(generated["token_ids"]) > 1 and len(answers) == len(ASKED) + 1
    return generated["token_ids"], answers[:-1], rows(out / "items.jsonl")


def test_a_policy_says_the_same_on_eight_devices(tmp_path, capsys, monkeypatch):
    run, one, eight = (tmp_path / name for name in ("run", "one", "eight"))
    saved(run)
    one.mkdir()
    eight.mkdir()
    seen = []
    monkeypatch.setattr(Screen, "tell", lambda self, what, seconds=None: seen.append(what))
    monkeypatch.setattr(Screen, "count", lambda self, done, whole: seen.append((done, whole)))
    assert [commands.run(name, words) for name, words in asking(run, one)] == [0] * 4
    assert {"loading", (1, 1)} <= set(seen), "of generate too"
    for stage in ("answering", "evaluating"):  # a screen hears of every stage, and how far it is
        heard = seen[seen.index(stage) :]
        assert {(0, len(ASKED)), (len(ASKED), len(ASKED))} <= {what for what in heard if isinstance(what, tuple)}
    expected = told(capsys.readouterr().out, one)
    words = [json.dumps(SNAKE), json.dumps(asking(run, eight, "mesh.data=2", "mesh.fsdp=4", "sampler_mesh.data=8"))]
    said = python(PROGRAM, *words, XLA_FLAGS=simulated(8))
    assert "codes [0, 0, 0, 0]" in said and told(said, eight) == expected
    weights = "exported/model.safetensors"
    assert (one / weights).read_bytes() == (eight / weights).read_bytes()


def test_a_result_beside_another(tmp_path, capsys):
    run, first, second = (tmp_path / name for name in ("run", "first", "second"))
    saved(run)
    first.mkdir()
    name, words = asking(run, first)[2]
    assert commands.run(name, words) == 0
    capsys.readouterr()
    again = [word for word in words if not word.startswith("--out")] + [f"--out={second}", f"--versus={first}"]
    assert commands.run(name, again) == 0
    compared = json.loads(capsys.readouterr().out)["versus"]["scores"]["exact"]
    assert compared == {"mean": 0, "low": 0, "high": 0, "gained": 0, "lost": 0, "p": 1}
    assert json.loads((second / "scores.json").read_text())["versus"]["results"] == str(first)
    assert commands.run(name, [f"--results={second}", f"--versus={first}"]) == 0
    assert f"less {first}:" in capsys.readouterr().out
    jsonl.write(tmp_path / "q.jsonl", [{"question": "another", "answer": "a"}])
    for refused, why in (
        ([f"--model={run}", f"--questions={tmp_path}/q.jsonl", f"--versus={first}"], "share 0 of 1 and"),
        ([f"--results={first}", "--questions=q.jsonl", "seed=1"], "asks nothing again; leave --questions, seed=1 out"),
        ([f"--results={first}", "--most=1", "--judge=self"], "asks nothing again; leave --most, --judge out"),
        ([f"--model={run}"], "--questions=QUESTIONS.jsonl is missing"),
        ([*words, f"--versus={first}", "--rollouts=2"], "compares answers; leave --rollouts and --examples out"),
        ([f"--questions={tmp_path}/q.jsonl"], "one of the arguments --model --results is required"),
    ):
        assert commands.run(name, refused) == 2
        assert why in capsys.readouterr().err
