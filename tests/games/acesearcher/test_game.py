"""AceSearcher on a scripted policy: what is asked when, what it is worth, what is paired, how it is examined."""

import dataclasses
import re

import pytest
import scripted
from scripted import Scripted

from spicejax.data.questions import Item
from spicejax.evaluation.scores import held_out
from spicejax.games.acesearcher import game as acesearcher
from spicejax.games.acesearcher.game import AceSearcherConfig
from spicejax.generate.layout import Buckets
from spicejax.score.sandbox import Sandbox
from spicejax.score.verifiers import Verifier
from spicejax.types import Episode, Passage, Preference, Task

CFG = AceSearcherConfig(questions=2, plans=2, solutions=2, request="nano", found=2, total=2)
FACTS = {
    "friend of Ada": "friend of Ada is Bo.",
    "home of Bo": "home of Bo is Oslo.",
    "home of Ada": "home of Ada is Rome.",
}
TASK = Task("home of friend of Ada?", "Oslo", "String", "a")
GOOD, BAD = "### friend of Ada?\n### home of #1?", "### home of Ada?"


def find(queries, k):
    found.calls.append(list(queries))
    return [[Passage(q, q, FACTS[q.rstrip("?")])][:k] if q.rstrip("?") in FACTS else [] for q in queries]


class found:
    calls: list = []


def policy(text, row):
    """Even rows plan well; row 1 of the paths reads a passage wrongly."""
    if text.startswith("plan: "):
        return GOOD if row % 2 == 0 else BAD
    if "Answer: " in text:
        return f"<answer>{text.split('Answer: ')[-1].split(chr(10))[0]}</answer>"
    if row % 2**24 == 1 and "friend" in text:
        return "Ada"
    return text.split(" is ")[1].split(".")[0] if " is " in text else "nobody"


def world(player):
    found.calls.clear()
    players, programs = {"decomposer": player, "solver": player}, Sandbox(accept=True).run
    return scripted.world(players, Verifier().check, find=find, programs=programs)


def wide(script):
    """A player whose prompts are whole requests."""
    return Scripted(script, buckets=Buckets((4000,), 8))


def play(cfg=CFG, tasks=(TASK,), script=policy):
    player = Scripted(script)
    return acesearcher.play(world(player), list(tasks), cfg), player


def named(lessons):
    return [(lesson.role, lesson.chosen.text, lesson.rejected.text) for lesson in lessons]


def test_paths_are_walked_wave_by_wave_and_paired():
    played, player = play()
    assert player.asked == [
        ("plan: home of friend of Ada?", 0),
        # first sub-questions of both plans, each one prompt with as many samples as it has paths
        ("friend of Ada is Bo.\nfriend of Ada?", 0),
        ("home of Ada is Rome.\nhome of Ada?", 2),
        # the second of the longer plan, whose paths have parted
        ("home of Bo is Oslo.\nhome of Bo?", 2**24),
        ("home of Ada is Rome.\nhome of Ada?", 2**24 + 1),
        ("#1: friend of Ada?\nAnswer: Bo\n#2: home of #1?\nAnswer: Oslo\nhome of friend of Ada?", 0),
        ("#1: friend of Ada?\nAnswer: Ada\n#2: home of #1?\nAnswer: Rome\nhome of friend of Ada?", 1),
        ("#1: home of Ada?\nAnswer: Rome\nhome of friend of Ada?", 2),
        ("#1: home of Ada?\nAnswer: Rome\nhome of friend of Ada?", 3),
    ]
    assert found.calls == [["friend of Ada?", "home of Ada?"], ["home of Bo?", "home of Ada?"]], (
        "each query once a wave"
    )
    assert named(played.lessons) == [
        ("decomposer", GOOD, BAD),
        ("subquestion", "Bo", "Ada"),
        ("subquestion", "Oslo", "Rome"),
        ("solver", "<answer>Oslo</answer>", "<answer>Rome</answer>"),
    ]
    assert [lesson.group for lesson in played.lessons] == [0, 1, 1, 2], "a group has one role"
    (record,) = played.rows
    assert record["reward"] == 0.25 and [plan["rewards"] for plan in record["plans"]] == [[1.0, 0.0], [0.0, 0.0]]
    assert record["plans"][0]["transcript"][1] == {"asked": "home of Bo?", "wrote": "Oslo", "shown": ["home of Bo?"]}
    metrics = played.metrics
    assert (metrics["decomposer/valid"], metrics["solver/formed"], metrics["decomposer/sub_questions"]) == (1, 1, 1.5)
    assert metrics["decomposer/referring"] == 0.5
    assert metrics["subquestion/lessons"] == 2 and metrics["solver/pass_rate"] == 0.25
    assert played.progress["lessons"] == len(played.lessons) > metrics["decomposer/lessons"]
    assert all(isinstance(lesson, Preference) for lesson in played.lessons)


