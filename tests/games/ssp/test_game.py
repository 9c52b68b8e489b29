"""Search Self-Play on scripted players: what is asked, what it is worth, what takes the place of invalid questions."""

import dataclasses
import json

import pytest
import scripted
from scripted import typist

from spicejax.games.ssp import game as ssp
from spicejax.games.ssp.game import SspConfig
from spicejax.games.ssp.proposals import Rules
from spicejax.generate.search import Limits
from spicejax.score import answers
from spicejax.types import Answer, Passage

LIMITS = Limits(3, 60, 200, 400)
CFG = SspConfig(
    answers=3, solver_samples=2, request="nano", rules=Rules(min_words=2, min_searches=1),
    verify=False, strategy="dummy", proposer_limits=LIMITS, solver_limits=LIMITS,
)  # fmt: skip
KNOWN = {"R": "Rome", "B": "Bonn"}
ANSWERS = [Answer("Rome", searches=1), Answer("Oslo", searches=1), Answer("Bonn", searches=1)]


def find(queries, k):
    return [[Passage(query, query, f"{query} lies on a hill.")][:k] for query in queries]


def proposer(text, row):
    """Searches for the answer, then asks for its home; for Oslo it only speaks."""
    if "Oslo" in text:
        return "I know nothing"
    name = text.split()[1]
    return f"<question>home of {name[0]}?</question>" if "</information>" in text else f"<search>{name}</search>"


def solver(text, row):
    """Even rows know all, odd ones nothing."""
    return f"<answer>{KNOWN[text.split('?')[0][-1]] if row % 2 == 0 else 'no'}</answer>"


def verifier(text, row):
    return "<answer>Rome</answer>" if text.rstrip().endswith("R?") else "well"


def world(iteration=0, **players):
    seats = {"proposer": typist(proposer), "solver": typist(solver), "verifier": typist(verifier)} | players
    return scripted.world(seats, iteration=iteration, find=find)


def of(played, role):
    return [(e.group, e.reward) for e in played.lessons if e.role == role]


def test_rewards_groups_and_records():
    played = ssp.play(world(), ANSWERS, CFG)
    assert of(played, "proposer") == [(0, 0.5), (1, 0.0), (2, 0.5)]
    assert of(played, "solver") == [(3, 1.0), (3, 0.0), (5, 1.0), (5, 0.0)]
    metrics = played.metrics
    assert metrics["proposer/valid"] == pytest.approx(2 / 3) and metrics["rejected/no_question"] == 1
    assert metrics["solver/pass_rate"] == 0.5 and metrics["solver/slots_filled"] == pytest.approx(2 / 3)
    assert played.state is None and played.totals["questions_valid"] == 2
    first, second, _ = played.rows
    assert (first["question"], first["rejected"]) == ("home of R?", "")
    assert first["said"][0] == "Rome" and first["correct"] == [True, False]
    assert first["transcript"][0] == {"wrote": "<search>Rome</search>", "query": "Rome", "shown": ["Rome"]}
    assert second["rejected"] == "no_question" and "said" not in second
    json.dumps(played.rows)


def test_the_other_reward_and_a_penalty():
    cfg = dataclasses.replace(CFG, proposer_reward="bounded", invalid_reward=-0.1)
    assert of(ssp.play(world(), ANSWERS, cfg), "proposer") == [(0, 1.0), (1, -0.1), (2, 1.0)]


def test_what_the_evidence_does_not_answer_is_rejected_and_noise_comes_from_other_rows():
    players = {"verifier": typist(verifier)}
    played = ssp.play(world(**players), ANSWERS, dataclasses.replace(CFG, verify=True, noise=4))
    assert [r["rejected"] for r in played.rows] == ["", "no_question", "not_verified"]
    for text, _ in players["verifier"].asked:
        assert "Rome lies on a hill" in text and "Bonn lies on a hill" in text and "Oslo" not in text
    alone = {"verifier": typist(verifier)}
    ssp.play(world(**alone), ANSWERS, dataclasses.replace(CFG, verify=True, noise=0))
    assert all(("Rome lies" in text) != ("Bonn lies" in text) for text, _ in alone["verifier"].asked)


def test_replay_fills_with_earlier_questions_and_resets():
    cfg = dataclasses.replace(CFG, strategy="replay", reset_every=3)
    state, replayed, sizes = None, [], []
    for iteration in range(4):
        played = ssp.play(world(iteration), ANSWERS, cfg, json.loads(json.dumps(state)))
        state = played.state
        replayed.append(played.metrics["solver/replayed"])
        sizes.append(played.metrics["pool/questions"])
    assert replayed == [0, 1, 1, 0] and sizes == [2, 4, 0, 2]
    second = ssp.play(world(1), ANSWERS, cfg, ssp.play(world(), ANSWERS, cfg).state)
    assert len(of(second, "solver")) == 6 and of(second, "proposer")[1] == (1, 0.0)
    record = second.rows[1]
    assert record["replayed"] and record["asked"] in ("home of R?", "home of B?") and record["rejected"]
    assert not {"said", "correct", "pass_rate"} & set(record), "what was answered is another question"
    replay = record["replay"]
    assert replay["answer"] == {"home of R?": "Rome", "home of B?": "Bonn"}[record["asked"]]
    assert len(replay["said"]) == len(replay["correct"]) == len(record["rewards"])
    endless = dataclasses.replace(cfg, reset_every=0)
    state = None
    for iteration in range(5):
        state = ssp.play(world(iteration), ANSWERS, endless, state).state
    assert len(state["kept"]) == 10


