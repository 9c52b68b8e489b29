"""The game on scripted players: who sees what, what is kept, what it is worth."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scripted import Scripted, world

from spicejax import config
from spicejax.data.questions import Item
from spicejax.evaluation.probes import probes
from spicejax.evaluation.scores import held_out
from spicejax.games.spice import game as spice
from spicejax.games.spice.game import SpiceConfig
from spicejax.score import answers
from spicejax.score.verifiers import Verifier
from spicejax.types import Document, Task

DOCUMENTS = [Document("a", "The answer here is 42 and nothing else."), Document("b", "Iron has the symbol Fe.")]
CFG = SpiceConfig(
    documents=2, group_size=4, max_attempts=16, task_type="free_form_only", answer_types=("Integer",), style="nano",
    reasoner_tasks_per_document=0, challenger_max_new=64, reasoner_max_new=16,
)  # fmt: skip


@pytest.fixture(scope="module")
def verifier():
    with Verifier() as v:
        yield v


def play(challenger, reasoner, verifier, cfg=CFG, documents=DOCUMENTS, iteration=3, examined=frozenset()):
    seats = {"challenger": Scripted(challenger), "reasoner": Scripted(reasoner)}
    played = spice.play(world(seats, verifier.check, iteration=iteration, examined=examined), documents, cfg)
    return played, seats


def question(n, answer=7):
    return f"question: what is {n} and so on?\nanswer: {answer}"


def test_rewards_groups_and_secrecy(verifier):
    def challenger(prompt, row):
        return "no idea" if row % 4 == 3 else question(row)

    def reasoner(prompt, row):
        return "\\boxed{7}" if row % 4 < 2 else "\\boxed{8}"  # half of the answers are right

    played, seats = play(challenger, reasoner, verifier)
    assert all("ask Integer" in text and ("42" in text or "Fe" in text) for text, _ in seats["challenger"].asked)
    assert all("42" not in text and "Fe" not in text for text, _ in seats["reasoner"].asked)
    challengers = [e for e in played.lessons if e.role == "challenger"]
    reasoners = [e for e in played.lessons if e.role == "reasoner"]
    assert [e.group for e in challengers] == [0] * 4 + [1] * 4
    # six valid tasks, none shares a group with a role
    assert sorted({e.group for e in reasoners}) == [2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose([e.reward for e in challengers], [1, 1, 1, -0.1] * 2)
    np.testing.assert_allclose([e.reward for e in reasoners], [1, 1, 0, 0] * 6)
    assert played.metrics["challenger/valid_fraction"] == 0.75
    assert played.metrics["reasoner/pass_rate"] == 0.5
    assert played.metrics["rejected/unparsable"] == 2
    assert [r["pass_rate"] for r in played.rows if "question" in r] == [0.5] * 6


def test_questions_of_the_evaluation_are_counted_and_refused_where_asked(verifier):
    """Two of the eight questions are the evaluation's."""
    examined = frozenset(answers.tokens(f"What is {n} and so on?") for n in (0, 17))

    def metrics_of(cfg):
        said = (lambda prompt, row: question(row)), (lambda prompt, row: "\\boxed{7}")
        return play(*said, verifier, cfg, examined=examined)[0].metrics

    metrics = metrics_of(CFG)
    assert metrics["challenger/held_out_questions"] == 0.25 and "rejected/held_out" not in metrics
    metrics = metrics_of(dataclasses.replace(CFG, validity=dataclasses.replace(CFG.validity, no_held_out=True)))
    assert metrics["rejected/held_out"] == 2 and metrics["challenger/held_out_questions"] == 0


def test_attempts_grow_until_a_task_is_valid_and_the_ratio_is_kept(verifier):
    def challenger(prompt, row):
        if "42" in prompt:
            return question(row) if row == 13 else "nothing"  # document a: valid in the third round only
        return question(row)

    played, seats = play(challenger, lambda *_: "\\boxed{1}", verifier)
    starts = [row for text, row in seats["challenger"].asked if "42" in text]
    assert starts == [0, 4, 8]  # rounds of 4, 4 and 8, one request each
    kept = [r for r in played.rows if r["document_id"] == "a" and r["kept"]]
    assert len(kept) == 4 and sum("question" in r for r in kept) == 1, "the one valid task must not be lost"
    assert sum(text.count("Fe") for text, _ in seats["challenger"].asked) == 1, "document b was solved in round one"