def test_a_plan_with_a_bad_reference_is_followed_where_it_may_be():
    def script(text, row):
        return "### home of #2?" if "plan" in text else policy(text, row)

    refused, _ = play(script=script)
    assert refused.metrics["rejected/bad_reference"] == CFG.plans and not refused.metrics["decomposer/valid"]
    followed, player = play(dataclasses.replace(CFG, bad_references="as_written"), script=script)
    assert followed.metrics["decomposer/valid"] == 1 and not followed.metrics["decomposer/referring"]
    assert any("home of #2?" in text for text, _ in player.asked[1:])


def test_tags_of_final_answers_are_no_part_of_a_sub_answer():
    """Nor does a closing tag without an opening one take in what stands before it."""

    def stray(text, row):
        found = policy(text, row)
        return found if "plan" in text else f"{found} </answer>"

    (plain,), (tagged,) = (play(script=script)[0].rows for script in (policy, stray))
    assert [plan["rewards"] for plan in plain["plans"]] == [plan["rewards"] for plan in tagged["plans"]]
    assert tagged["plans"][0]["transcript"][1]["asked"] == "home of Bo?"


@pytest.mark.parametrize(
    ("script", "counted"),
    [
        (lambda text, row: "home of Ada?", "rejected/no_subquestion"),
        (lambda text, row: GOOD + "…", "rejected/cut_off"),
        (lambda text, row: GOOD if "plan" in text else " ", "fault/sub_answer"),
        (lambda text, row: GOOD if "plan" in text else "Bo…", "fault/sub_answer"),
        (lambda text, row: "### a?\n### b?" if "plan" in text else " " if "a?" in text else "Bo", "fault/sub_answer"),
        (lambda text, row: GOOD if "plan" in text else "Oslo", "fault/final_answer"),
        (
            lambda text, row: GOOD if "plan" in text else "<answer> </answer>" if "Answer" in text else "Bo",
            "fault/final_answer",
        ),
    ],
)
def test_what_breaks_off_is_counted_and_worth_nothing(script, counted):
    played, _ = play(script=script)
    assert played.metrics[counted] > 0 and played.lessons == []
    assert played.metrics["solver/pass_rate"] == 0


def test_a_plan_that_is_none_loses_against_one_that_helps():
    played, _ = play(script=lambda text, row: "no plan" if "plan" in text and row % 2 else policy(text, row))
    assert named(played.lessons)[0] == ("decomposer", GOOD, "no plan")
    assert played.metrics["decomposer/valid"] == 0.5 and played.metrics["solver/pass_rate"] == pytest.approx(1 / 3)


def test_good_paths_alone_as_examples():
    best, _ = play(dataclasses.replace(CFG, learn="best"))
    assert [(e.role, e.rollout.text) for e in best.lessons] == [
        ("decomposer", GOOD), ("subquestion", "Bo"), ("subquestion", "Oslo"), ("solver", "<answer>Oslo</answer>")
    ]  # fmt: skip
    assert all(isinstance(e, Episode) and e.reward == 1 for e in best.lessons)
    nothing, _ = play(dataclasses.replace(CFG, learn="best"), [dataclasses.replace(TASK, answer="Bonn")])
    assert nothing.lessons == []
    right, _ = play(dataclasses.replace(CFG, learn="right"), [dataclasses.replace(TASK, answer="Rome")])
    assert sorted(e.role for e in right.lessons) == sorted(
        ["decomposer"] * 2 + ["subquestion"] * 2 + ["subquestion"] * 2 + ["solver"] * 3
    ), "two plans, one of them with two paths, the other with one"


