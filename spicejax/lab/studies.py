"""Every study as a row: its arms, what the paper found, where.

An arm is a recipe with the fields in which it differs. A claim compares two places of a study: an arm, a quantity, and
whether it is taken where the run begins or where it ends.
"""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

ACCURACY = "eval/accuracy"


class Arm(NamedTuple):
    """A recipe, and the fields that are given with it (spicejax train --config=RECIPE a.b=c ...)."""

    recipe: str
    fields: tuple[str, ...] = ()


class Place(NamedTuple):
    """Where a quantity is taken."""

    arm: str
    quantity: str = ACCURACY
    when: Literal["start", "end"] = "end"


@dataclasses.dataclass(frozen=True)
class Claim:
    """The paper has `more` above `less`."""

    text: str
    more: Place
    less: Place
    paper: str  # its numbers, more first


@dataclasses.dataclass(frozen=True)
class Study:
    """Runs that differ in one thing, and what is claimed of them."""

    about: str  # one line
    source: str  # paper, table or figure
    arms: dict[str, Arm]
    claims: tuple[Claim, ...]
    note: str = ""  # what a reader has to know of it


def above(first: str, others: dict[str, str], first_number: str) -> tuple[Claim, ...]:
    """Claims that one arm ends above others; values: the papers' numbers."""
    return tuple(
        Claim(f"{first} above {name}", Place(first), Place(name), f"{first_number} > {number}")
        for name, number in others.items()
    )


def changed(recipe: str, arms: dict[str, str]) -> dict[str, Arm]:
    """Arms of one recipe; values: their fields, apart by spaces."""
    return {name: Arm(recipe, tuple(fields.split())) for name, fields in arms.items()}


def _rounds(fields: str) -> str:
    """Fields of the second and the third run of a chain."""
    return " ".join(f"{stage}.{field}" for stage in (2, 3) for field in fields.split())


_SPICE = changed("spice_nano", {"SPICE": ""})
_ACE = "acesearcher_graded_nano"
_SUPERVISED = "learner.loss=supervised learner.aggregation=token_mean"

