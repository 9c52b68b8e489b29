"""The fields of AceSearcher. Import AceSearcherConfig from game.py, which gives it its game."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from spicejax.games.acesearcher import excerpts, rewards
from spicejax.games.game import Game, read_prompts, require

PACKAGE = "spicejax.games.acesearcher"  # that holds the prompts
# qa, claim: from passages that are looked up; document: from the question's own text; program: likewise, but the final
# reply is a program whose value is the answer
Kind = Literal["qa", "claim", "document", "program"]
SEARCHING = ("qa", "claim")


@dataclasses.dataclass(frozen=True)
class AceSearcherConfig:
    """The game."""

    game: ClassVar[Game]

    # questions per iteration
    questions: int = 64
    # plans of each question [m]
    plans: int = 3
    # paths along each plan [m']
    solutions: int = 4
    # what is asked, unless a question's file says it ("kind"), so that a round may mix them: qa = questions, claim =
    # claims to be checked, both with passages that are looked up; document = questions about a text that comes with
    # them ("context"); program = likewise, answered by a program that is run
    kind: Kind = "qa"
    # programs that the model writes: off = none is run; sandbox = apart from this machine, or not at all; accept =
    # also where they could read your files (docs/security.md)
    programs: Literal["off", "sandbox", "accept"] = "off"
    # how sub-questions are answered where the final reply is a program: words; programs = each by a program of its own,
    # of at most final_max_new tokens
    steps: Literal["words", "programs"] = "words"
    # how it is asked: full = requests; nano = bare, for models of a few million parameters
    request: Literal["full", "nano"] = "full"
    # most sub-questions of a plan; a plan with more is none
    most_questions: int = 6
    # a plan in which a sub-question refers to itself, to a later one or to none: refused = it is none, worth 0;
    # as_written = it is followed, that reference stays in the question as it is (code)
    bad_references: Literal["refused", "as_written"] = "refused"
    # passages looked up for each sub-question
    found: int = 10
    # passages of the final prompt, shared among the sub-questions [N]
    total: int = 15
    # paragraphs of a question's own text that are shown, those that share most with what is asked; 0 = all of it (the
    # paper: 10 of DocMath-Eval's long documents)
    parts: int = 0
    # longest plan, sub-answer, final answer, in tokens
    plan_max_new: int = 256
    answer_max_new: int = 32
    final_max_new: int = 512
    # what an answer is worth: exact = exact match of a well-formed one, 0 or 1 (paper); summed = exact match +
    # containment + F1, 0 to 3 (code)
    reward: rewards.RewardKind = "exact"
    # what is learnt: pairs = better against worse replies (learner.loss=dpo, ipo, simpo); best = each question's best
    # path, if it is worth anything (RAFT); right = all that are right (ReST-EM); both with learner.loss=supervised
    learn: Literal["pairs", "best", "right"] = "pairs"
    # whose paths are learnt from: initial = those of the policy that the run starts from (a round of the paper);
    # policy = of today's
    sampled_by: Literal["initial", "policy"] = "initial"
    # how held-out questions are answered: plan = as in training; direct = at once, with `found` passages
    exam: Literal["plan", "direct"] = "plan"
    # folder of your own prompts, files named as in games/acesearcher/prompts/; read once, at the start
    prompts: str = ""
    # prompts by name (acesearcher.templates.plan_qa=TEXT)
    templates: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def items(self) -> int:
        """Questions of an iteration."""
        return self.questions

    def __post_init__(self) -> None:
        read_prompts(self, PACKAGE)
        counts = "questions plans solutions most_questions found total plan_max_new answer_max_new final_max_new"
        require(self, dict.fromkeys(counts.split(), 1))
        for field, value in (("kind", "program"), ("steps", "programs")):
            if self.programs == "off" and getattr(self, field) == value:
                raise ValueError(
                    f"acesearcher.{field}={value} runs what the model writes; give acesearcher.programs=sandbox as "
                    "well (docs/security.md)"
                )
        if self.parts < 0:
            raise ValueError(f"acesearcher.parts={self.parts}: give how many paragraphs are shown, or 0 for all")
        if self.parts:
            excerpts.require_library()