def test_attempts_stop_at_the_limit_and_a_hopeless_document_only_costs(verifier):
    played, seats = play(lambda *_: "nothing", lambda *_: "", verifier)
    assert len(seats["challenger"].asked) == 2 * 3  # rounds of 4, 4 and 8
    assert seats["reasoner"].asked == []
    assert {e.reward for e in played.lessons} == {-0.1}
    assert "reasoner/pass_rate" not in played.metrics
    assert played.metrics["challenger/documents_without_task"] == 2


def test_a_cut_off_question_is_invalid_even_if_it_parses(verifier):
    played, _ = play(lambda p, row: question(row) + "…", lambda *_: "", verifier)
    assert played.metrics["rejected/truncated"] == 32


def test_one_task_per_document_trains_the_reasoner(verifier):
    cfg = dataclasses.replace(CFG, reasoner_tasks_per_document=1)
    played, _ = play(lambda p, row: question(row), lambda p, row: "\\boxed{7}" * (row % 2), verifier, cfg)
    assert sum(e.role == "reasoner" for e in played.lessons) == 2 * 4
    assert sum(r["trains_reasoner"] for r in played.rows) == 2
    assert sum(e.role == "challenger" for e in played.lessons) == 2 * 4


def test_ablations(verifier):
    asks = {ask.role: ask for ask in spice.demand(dataclasses.replace(CFG, fixed_challenger=True))}
    assert (asks["challenger"].player, asks["reasoner"].player) == ("initial", "policy")
    blind, seats = play(lambda p, r: question(r), lambda *_: "", verifier, dataclasses.replace(CFG, no_corpus=True))
    assert all("42" not in text and "Fe" not in text for text, _ in seats["challenger"].asked)
    mcq = dataclasses.replace(CFG, task_type="mcq_only")
    four = "question: pick one of these?\nA) 1\nB) 2\nC) 3\nD) 4\nanswer: C"
    played, seats = play(lambda *_: four, lambda *_: "\\boxed{C}", verifier, mcq)
    assert all("ask MCQ" in text for text, _ in seats["challenger"].asked)
    assert all("D) 4" in text for text, _ in seats["reasoner"].asked)
    assert played.metrics["reasoner/pass_rate"] == 1.0


def test_the_model_may_choose_the_task_type(verifier):
    cfg = dataclasses.replace(CFG, task_type="model", style="simple")

    def challenger(prompt, row):
        if "suitable_for_mcq" in prompt:
            wanted = '"suitable_for_mcq": false, "suitable_for_free_form": true, "best_answer_type": "String"'
            return f"{{{wanted}}}" if "Fe" in prompt else "no JSON"
        return "question: Which metal is meant by all this?\nanswer: tin"

    played, seats = play(challenger, lambda *_: "\\boxed{tin}", verifier, cfg)
    assert played.metrics["challenger/task_type_unparsed"] == 0.5
    assert {r["format"] for r in played.rows if r["document_id"] == "b"} == {"String"}
    assert "task_type" not in {e.role for e in played.lessons}, "the choice is not trained"
    assert [ask.role for ask in spice.demand(cfg)] == ["task_type", "challenger", "reasoner"]


def test_everything_is_a_function_of_seed_and_iteration(verifier):
    cfg = dataclasses.replace(CFG, task_type="random", answer_types=("Integer", "String"), mcq_fraction=0.5)
    documents = DOCUMENTS * 6
    kinds = [[r["format"] for r in play(lambda *_: "x", lambda *_: "", verifier, cfg, documents, i)[0].rows]
             for i in (1, 1, 2)]  # fmt: skip
    assert kinds[0] == kinds[1] != kinds[2]


@pytest.mark.parametrize(("grounding", "kinds"), [("none", {"Integer", "String"}), ("answer", {"String"})])
def test_a_number_that_must_stand_in_the_document_is_asked_where_there_is_one(verifier, grounding, kinds):
    cfg = dataclasses.replace(CFG, answer_types=("Integer", "String"), grounding=grounding)
    rows = play(lambda *_: "x", lambda *_: "", verifier, cfg, DOCUMENTS * 8)[0].rows
    assert {row["format"] for row in rows if row["document_id"] == "b"} == kinds
    assert {row["format"] for row in rows if row["document_id"] == "a"} == {"Integer", "String"}


