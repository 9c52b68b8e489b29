"""Examples of several turns, with what was shown between them."""

import jsonl
import pytest

from spicejax.data.examples import load_examples
from spicejax.data.items import open_items

VIENNA = {"title": "Vienna", "text": "It lies on the Danube."}
TURNS = [
    {"wrote": "I look. <search>capital of Austria</search>\n", "shown": [{"text": "Vienna."}]},
    {"wrote": "<search>river in Vienna</search>", "shown": [VIENNA, VIENNA]},
    {"wrote": "So: <answer>Danube</answer>"},
]
OPTIONS = {"seed": 0, "batch_size": 1, "encode": str.split, "max_tokens": 9, "min_chars": 1}


def load(tmp_path, *rows):
    path = tmp_path / "x.jsonl"
    jsonl.write(path, rows)
    return load_examples(path)


def test_turns_are_read_with_what_was_shown(tmp_path):
    asked, prompted, chat, query = load(
        tmp_path,
        {"question": "Which river?", "turns": TURNS, "source": "own"},
        {"prompt": "Q: which?", "turns": TURNS},
        {
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"}],
            "turns": TURNS[-1:],
        },
        {"question": "Q", "turns": [{"wrote": "<think></think><answer>x</answer>"}], "tags": "query"},
    )
    assert (asked.prompt, asked.question, asked.source) == ((), "Which river?", "own")
    (first, shown), (second, behind) = asked.turns
    assert (first, second) == ("I look. <search>capital of Austria</search>", "<search>river in Vienna</search>")
    assert (
        shown == "\n\n<information>\nDoc 1 (Title: )\nVienna.\n</information>\n\n" and "Doc 2 (Title: Vienna)" in behind
    )
    assert (asked.reply, asked.ended) == ("So: <answer>Danube</answer>", False), "its closing tag ends the row"
    assert prompted.messages == [{"role": "user", "content": "Q: which?"}] and prompted.turns == asked.turns
    assert len(chat.prompt) == 2 and chat.turns == ()
    assert query.ended, "R1-Searcher's rows go on behind an answer, to the end of turn"


@pytest.mark.parametrize(("change", "told"), [
    ({"turns": []}, "turns: give a list of"),
    ({"turns": [TURNS[0]]}, "turn 1: .*the last turn asks for nothing and is shown nothing"),
    ({"turns": [TURNS[2], TURNS[2]]}, "turn 1: what ends with </search> is shown a list of passages"),
    ({"turns": [{"wrote": TURNS[1]["wrote"]}, TURNS[2]]}, "turn 1: what ends with </search>"),
    ({"turns": [TURNS[1], {"wrote": "<information>x</information>"}]}, 'turn 2 wrote <information>, .*as "shown"'),
    ({"turns": [TURNS[1] | {"shown": "Vienna"}, TURNS[2]]}, "turn 1: shown: give a list of"),
    ({"turns": [TURNS[1] | {"shown": [{"title": "x"}]}, TURNS[2]]}, "turn 1: field 'text' is missing"),
    ({"tags": "angle"}, "tags='angle': choose from search, evidence, query, nano"),
    ({"tags": ["angle"]}, "tags=.*angle.*: choose from search"),
    ({"question": ""}, 'question="": give a text'),
])  # fmt: skip
def test_turns_that_cannot_be_are_named_by_their_line(tmp_path, change, told):
    with pytest.raises(ValueError, match=r"x\.jsonl:2: " + told):
        load(tmp_path, {"prompt": "x", "completion": "y"}, {"question": "Which river?", "turns": TURNS} | change)


def test_search_results_within_a_reply_are_told(tmp_path, caplog):
    load(tmp_path, {"prompt": "x", "completion": "y"}, {"prompt": "x", "completion": "<information>y</information>"})
    assert "1 of 2 replies hold the tags of search results, the first is number 2" in caplog.text


def test_the_digest_of_plain_examples_is_that_of_saved_runs(tmp_path):
    load(tmp_path, {"prompt": "x", "completion": "y"})
    digest = open_items("examples", str(tmp_path / "x.jsonl"), **OPTIONS).digest
    assert digest == "2cfbb58c2f39c55a43338b27c288eac09fb18699a78f60223033e5f1d6e56105"
