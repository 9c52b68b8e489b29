"""spicejax transcripts: real questions over passages become what a warm start, a game and its evaluation read."""

import functools

import jsonl
import pytest

from spicejax import commands
from spicejax.data.examples import load_examples
from spicejax.data.questions import load_items
from spicejax.score import answers as spelling

write = functools.partial(commands.run, "transcripts")
WORDS = ["--config=acesearcher_qwen0p5b", "--words=60"]


@pytest.fixture(scope="module")
def folder(shared_data, tmp_path_factory):
    out = tmp_path_factory.mktemp("out") / "hops"
    data = [str(shared_data / f"multihop_qa/{name}.jsonl") for name in ("musique_train_100", "hotpotqa_train_96")]
    assert write([f"--data={','.join(data)}", *WORDS, "--held_out=0.65", f"--out={out}"]) == 0
    return out


def test_a_run_and_its_evaluation_read_what_is_written(folder):
    assert len(load_examples(folder / "transcripts.jsonl")) == 150
    assert len(jsonl.read(folder / "passages.jsonl")) == 2844
    assert len(load_items(str(folder / "questions.jsonl"))) == 113
    assert len(load_items(str(folder / "held_out.jsonl"))) == 201


def test_nothing_of_the_held_out_questions_is_trained_on(folder):
    held_out = [spelling.tokens(row["question"]).strip() for row in jsonl.read(folder / "held_out.jsonl")]
    assert not set(held_out) & {spelling.tokens(row["question"]) for row in jsonl.read(folder / "questions.jsonl")}
    for example in load_examples(folder / "transcripts.jsonl"):
        texts = [example.reply, *(text for _, text in example.prompt), *(wrote for wrote, _ in example.turns)]
        written = spelling.tokens(" ".join(texts))
        assert not [question for question in held_out if question in written]


def test_a_question_with_a_held_out_step_is_not_trained_on(tmp_path):
    """Every row has the same second step, so that one of them held out leaves nothing of the others."""
    rows = [
        {
            "id": f"r{n}",
            "question": f"Where was the director of film {n} born?",
            "answer": "Oslo",
            "passages": [
                {"title": f"Film {n}", "text": f"Film {n} was directed by Ann Lee."},
                {"title": "Ann Lee", "text": "Ann Lee was born in Oslo."},
            ],
            "supporting_titles": [f"Film {n}", "Ann Lee"],
            "decomposition": [
                {"question": f"Film {n} >> director", "answer": "Ann Lee"},
                {"question": "Where was #1 born?", "answer": "Oslo"},
            ],
        }
        for n in range(6)
    ]
    jsonl.write(tmp_path / "rows.jsonl", rows)
    words = [f"--data={tmp_path / 'rows.jsonl'}", "--config=acesearcher_qwen0p5b"]
    assert write([*words, "--held_out=0.5", f"--out={tmp_path / 'half'}"]) == 2
    assert not (tmp_path / "half").exists()
    assert write([*words, "--held_out=0", f"--out={tmp_path / 'a/all'}"]) == 0
    assert len(jsonl.read(tmp_path / "a/all/questions.jsonl")) == 7  # the shared step once


def test_an_answer_stands_in_what_it_is_taken_from(folder):
    for row in jsonl.read(folder / "transcripts.jsonl"):
        request, reply = row["messages"][0]["content"], row["messages"][-1]["content"]
        said = reply.removeprefix("<answer>").removesuffix("</answer>")
        if row["source"] != "plan" and said.lower() not in ("yes", "no"):
            assert spelling.phrase(said) in spelling.tokens(request), (row["source"], said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--config=rlvr_nano"], "has no run of AceSearcher"),
        (["--config=acesearcher_nano"], "with requests in words"),
        (["--config=acesearcher_qwen0p5b", "--held_out=1"], "--held_out=1: give a share from 0 to below 1"),
        (["--config=acesearcher_qwen0p5b", "--words=-1"], "--words=-1: give the longest passage"),
        (["--config=acesearcher_qwen0p5b", "--seed=-1"], "--seed=-1: give 0 or more"),
        (["--config=acesearcher_qwen0p5b"], "x.jsonl is no file; give a jsonl of questions with passages"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_line(tmp_path, capsys, given, said):
    assert write([f"--data={tmp_path / 'x.jsonl'}", f"--out={tmp_path / 'o'}", *given]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "o").exists()


def test_rows_that_teach_a_game_nothing_are_refused(shared_data, tmp_path, capsys):
    words = [f"--data={shared_data / 'multihop_qa/hotpotqa_train_96.jsonl'}", f"--out={tmp_path / 'o'}"]
    assert write([*words, "--config=acesearcher_qwen0p5b"]) == 2
    assert "none of 96 rows teaches acesearcher_qwen0p5b" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
