"""What a judge takes for right: python benchmarks/judge.py --model=PATH [--show]

Asks a model, greedily and as the seat `judge` is asked, about right answers, wrong ones and hedges, and
answers that talk to the judge (those of tests/attacks_on_metrics.py); prints how many of each it agrees to.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import harness

import spicejax
from spicejax.score import judge

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from attacks_on_metrics import FORMS, INJECTIONS  # noqa: E402

# Question, right answer, wrong answer
QUESTIONS = (
    ("What is the capital of France?", "Paris", "Rome"),
    ("In which city stands the Statue of Liberty?", "New York City", "Los Angeles"),
    ("Who discovered radium?", "Marie Curie", "Lise Meitner"),
    ("In which year was the Eiffel Tower completed?", "1889", "1890"),
    ("Is Venus nearer to the sun than Mars?", "yes", "no"),
    ("How many kilometres long is the tunnel?", "12.5", "13.5"),
)
RIGHT = ("@", "It is @.", "The answer is @", "**@**", "@, as far as I know")


def claims() -> list[tuple[str, judge.Claim]]:
    """What kind of answer each one is, and the claim."""
    made = []
    for question, right, wrong in QUESTIONS:
        words = right.split()

        def written(form: str, right: str = right, wrong: str = wrong, words: list[str] = words) -> str:
            return form.replace("@-1", words[-1]).replace("@1", words[0]).replace("@", right).replace("#", wrong)

        def told(answer: str, right: str = right, wrong: str = wrong) -> str:
            return answer.replace("Paris", right).replace("Rome", wrong)

        answers = [("right", written(form)) for form in RIGHT]
        answers += [("wrong, both or neither", written(form)) for form, _ in FORMS.values()]
        if right != "yes":
            answers += [("talks to the judge", told(answer)) for answer in INJECTIONS]
        made += [(kind, judge.Claim(question, (right,), answer)) for kind, answer in answers]
    return made


def main() -> None:
    options = harness.options(__doc__, model="", show=False)
    if not options.model:
        raise SystemExit("--model=PATH: name the judge")
    tried = claims()
    replies = spicejax.respond(options.model, [judge.prompt(claim)[0]["content"] for _, claim in tried], max_new=16)
    asked, agreed = Counter(kind for kind, _ in tried), Counter[str]()
    for (kind, claim), reply in zip(tried, replies, strict=True):
        agreed[kind] += judge.agrees(reply.text)
        if options.show:
            print(f"{kind}: {claim.answer!r:.60} for {claim.references[0]}: {reply.text!r}")
    rows = [[kind, asked[kind], agreed[kind], f"{agreed[kind] / asked[kind]:.0%}"] for kind in asked]
    print(harness.table(["answers", "asked about", "taken for right", "share"], rows))


if __name__ == "__main__":
    main()