@pytest.mark.parametrize(
    ("valid", "group", "expected"),
    [
        ([1] * 3, 8, 3),  # fewer than the group: all of them
        ([1] * 8 + [0] * 8, 8, 4),
        ([1] + [0] * 1023, 8, 1),  # never lose the one that was found
        ([1] * 1020 + [0] * 4, 8, 8),
        ([0] * 64, 8, 0),
        ([1] * 3 + [0] * 13, 8, 2),  # 1.5 rounds half up
    ],
)
def test_subsample_keeps_the_ratio(valid, group, expected):
    valid = np.array(valid, bool)
    picked = spice.subsample(valid, group, np.random.default_rng(0))
    assert len(picked) == len(set(picked)) == min(group, len(valid))
    assert valid[picked].sum() == expected
    others = [tuple(spice.subsample(valid, group, np.random.default_rng(s))) for s in range(20)]
    assert len(valid) <= group or len(set(others)) > 1


@pytest.mark.parametrize("once", [False, True])
def test_equal_tasks_of_a_document_may_share_their_answers(verifier, once):
    def challenger(prompt, row):  # two kinds of task per document, the first of them three times
        return question(0 if row % 4 < 3 else 1)

    def reasoner(prompt, row):
        return "\\boxed{7}" if row % 4 < 2 else "\\boxed{8}"

    cfg = dataclasses.replace(CFG, answer_equal_tasks_once=once)
    played, seats = play(challenger, reasoner, verifier, cfg)
    assert len(seats["reasoner"].asked) == (4 if once else 8)
    assert [e.reward for e in played.lessons if e.role == "challenger"] == [1.0] * 8, "each copy has its reward"
    assert sum(e.role == "reasoner" for e in played.lessons) == (4 if once else 8) * 4
    assert [r["pass_rate"] for r in played.rows] == [0.5] * 8
    assert sum(r["trains_reasoner"] for r in played.rows) == (4 if once else 8)


@pytest.fixture
def own_prompts(tmp_path):
    """A folder with two of the user's own prompts."""
    (tmp_path / "free_form.txt").write_text("MINE: ask {answer_type} of {document}\n")
    (tmp_path / "reasoner.txt").write_text("{question} MINE, into \\boxed{}\n")
    return tmp_path


def reply(prompt, row):
    return '{"question": "How many are there in all?", "answer": 7}' if prompt.startswith("MINE: ask") else "\\boxed{7}"


def test_ones_own_prompts_are_asked_in_play_in_probes_and_in_exams(verifier, own_prompts):
    cfg = dataclasses.replace(CFG, style="full", prompts=str(own_prompts))
    played, seats = play(reply, reply, verifier, cfg)
    assert {text for text, _ in seats["challenger"].asked} == {f"MINE: ask Integer of {d.text}" for d in DOCUMENTS}
    assert {text for text, _ in seats["reasoner"].asked} == {"How many are there in all? MINE, into \\boxed{}"}
    player: Any = Scripted(reply)
    alone = world({"reasoner": player}, verifier.check)
    held_out(alone, [Item(Task("Why?", "7", "Integer"), "")], spice.exam(cfg))
    probes(alone, DOCUMENTS, spice.SpiceConfig.game, cfg, current=player, initial=player, others={}, group=2)
    assert [text for text, _ in player.asked][0] == "Why? MINE, into \\boxed{}"
    assert all("MINE" in text for text, _ in player.asked)


def test_ones_own_prompts_are_part_of_the_configuration(own_prompts):
    cfg = config.override(SpiceConfig(), {"prompts": str(own_prompts)})
    saved = config.to_json(cfg)
    recipe = SpiceConfig(templates={"reasoner": "{question}?", "mcq": "MINE {document}"})
    assert config.override(recipe, {"prompts": str(own_prompts)}).templates == {
        "mcq": "MINE {document}",
        **cfg.templates,
    }
    assert config.override(recipe, {"templates.reasoner": "{question}!"}).templates["reasoner"] == "{question}!"
    (own_prompts / "reasoner.txt").write_text("Other words for {question}")
    other = config.override(SpiceConfig(), {"prompts": str(own_prompts)})
    assert [path for path, *_ in config.diff(saved, config.to_json(other))] == ["templates.reasoner"]
    moved = own_prompts.rename(own_prompts.parent / "moved")
    (moved / "reasoner.txt").write_text(cfg.templates["reasoner"])
    assert SpiceConfig(prompts=str(moved)) == cfg == config.from_json(SpiceConfig, saved), "texts count, not places"


def test_prompts_that_cannot_be_used_are_refused_before_anything_starts(own_prompts):
    (own_prompts / "free_form.txt").write_text("Ask about {documents}.")
    with pytest.raises(ValueError, match="spice.prompts=.*: free_form.txt: expected {answer_type}") as refused:
        config.parse(SpiceConfig(), [f"prompts={own_prompts}"])
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="spice.templates: mqc.txt: .* did you mean mcq.txt"):
        SpiceConfig(templates={"mqc": ""})
