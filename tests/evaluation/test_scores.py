"""Scores of a set of answers: what stands in each, their means and intervals."""

import jsonl
import numpy as np

from spicejax.data.questions import Item, load_items
from spicejax.evaluation import scores
from spicejax.games.game import Exam, Reply
from spicejax.games.world import World
from spicejax.generate.sampler import SamplerConfig
from spicejax.types import Rollout, Task

SAID = ["\\boxed{the U.S.}", "I think it is Paris \\boxed{\\text{Paris}, in France}", "no idea"]


def exam(read) -> Exam:
    def ask(task):
        return [{"role": "user", "content": task.question}]

    def respond(world, tasks, **sampling):
        found = world.ask("reasoner", [ask(task) for task in tasks], **sampling)
        return [[Reply(read(r), r) for r in rows] for rows in found]

    return Exam("reasoner", ask, respond, 8)


class Scripted:
    def render(self, messages):
        return messages

    def respond(self, prompts, **_):
        none = np.zeros(0, np.float32)
        return [[Rollout(none, none, none, none, none, text, "stop")] for text in SAID]


def test_each_answer_gets_every_score_and_the_means_their_intervals():
    class Verdict:
        correct, how = True, "text"

    world = World({"reasoner": Scripted()}, lambda pairs: [Verdict] * len(pairs), SamplerConfig(), 0, 0)
    right = ["U.S.", "Paris", "Rome"]
    items = [Item(Task(f"q{k}", answer, "String", str(k), aliases=("us",))) for k, answer in enumerate(right)]
    records = scores.examine(world, items, exam(lambda r: r.text.partition("\\boxed{")[2][:-1] or None))
    assert [r["prediction"] for r in records] == ["the U.S.", "\\text{Paris}, in France", None]
    assert [r["scores"]["exact"] for r in records] == [1, 0, 0]
    assert [r["scores"]["f1"] for r in records] == [1, 0.5, 0]
    assert [r["scores"]["cover_words"] for r in records] == [1, 1, 0]
    found = scores.means(records)
    assert found["exact"] == {"mean": 1 / 3, "low": 0.0, "high": 1.0}
    assert found["answered"]["mean"] == 2 / 3 and found["verifier"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert "| exact | 0.333 | 0.000 to 1.000 |" in scores.table(found, 3)


def test_the_interval_is_that_of_the_mean():
    record = {"prediction": "", "finish_reason": "stop"}
    found = scores.means([record | {"scores": {"exact": float(k % 4 == 0)}} for k in range(400)])["exact"]
    wide = 1.96 * np.sqrt(0.25 * 0.75 / 400)
    np.testing.assert_allclose([found["low"], found["high"]], [0.25 - wide, 0.25 + wide], atol=0.006)


def test_a_question_is_graded_by_the_answers_it_takes():
    first_right = {0: 3, 1: 10, 2: 21, 3: 99}

    class Counting:
        def render(self, messages):
            return int(messages[0]["content"])

        def respond(self, prompts, *, samples, first_row, **_):
            none = np.zeros(0, np.float32)
            said = [
                [f + 1 - 24 * q >= first_right[q] for f in range(row, row + samples)]
                for q, row in zip(prompts, first_row, strict=True)
            ]
            return [
                [Rollout(none, none, none, none, none, "right" if s else "wrong", "stop") for s in each]
                for each in said
            ]

    world = World({"reasoner": Counting()}, lambda pairs: [], SamplerConfig(), 0, 0)
    items = [Item(Task(f"{k}", "right", "String", str(k))) for k in range(4)]
    found = scores.grade(world, items, exam(lambda r: r.text), 24)
    wanted = [(3, "easy"), (10, "medium"), (21, "hard"), (25, "hard")]
    assert [(r["rollouts"], r["difficulty"]) for r in found] == wanted


def test_graded_questions_are_the_same_questions_again(tmp_path):
    rows = [
        {"id": "a", "question": "When?", "golden_answers": ["1912", "in 1912"], "category": "years"},
        {"id": "b", "question": "2+2?", "answer": 4, "kind": "program", "boxed": False},
        {"id": "c", "question": "Which?", "answer": "B", "choices": ["x", "y"], "context": "It is y."},
    ]
    jsonl.write(tmp_path / "asked.jsonl", rows)
    items = load_items(tmp_path / "asked.jsonl")
    assert [item.task.answer_type for item in items] == ["String", "Integer", "MCQ"]
    world = World({"reasoner": Sampled()}, lambda pairs: [], SamplerConfig(), 0, 0)
    jsonl.write(tmp_path / "graded.jsonl", scores.grade(world, items, exam(lambda r: r.text), 1))
    assert load_items(tmp_path / "graded.jsonl") == items


class Sampled:
    """Answers a question differently each time: right in two of four."""

    def __init__(self):
        self.settings = []

    def render(self, messages):
        return messages

    def respond(self, prompts, *, samples, first_row, settings, **_):
        self.settings.append((settings.temperature, samples, list(first_row)))
        none, one = np.zeros(0, np.float32), np.ones(3, np.float32)
        return [[Rollout(none, one, one, one, one, str(j % 2), "stop") for j in range(samples)] for _ in prompts]


def test_the_mean_of_several_samples_counts():
    class Verdict:
        def __init__(self, correct):
            self.correct, self.how = correct, "text"

    player = Sampled()
    check = lambda pairs: [Verdict(answer == task.answer) for answer, task in pairs]  # noqa: E731
    world = World({"reasoner": player}, check, SamplerConfig(top_k=3), 0, 0)
    items = [Item(Task(f"q{k}", "1", "Integer", str(k)), suite="aime24") for k in range(2)]
    found = scores.examine(world, items, exam(lambda r: r.text), samples=4, temperature=0.6)
    assert [r["scores"]["verifier"] for r in found] == [0.5, 0.5] and found[0]["predictions"] == ["0", "1", "0", "1"]
    assert player.settings == [(0.6, 4, [0, 4])] and found[0]["tokens"] == 3
