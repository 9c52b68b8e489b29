"""A round of AceSearcher on the nano world: what it plays, how it is evaluated, what may be asked of its policy."""

import functools
import json

from tiny_runs import WORLD, rows

from spicejax import commands, configs
from spicejax.run import chain

ask = functools.partial(commands.run, "ask")
TINY = WORLD | {
    "nano.documents": "200", "buckets.rows": "24", "acesearcher.questions": "4", "iterations": "1", "eval.every": "0",
}  # fmt: skip


def test_a_round_tells_what_it_played_and_is_evaluated_by_plans(cache, tmp_path, capsys):
    """A model this small has hardly a right answer, so hardly a pair."""
    words = [f"{key}={value}" for key, value in TINY.items()] + [f"nano.cache={cache}"]
    stages = chain.override(configs.stages("acesearcher_nano")[1:2], words)
    summary = chain.run(stages, tmp_path / "run")
    assert (summary["name"], summary["iterations"]) == ("acesearcher_nano_round", 1)
    told = rows(tmp_path / "run" / "tasks.jsonl")
    assert len(told) == 4 and all(len(row["plans"]) == 3 for row in told)
    plans = [plan for row in told for plan in row["plans"]]
    assert all(("rejected" in plan) != ("rewards" in plan) for plan in plans)
    first = rows(tmp_path / "run" / "evaluations.jsonl")
    assert [row["iteration"] for row in first] == [0, 1] and "eval/accuracy/facts_2" in first[0]
    assert ask([f"--model={tmp_path / 'run'}", "--question=home of bako?", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert reply["question"] == "home of bako?" and reply["steps"][0]["plan"], "it is planned first"
    assert ask([f"--model={tmp_path / 'run'}", "--question=home of bako?"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("Answer: ")
    about = [f"--model={tmp_path / 'run'}", "--question=home of bako?", "--json"]
    assert ask([*about, "--context=home of bako is dafe.", "acesearcher.kind=document"]) == 0
    reply = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert not any(step.get("shown") for step in reply["steps"]), "the text is there: nothing is looked up"
    assert ask([*about, "acesearcher.kind=claim"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"][0]["plan"]
    assert ask([f"--model={tmp_path / 'run'}", f"--question={'home of ' * 200}bako?"]) == 2
    assert "question 1 makes a prompt of more than 56 tokens" in capsys.readouterr().err