def test_what_is_right_counts_although_its_words_repeat():
    """The code's F1 of "Duran Duran" is one half, so that the sum is below 3."""
    played, _ = play(
        dataclasses.replace(CFG, learn="right", reward="summed"),
        [dataclasses.replace(TASK, answer="Duran Duran")],
        lambda text, row: policy(text.replace("Oslo", "Duran Duran"), row),
    )
    assert [e.rollout.text for e in played.lessons if e.role == "solver"] == ["<answer>Duran Duran</answer>"]


def test_a_pass_rate_is_a_share_of_a_right_answers_score():
    played, _ = play(dataclasses.replace(CFG, reward="summed"), [TASK])
    assert (played.rows[0]["reward"], played.metrics["solver/pass_rate"]) == (0.75, 0.25)


def test_questions_too_long_to_be_planned_are_left_out():
    played, player = play(tasks=[dataclasses.replace(TASK, question="x" * 600), TASK])
    assert played.metrics["decomposer/too_long"] == 1 and len(played.rows) == 1
    assert player.asked[0] == ("plan: home of friend of Ada?", 2), "rows are those of its place"


def test_passages_are_cut_to_what_fits():
    long = [Passage(str(k), "", f"{k} is {'x' * 150}.") for k in range(5)]
    player = Scripted(policy)
    here = dataclasses.replace(world(player), find=lambda queries, k: [long[:k] for _ in queries])
    played = acesearcher.play(here, [TASK], dataclasses.replace(CFG, found=5))
    assert 0 < played.metrics["solver/passages_left_out"] < 1
    asked = next(text for text, _ in player.asked if "friend of Ada?" in text and " is " in text)
    assert asked.count(" is ") == 3 and len(asked) <= 500


@pytest.mark.parametrize(("how", "accuracy", "calls"), [("plan", 1.0, 4), ("direct", 0.0, 1)])
def test_held_out_questions_are_planned_or_answered_at_once(how, accuracy, calls):
    player = Scripted(policy if how == "plan" else lambda text, row: "<answer>Rome</answer>")
    cfg = dataclasses.replace(CFG, exam=how)
    got, _ = held_out(world(player), [Item(TASK)], AceSearcherConfig.game.exam(cfg))
    assert got["eval/accuracy"] == accuracy and got["eval/truncated"] == 0
    assert len(player.asked) == calls


def test_demand_names_who_sits_where():
    asks = {ask.role: ask for ask in acesearcher.demand(CFG)}
    assert asks["decomposer"].trained == 2 and asks["subquestion"].samples == asks["subquestion"].group == 2
    assert asks["later"].trained == 0 and asks["solver"].prompts == 8
    assert all(ask.off_policy for ask in asks.values())
    assert not any(a.off_policy for a in acesearcher.demand(dataclasses.replace(CFG, sampled_by="policy")))


def test_the_whole_prompts_name_question_passages_and_steps():
    cfg = dataclasses.replace(CFG, request="full")
    for kind in ("qa", "claim"):
        player = wide(lambda text, row: GOOD if "###" in text else "<answer>Oslo</answer>")
        acesearcher.play(world(player), [TASK], dataclasses.replace(cfg, kind=kind))
        texts = [text for text, _ in player.asked]
        assert all(TASK.question in text for text in (texts[0], texts[-1]))
        assert "[1] friend of Ada?\nfriend of Ada is Bo." in texts[1]
        assert "#2: home of #1?\nAnswer: " in texts[-1] and ("[1]" in texts[-1]) == (kind == "qa")
        ((reply,),) = AceSearcherConfig.game.exam(dataclasses.replace(cfg, kind=kind)).respond(
            world(player), [TASK], samples=1, first_row=[0], stream=0, max_new=8
        )
        assert bool(reply.transcript[-1]["shown"]) == (kind == "qa"), "a claim's last prompt shows no passages"