STUDIES: dict[str, Study] = {
    "roles": Study(
        "What SPICE owes to a Challenger that learns, and to documents.",
        "SPICE (arXiv:2510.24684), table 1 and figure 4, Qwen3-4B-Base, mean of eleven benchmarks",
        _SPICE
        | changed(
            "spice_nano",
            {"fixed Challenger": "spice.fixed_challenger=true", "no corpus": "spice.no_corpus=true"},
        )
        | {"Strong Challenger": Arm("strong_challenger_nano")},
        (
            Claim("SPICE above fixed Challenger", Place("SPICE"), Place("fixed Challenger"), "figure 4a, no number"),
            *above("SPICE", {"no corpus": "40.7"}, "43.9"),
            *above("SPICE", {"Strong Challenger": "43.0"}, "44.9"),
        ),
        "The Strong Challenger is no larger model: it is the last policy of a SPICE run of the same seed, and a fresh "
        "Reasoner learns from it.",
    ),
    "roles_smollm2": Study(
        "The same on a real model, 135 million parameters, and what the form of an answer is worth alone.",
        "SPICE (arXiv:2510.24684), figure 4, Qwen3-4B-Base, mean of eleven benchmarks",
        changed(
            "spice_smollm2",
            {"SPICE": "", "fixed Challenger": "spice.fixed_challenger=true", "no corpus": "spice.no_corpus=true"},
        )
        | {"form alone": Arm("rlvr_smollm2")},
        (
            Claim("SPICE above fixed Challenger", Place("SPICE"), Place("fixed Challenger"), "figure 4a, no number"),
            *above("SPICE", {"no corpus": "40.7"}, "43.9"),
            Claim("SPICE above form alone", Place("SPICE"), Place("form alone"), "not in the paper"),
        ),
        "Hours a run; `make weights` first. Form alone is RLVR on everyday questions asked in the same words.",
    ),
    "baselines": Study(
        "SPICE beside R-Zero, Absolute Zero and RLVR.",
        "SPICE (arXiv:2510.24684), table 1, Qwen3-4B-Base, mean of eleven benchmarks",
        _SPICE | {"R-Zero": Arm("r_zero_nano"), "Absolute Zero": Arm("absolute_zero_nano"), "RLVR": Arm("rlvr_nano")},
        above("SPICE", {"R-Zero": "39.5"}, "44.9"),
        "Methods, not one thing: SPICE has 96 iterations, RLVR 48 on questions with true answers (it is not in the "
        "paper's table), R-Zero two rounds of 5 and 15. Absolute Zero plays in a world of its own, of programs, with "
        "another model and other held-out questions: its accuracy compares with its own start alone.",
    ),
    "rewards": Study(
        "Four rewards of the Challenger.",
        "SPICE (arXiv:2510.24684), table 4, Qwen3-4B-Base, mean of eleven benchmarks",
        changed(
            "spice_nano",
            {
                "Variance": "",
                "Absolute Zero's": "spice.challenger_reward=absolute_zero",
                "Threshold": "spice.challenger_reward=threshold",
                "R-Zero's": "spice.challenger_reward=r_zero",
            },
        ),
        above("Variance", {"Absolute Zero's": "40.7", "Threshold": "41.4", "R-Zero's": "43.6"}, "44.9"),
    ),
    "formats": Study(
        "Kinds of questions.",
        "SPICE (arXiv:2510.24684), table 3, Qwen3-4B-Base, mean of eleven benchmarks",
        changed(
            "spice_qwen0p5b",
            {
                "both": "spice.task_type=random",
                "multiple choice": "spice.task_type=mcq_only",
                "free form": "",
            },
        ),
        above("both", {"multiple choice": "42.0", "free form": "43.7"}, "44.9"),
        "Hours a run. `make weights-qwen` first, and give model.path=FILE; of the 1.5B model half of the multiple "
        "choice is valid, of the 0.5B hardly any. Held-out questions are free-form.",
    ),
    "coevolution": Study(
        "Later Reasoners with the first Challenger, and later Challengers with the first Reasoner.",
        "SPICE (arXiv:2510.24684), figure 3, pass rates from step 200 to step 640",
        _SPICE,
        (
            Claim(
                "Reasoner solves more of the first Challenger's questions",
                Place("SPICE", "probe/fixed_challenger/pass_rate"),
                Place("SPICE", "probe/fixed_challenger/pass_rate", "start"),
                "85 % > 55 %",
            ),
            Claim(
                "first Reasoner solves fewer of the later Challenger's",
                Place("SPICE", "probe/fixed_reasoner/pass_rate", "start"),
                Place("SPICE", "probe/fixed_reasoner/pass_rate"),
                "55 % > 35 %",
            ),
        ),
        "The paper's fixed opponents are those of step 200, here those of the start.",
    ),
    "ssp_opponents": Study(
        "What Search Self-Play owes to either player's learning.",
        "SSP (arXiv:2510.18821), table 2, Qwen2.5-7B-Instruct, mean of seven benchmarks",
        changed(
            "ssp_graded_nano",
            {"SSP": "", "Solver alone": "ssp.fixed=proposer", "Proposer alone": "ssp.fixed=solver"},
        ),
        above("SSP", {"Solver alone": "44.2", "Proposer alone": "41.7"}, "49.5"),
    ),
    "ssp_buffers": Study(
        "What takes the place of invalid questions.",
        "SSP (arXiv:2510.18821), table 5, Qwen2.5-7B-Base, mean of seven benchmarks",
        changed(
            "ssp_graded_nano",
            {
                "periodic reset": "",
                "full reuse": "ssp.reset_every=0",
                "resample": "ssp.strategy=resample",
                "dummy": "ssp.strategy=dummy",
            },
        ),
        above("periodic reset", {"full reuse": "44.4", "resample": "42.4", "dummy": "41.4"}, "48.7"),
    ),
    "ssp_noise": Study(
        "Foreign passages in the verification.",
        "SSP (arXiv:2510.18821), table 3, Qwen2.5-7B-Instruct, mean of multi-hop sets",
        changed(
            "ssp_graded_nano",
            {"noise 1": "", "unverified": "ssp.verify=false", "noise 0": "ssp.noise=0", "noise 2": "ssp.noise=2"},
        ),
        (Claim("noise 1 above unverified", Place("noise 1"), Place("unverified"), "41.6 > 36.7"),),
        "The paper's numbers are those of four documents: its best of 0, 1, 4, 7 (38.2, 36.9, 41.6, 35.9). What number "
        "is as much to this world's prompts is not known, so no more is claimed.",
    ),
    "ssp_estimators": Study(
        "Estimators of the advantages: the Proposer's, the Solver's.",
        "SSP (arXiv:2510.18821), table 6, Qwen2.5-7B-Instruct, mean of seven benchmarks",
        changed(
            "ssp_graded_nano",
            {
                "REINFORCE, GRPO": "",
                "GRPO, REINFORCE": "ssp.proposer_estimator=mean_std ssp.proposer_samples=4 ssp.answers=6 "
                "ssp.solver_estimator=none",
                "REINFORCE, REINFORCE": "ssp.solver_estimator=none",
                "REINFORCE++, GRPO": "ssp.proposer_estimator=whiten",
                "GRPO, GRPO": "ssp.proposer_estimator=mean_std ssp.proposer_samples=4 ssp.answers=6",
            },
        ),
        (
            *above(
                "REINFORCE, GRPO",
                {"REINFORCE, REINFORCE": "42.0", "REINFORCE++, GRPO": "48.1", "GRPO, REINFORCE": "46.5"},
                "49.5",
            ),
            *above("GRPO, GRPO", {"REINFORCE, GRPO": "49.5"}, "50.9"),
        ),
        "The paper samples five where GRPO is, else one. Here the Solver has four samples in every arm, and GRPO's "
        "Proposer asks four questions for each of six answers: as much is sampled in all arms.",
    ),
    "r1_stages": Study(
        "A first stage that rewards searching.",
        "R1-Searcher (arXiv:2503.05592), two-stage training",
        changed("r1_searcher_nano", {"two stages": "", "one stage": "1.r1searcher.reward=answer"}),
        (Claim("two stages above one", Place("two stages"), Place("one stage"), "no number at hand"),),
    ),
    "r1_rewards": Study(
        "What an answer is worth in the second stage.",
        "R1-Searcher (arXiv:2503.05592), F1 beside exact and cover-exact match",
        changed(
            "r1_searcher_nano",
            {
                "F1": "",
                "exact": "2.r1searcher.reward=answer_exact",
                "cover-exact": "2.r1searcher.reward=answer_cover",
            },
        ),
        (
            Claim("F1 above exact", Place("F1"), Place("exact"), "table 5, not at hand"),
            Claim("F1 above cover-exact", Place("F1"), Place("cover-exact"), "table 5, not at hand"),
        ),
    ),
    "ace_stages": Study(
        "What AceSearcher owes to fine-tuning and to its rounds.",
        "AceSearcher (arXiv:2509.24193), table 3, Llama-3.1-8B, mean of six sets",
        changed(_ACE, {"both": "", "no fine-tuning": "1.iterations=1", "no rounds": _rounds("iterations=1")}),
        above("both", {"no rounds": "56.2", "no fine-tuning": "47.6"}, "59.6"),
        "An arm without a stage keeps one iteration of it. The start is behind the fine-tuning.",
    ),
    "ace_algorithms": Study(
        "Ways to learn from the same paths.",
        "AceSearcher (arXiv:2509.24193), table 3, Llama-3.1-8B, mean of six sets",
        changed(
            _ACE,
            {
                "DPO in rounds": "",
                "SimPO": _rounds("learner.loss=simpo learner.pairs.beta=2.0 learner.pairs.margin=1.0"),
                "RAFT": _rounds(f"acesearcher.learn=best {_SUPERVISED}"),
                "ReST-EM": _rounds(f"acesearcher.learn=right {_SUPERVISED}"),
            },
        )
        | {"offline DPO": Arm(f"{_ACE}_offline")},
        above("DPO in rounds", {"offline DPO": "58.2", "SimPO": "57.6", "RAFT": "56.5", "ReST-EM": "57.2"}, "59.6"),
        "The start is behind the fine-tuning; then 48 iterations of one step in every arm. The two rounds see "
        "the same questions, the offline run twice as many.",
    ),
}
