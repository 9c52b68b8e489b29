"""spicejax transcripts: real questions over passages become what a warm start, a game and its evaluation read."""

import functools

import jsonl
import pytest

from spicejax import commands
from spicejax.data.answers import load_answers
from spicejax.data.examples import load_examples
from spicejax.data.questions import load_items
from spicejax.score import answers as spelling

write = functools.partial(commands.run, "transcripts")
WORDS = ["--config=ssp_qwen0p5b", "--words=60"]


@pytest.fixture(scope="module")
def folder(shared_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "hops"
    data = [str(shared_data / f"multihop_qa/{name}.jsonl") for name in ("musique_train_100", "hotpotqa_train_96")]
    assert write([f"--data={','.join(data)}", *WORDS, "--held_out=0.65", f"--out={out}"]) == 0
    return out


def test_a_run_and_its_evaluation_read_what_is_written(folder):
    assert len(load_examples(folder / "transcripts.jsonl")) == 319
    assert len(load_answers(folder / "answers.jsonl")) == 81
    assert len(jsonl.read(folder / "passages.jsonl")) == 2844
    assert (len(load_items(str(folder / "questions.jsonl"))), len(load_items(str(folder / "held_out.jsonl")))) == (
        114,
        201,
    )


def test_nothing_of_the_held_out_questions_is_trained_on(folder):
    held_out = {spelling.tokens(row["question"]) for row in jsonl.read(folder / "held_out.jsonl")}
    assert not held_out & {spelling.tokens(row["question"]) for row in jsonl.read(folder / "questions.jsonl")}
    texts = [
        spelling.tokens(e.reply + " ".join(t for _, t in e.prompt)) for e in load_examples(folder / "transcripts.jsonl")
    ]
    assert not [question for question in held_out if any(question.strip() in text for text in texts)]


def test_transcripts_lead_to_what_they_end_with(folder):
    """A Solver's and a verifier's answer stands in what they were shown, a Proposer's in none of its question."""
    for row in jsonl.read(folder / "transcripts.jsonl"):
        shown = " ".join(f"{p['title']} {p['text']}" for turn in row.get("turns", []) for p in turn.get("shown", []))
        if row["source"] == "proposer":
            answer = row["messages"][0]["content"].rpartition("Answer: ")[2]
            assert spelling.phrase(answer) not in spelling.tokens(row["turns"][-1]["wrote"])
            assert spelling.phrase(answer) in spelling.tokens(shown)
            queries = [turn["wrote"] for turn in row["turns"][:-1]]
            assert len(set(queries)) == len(queries) == int(row["messages"][0]["content"].partition("searches: ")[2][0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--config=spice_nano", "--held_out=0.5"], "gives no run of Search Self-Play, AceSearcher or SPICE"),
        (["--config=ssp_nano", "--held_out=1"], "--held_out=1: give a share from 0 to below 1"),
        (["--config=ssp_nano", "--words=-1"], "--words=-1: give the longest passage"),
    ],
)
def test_a_wrong_option_is_refused_in_a_line(tmp_path, capsys, given, said):
    assert write(["--data=x.jsonl", f"--out={tmp_path / 'o'}", *given]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "o").exists()