def test_document_questions_bring_their_text_and_look_nothing_up():
    told = "friend of Ada is Bo. home of Bo is Oslo."

    def reads(text, row):
        if "###" in text:
            return GOOD if row % 2 == 0 else BAD
        if "Answer: " in text:
            return f"<answer>{text.split('Answer: ')[-1].split(chr(10))[0]}</answer>"
        return "Oslo" if "home of Bo?" in text else "Bo"

    player = wide(reads)
    cfg = dataclasses.replace(CFG, request="full", kind="document")
    played = acesearcher.play(world(player), [dataclasses.replace(TASK, context=told)], cfg)
    assert found.calls == [] and all(told in text for text, _ in player.asked)
    assert played.metrics["solver/pass_rate"] == 0.5, "every path of the good plan"
    assert not any(ask.finds for ask in acesearcher.demand(cfg))
    exam = AceSearcherConfig.game.exam(cfg)
    assert held_out(world(player), [Item(dataclasses.replace(TASK, context=told))], exam)[0]["eval/accuracy"] == 1.0
    long = dataclasses.replace(TASK, context="x" * 5000)
    assert acesearcher.play(world(player), [long], cfg).metrics["decomposer/too_long"] == 1


PROGRAM = "```python\ndef solution():\n    return 30 - 12.5\n```"
MIXED = (
    TASK,
    Task("Bo lives in Rome.", "No", "Boolean", "c", kind="claim"),
    Task("How much is left?", "18", "Integer", "d", context="Ada had 30 and gave 12.", kind="document"),
    Task("How much is left?", "17.50", "Float", "e", context="Ada had 30 and gave 12.50.", kind="program"),
)


def everything(text, row):
    if "Write one of them on each line" in text:
        return "### How much had Ada?"
    if "Write a Python function" in text:
        return PROGRAM if row % 2 == 0 else PROGRAM.replace("12.5", "x")
    if "between <answer>" in text:
        right = "No" if "claim" in text else "18" if "gave 12" in text else "Oslo"
        return f"<answer>{right if row % 2 == 0 else 'Ada'}</answer>"
    return "30"


def test_a_round_mixes_kinds_of_questions():
    """Each in its own words, with passages or its own text; a program is run and worth what its value is."""
    cfg = AceSearcherConfig(questions=4, plans=1, solutions=2, found=2, total=2, programs="accept")
    player = wide(everything)
    played = acesearcher.play(world(player), list(MIXED), cfg)
    assert found.calls == [["How much had Ada?"]], "asked once for the two that look up"
    assert [record["plans"][0]["rewards"] for record in played.rows] == [[1.0, 0.0]] * 4
    assert played.rows[3]["said"][0] == "17.5" and played.rows[3]["correct"] == [True, False]
    assert played.metrics["fault/program_error"] == 1
    finals = [lesson.chosen.text for lesson in played.lessons if lesson.role == "solver"]
    assert finals == ["<answer>Oslo</answer>", "<answer>No</answer>", "<answer>18</answer>", PROGRAM]
    texts = [text for text, _ in player.asked]
    assert sum("Split it into smaller claims" in text for text in texts) == 1
    assert sum("gave 12.50." in text for text in texts) == 4, "plan, sub-question, two programs"


def test_sub_questions_of_a_program_may_be_programs_too():
    """The value of one is the answer that the next is asked with; what gives none breaks the path off, by name."""

    def programming(text, row):
        if "Write one of them on each line" in text:
            return "### How much had Ada?\n### How much is left of #1?"
        if "left of" in text or "Q2" in text:
            return f"```python\nans = {'17.5' if row % 2 == 0 else 'x'}\n```"
        return "```python\ndef solution():\n    return 30\n```"

    cfg = AceSearcherConfig(questions=1, plans=1, solutions=2, programs="accept", kind="program", steps="programs")
    player = wide(programming)
    played = acesearcher.play(world(player), [MIXED[3]], cfg)
    assert [text for text, _ in player.asked if "How much is left of 30?" in text]
    assert played.metrics["fault/program_error"] == 1
    assert played.rows[0]["plans"][0]["faults"] == ["", "program_error"]
    by_role = {ask.role: ask.max_new for ask in acesearcher.demand(cfg)}
    assert by_role["subquestion"] == by_role["later"] == cfg.final_max_new