def late(silent, tries):
    """A Proposer who says nothing of Oslo so many times; `tries` gets the row of each try at it."""

    def script(text, row):
        if "Oslo" in text and "</information>" not in text:
            tries.append(row)
            return "I know nothing" if len(tries) <= silent else "<search>Oslo</search>"
        return "<question>home of B?</question>" if "Oslo" in text else proposer(text, row)

    return typist(script)


def test_resampling_tries_failed_answers_again_on_streams_of_their_own():
    tries = []
    cfg = dataclasses.replace(CFG, strategy="resample", tries=4)
    played = ssp.play(world(proposer=late(2, tries)), ANSWERS, cfg)
    assert tries == [1, 1, 1] and played.metrics["proposer/tries"] == pytest.approx(5 / 3)
    assert played.metrics["proposer/valid"] == 1 and len(of(played, "solver")) == 6
    tries.clear()
    played = ssp.play(world(proposer=late(2, tries)), ANSWERS, dataclasses.replace(cfg, tries=1))
    assert tries == [1, 1] and played.metrics["rejected/no_question"] == 1


def test_a_question_of_the_evaluation_is_refused_and_counted():
    examined = dataclasses.replace(world(), examined=frozenset([answers.tokens("Home of B?")]))
    played = ssp.play(examined, ANSWERS, CFG)
    assert [r["rejected"] for r in played.rows] == ["", "no_question", "held_out"]
    assert played.metrics["rejected/held_out"] == 1 and of(played, "proposer")[2] == (2, 0.0)
    asked = dataclasses.replace(CFG, rules=dataclasses.replace(CFG.rules, no_held_out=False))
    assert ssp.play(dataclasses.replace(examined), ANSWERS, asked).rows[2]["rejected"] == ""


def test_a_further_try_is_verified_among_documents_of_the_whole_batch():
    checks = typist(
        lambda text, row: f"<answer>{'Oslo' if 'Oslo' in text else 'Rome' if 'R?' in text else 'Bonn'}</answer>"
    )
    cfg = dataclasses.replace(CFG, strategy="resample", verify=True, noise=4)
    ssp.play(world(proposer=late(1, []), verifier=checks), ANSWERS, cfg)
    retried = [text for text, row in checks.asked if row == 1]
    assert retried and all("Rome lies on a hill" in text and "Bonn lies on a hill" in text for text in retried)


def test_groups_of_several_questions_for_an_answer():
    played = ssp.play(world(), ANSWERS, dataclasses.replace(CFG, proposer_samples=2))
    assert [g for g, _ in of(played, "proposer")] == [0, 0, 1, 1, 2, 2]
    assert sorted({g for g, _ in of(played, "solver")}) == [3, 4, 7, 8]


def test_no_valid_question_teaches_the_solver_nothing():
    played = ssp.play(world(proposer=typist(lambda text, row: "no")), ANSWERS, dataclasses.replace(CFG, verify=True))
    assert of(played, "solver") == [] and played.metrics["proposer/valid"] == 0
    assert {r for _, r in of(played, "proposer")} == {0.0}


def test_a_judge_is_asked_where_the_words_differ():
    """About answers alone, never where they are right by the letter or missing."""
    cfg, asked = dataclasses.replace(CFG, judged="judge", judge_max_new=64), []

    def word(text, row):
        asked.append(text)
        return "yes" if "Reference: Bonn" in text else "no"

    wide = typist(word)
    players = {"judge": dataclasses.replace(wide, buckets=dataclasses.replace(wide.buckets, prompt=(5000,)))}
    played = ssp.play(world(**players), ANSWERS, cfg)
    assert of(played, "solver") == [(3, 1.0), (3, 0.0), (5, 1.0), (5, 1.0)]
    assert len(asked) == 2 and all("Answer: no" in text for text in asked)
    assert [(ask.role, ask.max_new) for ask in ssp.demand(cfg)][1:] == [("judge", 64), ("solver", 400)]
    server = dataclasses.replace(world(), chat=lambda prompts: ["yes"] * len(prompts))
    assert [r for _, r in of(ssp.play(server, ANSWERS, cfg), "solver")] == [1.0] * 4


def test_demand_follows_who_is_trained():
    demand = SspConfig.game.demand
    proposing, checking, solving = demand(dataclasses.replace(CFG, verify=True, proposer_samples=2))
    assert (proposing.prompts, proposing.trained, proposing.estimator, proposing.turn_limits.turn) == (6, 6, "none", 60)
    assert (checking.role, checking.prompt, checking.turn_limits, checking.trained) == ("verifier", "document", None, 0)
    assert (solving.prompts, solving.samples, solving.estimator, solving.behind) == (6, 2, "mean_std", 399)
    proposing, solving = demand(dataclasses.replace(CFG, fixed="proposer"))
    assert (proposing.trained, proposing.player, solving.trained, solving.player) == (0, "initial", 3, "policy")
    _, checking, solving = demand(dataclasses.replace(CFG, fixed="solver", verify=True))
    assert (checking.player, solving.trained, solving.player) == ("initial", 0, "initial")
