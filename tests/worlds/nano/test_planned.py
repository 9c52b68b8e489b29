"""The planned world: its right plans lead to the answer, and the shares of wrong examples are those it says."""

from spicejax.games.acesearcher import paths, plans
from spicejax.games.acesearcher.config import AceSearcherConfig
from spicejax.types import Task
from spicejax.worlds.nano import linked, planned

LESSONS = planned.PLAIN.lessons(3, 3000)
NANO = AceSearcherConfig(request="nano")


def asked(prompt: str) -> tuple[str, list[str]]:
    """Name and relations, the first one followed first, of a question."""
    *relations, start = prompt.removesuffix("?").split(" of ")
    return start, relations[::-1]


def followed(text: str, facts: dict) -> str | None:
    """What a plan leads to when its steps are answered by the facts; None where a step has no answer."""
    plan, answers = plans.parse(text, 4), {}
    for k in range(len(plan.questions)):
        name, (relation,) = asked(plan.filled(k, answers))
        if relation not in facts[name]:
            return None
        answers[k] = facts[name][relation]
    return answers[k]


def test_plans_are_parsed_and_mostly_lead_to_the_answer():
    right = []
    for i, e in enumerate(LESSONS):
        if e.role == "decomposer":
            start, relations = asked(e.prompt.removeprefix("plan: "))
            world = linked.facts(3 + 1_000_003 + i % 3)
            if len(relations) > 1:
                right.append(followed(e.parts[0].text, world.leads) == world.follow(start, relations)[-1])
    assert 0.55 < sum(right) / len(right) < 0.72, "a swapped step now and then leads there all the same"


def test_prompts_are_those_of_the_game():
    """The examples teach what the game asks, to the letter."""
    told = {e.prompt for e in LESSONS}
    plan = next(e for e in LESSONS if e.role == "decomposer")
    question = plan.prompt.removeprefix("plan: ")
    assert paths.plan_messages(Task(question, "", "String"), NANO)[0]["content"] in told
    final = next(e.prompt for e in LESSONS if e.prompt.startswith("#1"))
    *steps, question = final.split("\n")
    assert paths.final_messages(question, "", "\n".join(steps), NANO, "qa")[0]["content"] == final
    steps = [steps[k : k + 2] for k in range(0, len(steps), 2)]
    made = plans.Plan(tuple(step.partition(": ")[2] for step, _ in steps))
    assert plans.listed(made, [answer.removeprefix("Answer: ") for _, answer in steps]) == final.rpartition("\n")[0]
    at_once = next(e.prompt for e in LESSONS if "answer: " in e.prompt)
    documents, _, question = at_once.partition("\nanswer: ")
    assert paths.direct_messages(question, documents, NANO, "qa")[0]["content"] == at_once


def test_the_examples_file_holds_them():
    rows = planned.PLAIN.items(3, 40, 30)["examples"]
    assert rows == [{"prompt": e.prompt, "completion": e.parts[0].text} for e in LESSONS[:40]]