@pytest.mark.parametrize("how", ["plan", "direct"])
def test_a_long_text_is_shown_in_parts(how):
    """What the question asks for when it is planned and answered, what a sub-question asks for in between."""
    pytest.importorskip("bm25s")
    text = "\n\n".join(["Ada gave 12 away.", "Bo is a cat.", "Ada had 30 pears.", *["Nothing else."] * 9])
    task = Task("How much is left of what Ada gave?", "18", "Integer", "d", context=text, kind="document")
    player = wide(everything)
    exam = AceSearcherConfig.game.exam(AceSearcherConfig(kind="document", exam=how, parts=1))
    exam.respond(world(player), [task], samples=1, first_row=[0], stream=0, max_new=64)
    shown = [next(part for part in text.split("\n\n") if part in asked) for asked, _ in player.asked]
    assert shown == (["Ada gave 12 away.", "Ada had 30 pears.", "Ada gave 12 away."] if how == "plan" else shown[:1])
    assert not any("Bo is a cat." in asked for asked, _ in player.asked)


@pytest.mark.parametrize("how", ["plan", "direct"])
def test_each_kind_is_examined_in_its_own_way(how):
    """By plans and at once: looked up or not, a claim in Yes and No, a program by its value."""
    cfg = AceSearcherConfig(exam=how, found=2, total=2, programs="accept")
    player = wide(everything)
    exam = AceSearcherConfig.game.exam(cfg)
    replies = exam.respond(world(player), MIXED, samples=1, first_row=range(0, 8, 2), stream=0, max_new=64)
    assert [reply.answer for (reply,) in replies] == ["Oslo", "No", "18", "17.5"]
    assert [reply.searches for (reply,) in replies] == [1, 1, 0, 0]
    asked = [turns[-1]["content"] for turns in map(exam.ask, MIXED)]
    if how == "direct":  # before anything was looked up
        assert asked[2:] == [text for text, _ in player.asked][2:] and not any("###" in text for text in asked)
    else:
        assert asked == [text for text, _ in player.asked][:4]
    assert len(player.asked) == (4 if how == "direct" else 12)


def test_an_examined_path_tells_the_passages_it_was_shown():
    exam = AceSearcherConfig.game.exam(CFG)
    player = Scripted(policy)
    ((reply,),) = exam.respond(world(player), [TASK], samples=1, first_row=[0], stream=0, max_new=8)
    plan, first, second, final = reply.transcript
    assert plan == {"plan": GOOD}
    assert first["shown"] == [{"id": "friend of Ada?", "title": "friend of Ada?", "text": "friend of Ada is Bo."}]
    assert second["asked"] == "home of Bo?" and reply.searches == 2
    assert final["shown"] == [] and " is " not in player.asked[-1][0], "the nano style ends with the steps alone"


@pytest.mark.parametrize("task, more, fault", [
    (MIXED[3], {}, "kind='program' runs what the model writes; give acesearcher.programs=sandbox"),
    (TASK, {"kind": "document"}, ""),
    (MIXED[1], {"kind": "document"}, "kind='claim' looks up passages; give acesearcher.kind=qa"),
    (dataclasses.replace(TASK, kind="poem"), {}, "kind='poem' is unknown; choose from qa, claim, document, program"),
])  # fmt: skip
def test_a_kind_that_cannot_be_asked_is_said_when_items_are_read(task, more, fault):
    cfg = AceSearcherConfig(**more)
    if not fault:
        assert acesearcher.prompts_of(cfg, task)
        return
    with pytest.raises(ValueError, match=re.escape(fault)):
        acesearcher.prompts_of(cfg, task)
