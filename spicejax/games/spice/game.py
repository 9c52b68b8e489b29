"""SPICE: a Challenger asks from a document, a Reasoner answers without it (arXiv:2510.24684, algorithm 1)."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from spicejax.games import reasoner
from spicejax.games.game import Ask, Exam, Game, Played, Prompts, read_prompts, require
from spicejax.games.spice import formats, novelty, report
from spicejax.games.spice.report import Attempt
from spicejax.games.spice.rewards import RewardKind, challenger_reward
from spicejax.games.spice.validity import ValidityConfig, has_numbers
from spicejax.games.world import World
from spicejax.types import ANSWER_TYPES, AnswerType, Document, Episode, Estimator, Metrics, Rejection, Rollout, Task

# Random streams of an iteration.
_TYPE, _ATTEMPT, _ANSWER, _PICK = range(4)


@dataclasses.dataclass(frozen=True)
class SpiceConfig:
    """The game. Letters in brackets are the paper's."""

    game: ClassVar[Game]

    # documents per iteration [B]
    documents: int = 128
    # Challenger trajectories kept per document and Reasoner answers per question [G = K]
    group_size: int = 8
    # most attempts per document until one is valid [N]; made in rounds of G, G, 2G, 4G, ...
    max_attempts: int = 1024
    # reward of an invalid task [rho]
    invalid_penalty: float = -0.1
    # reward of a valid task as a function of the pass rate; the other three are the paper's ablation (section 4.3)
    challenger_reward: RewardKind = "gaussian_variance"
    # who picks multiple choice or free form: `model` asks the policy once per document, as the paper does; `random`
    # draws it (for models too small to choose); the other two are the paper's ablation (section 4.2)
    # Differs: the tokens that choose are not trained. The paper does not say, and their reward is the question's doing
    task_type: Literal["model", "random", "mcq_only", "free_form_only"] = "model"
    # answer types of free-form tasks drawn when the model does not choose one
    answer_types: tuple[AnswerType, ...] = ("Integer", "Expression", "String")
    # share of multiple choice where the kind is drawn: `task_type=random`, `no_corpus`, a choice that cannot be read
    mcq_fraction: float = 0.5
    # prompts: `full` asks for every field of the paper's JSON, `simple` for the few that the game reads,
    # `nano` is the tersest form, for models of a few million parameters
    style: reasoner.Style = "full"
    # folder of your own prompts, files named as in games/spice/prompts/ and games/prompts/; those not there are ours.
    # Read once, when the configuration is made, into `templates`
    prompts: str = ""
    # prompts by name (spice.templates.reasoner=TEXT): part of the configuration, so that all hosts and a resumed run
    # must have the same
    templates: dict[str, str] = dataclasses.field(default_factory=dict)
    # what makes a task valid beyond the paper's rule
    validity: ValidityConfig = ValidityConfig()
    # valid tasks per document whose answers train the Reasoner, drawn at random; 0 = all. The paper takes one, to
    # balance the roles
    # Differs: the answers that judged the task are learnt from, as in the paper's text; algorithm 1 samples them again
    reasoner_tasks_per_document: int = 1
    # answer a task that the Challenger wrote several times for one document once, and train on these answers once. The
    # paper judges each copy by G answers of its own; a large model hardly repeats itself, a small one often does
    answer_equal_tasks_once: bool = False
    # a question that was asked in the last so many iterations, or earlier in this one, is invalid; 0 = repeats are
    # welcome
    # Differs: the paper has no such rule; off unless a recipe sets it
    novelty: int = 0
    # do not train the Challenger and let the initial policy play it (ablation, figure 4a)
    fixed_challenger: bool = False
    # show the Challenger no document (ablation, figure 4b)
    no_corpus: bool = False
    # longest responses, in tokens, end of turn included. The paper gives none
    challenger_max_new: int = 2048
    reasoner_max_new: int = 1024
    # the same of the choice of the kind of task, which is a line of JSON; 0 = as challenger_max_new, its bound
    task_type_max_new: int = 0
    # judge an answer that stands in a box before the response was cut off by its longest length; false = it is wrong
    judge_truncated: bool = False
    # most words of a String answer
    max_string_words: int = 3
    # what of a task must stand in the document: nothing, its answer, or (`cloze`) a sentence that begins with the
    # question and ends with the answer. The paper asks for answers extracted from the document and checks only the
    # form; a small model binds wrong answers to questions, and a wrong answer teaches wrongly
    grounding: formats.Grounding = "none"
    # how rewards become advantages: mean = minus the mean of the group (the paper, as Dr. GRPO), mean_std = divided by
    # its standard deviation too (GRPO), none = the reward itself; docs/losses.md has all
    challenger_estimator: Estimator = "mean"
    reasoner_estimator: Estimator = "mean"

    @property
    def items(self) -> int:
        """Documents of an iteration."""
        return self.documents

    def __post_init__(self) -> None:
        read_prompts(self, reasoner.PACKAGE, formats.PACKAGE)
        lengths = ("challenger_max_new", "reasoner_max_new")
        require(self, dict.fromkeys(("documents", "group_size", *lengths), 1) | {"task_type_max_new": 0})
        if self.max_attempts < self.group_size:
            raise ValueError(f"spice.max_attempts={self.max_attempts}: must be at least group_size={self.group_size}")
        unknown = set(self.answer_types) - set(ANSWER_TYPES) | {"MCQ"} & set(self.answer_types)
        if unknown or not self.answer_types:
            raise ValueError(f"spice.answer_types={self.answer_types}: choose from {ANSWER_TYPES[1:]}")
        if self.novelty < 0:
            raise ValueError(f"spice.novelty={self.novelty}: give a number of iterations, or 0")
        if not 0 <= self.mcq_fraction <= 1:
            raise ValueError(f"spice.mcq_fraction={self.mcq_fraction}: must lie in [0, 1]")


def demand(cfg: SpiceConfig) -> list[Ask]:
    """What an iteration asks when every document gets its tasks in the first round and every kept task is valid."""
    n, group = cfg.documents, cfg.group_size
    player = "initial" if cfg.fixed_challenger else "policy"
    choice = Ask("task_type", n, 1, _choice_max_new(cfg), "document", seat="challenger", player=player)
    challenger = Ask(
        "challenger", n, group, cfg.challenger_max_new, "document", n, estimator=cfg.challenger_estimator, player=player
    )
    answered = n * (cfg.reasoner_tasks_per_document or group)
    reasoner = Ask(
        "reasoner", n * group, group, cfg.reasoner_max_new, trained=answered, estimator=cfg.reasoner_estimator
    )
    return [*([choice] if _chooses(cfg) else []), challenger, reasoner]


def _choice_max_new(cfg: SpiceConfig) -> int:
    return min(cfg.task_type_max_new or cfg.challenger_max_new, cfg.challenger_max_new)


def _chooses(cfg: SpiceConfig) -> bool:
    """Whether the Challenger chooses the kind of task."""
    return cfg.task_type == "model" and not cfg.no_corpus


def prompts_of(cfg: SpiceConfig, document: Document) -> Prompts:
    """The Challenger is asked for one of the kinds of task that there are, or for the kind."""
    shown_document = None if cfg.no_corpus else document
    requests = [formats.challenger_messages(shown_document, kind, cfg.style, cfg.templates) for kind in kinds_of(cfg)]
    requests += [formats.task_type_messages(document, cfg.style, cfg.templates)] if _chooses(cfg) else []
    return [("challenger", messages) for messages in requests]


def kinds_of(cfg: SpiceConfig) -> Sequence[AnswerType]:
    """The kinds of task that may be asked for."""
    if _chooses(cfg):
        return get_args(AnswerType)
    fraction = _mcq_fraction(cfg)
    return (*(["MCQ"] if fraction > 0 else []), *(cfg.answer_types if fraction < 1 else []))


def _mcq_fraction(cfg: SpiceConfig) -> float:
    """Share of multiple choice where kinds are drawn."""
    return {"mcq_only": 1.0, "free_form_only": 0.0}.get(cfg.task_type, cfg.mcq_fraction)


def exam(cfg: SpiceConfig) -> Exam:
    """The Reasoner answers."""
    return reasoner.exam(cfg.style, cfg.reasoner_max_new, cfg.judge_truncated, cfg.templates)


def probe(cfg: SpiceConfig, documents: int, group: int) -> SpiceConfig:
    """One round of attempts; the Challenger of each pairing chooses its kinds where the run lets it choose."""
    # Differs: one round of eval.probe_group attempts against the first policy; figure 3: 128 attempts against step 200
    return dataclasses.replace(cfg, documents=documents, group_size=group, max_attempts=group)


def play(world: World, documents: Sequence[Document], cfg: SpiceConfig, state: Any = None) -> Played:
    """Play one iteration on `documents` and score it. The state holds the keys of recent questions.

    Challenger episodes carry group = index of the document, Reasoner episodes group = len(documents) + task.
    """
    kinds, choice_metrics = choose_kinds(world, documents, cfg)
    attempts = attempt_tasks(world, documents, kinds, cfg, novelty.asked_in(state, cfg.novelty))
    for i in range(len(documents)):
        of_document = [a for a in attempts if a.document == i]
        valid = np.array([isinstance(a.outcome, Task) for a in of_document])
        for k in subsample(valid, cfg.group_size, world.rng(_PICK, i)):
            of_document[k].kept = True
    verdicts = answer_tasks(world, attempts, cfg)
    pick_reasoner_tasks(world, attempts, len(documents), cfg)
    tasks = [a.outcome for a in attempts if isinstance(a.outcome, Task)]
    metrics = report.metrics_of(attempts, verdicts) | novelty.metrics_of(tasks, state) | choice_metrics
    if world.examined and tasks:
        known = [world.examines(task.question) for task in tasks]
        metrics["challenger/held_out_questions"] = float(np.mean(known))
    records = [report.record(documents[a.document], a) for a in attempts]
    return Played(
        _episodes(attempts, len(documents)),
        metrics,
        records,
        novelty.remember(state, tasks, cfg.novelty),
        progress={
            "valid": metrics["challenger/valid_fraction"],
            "pass_rate": metrics.get("reasoner/pass_rate"),
            "challenger_reward": metrics["challenger/reward"],
        },
        totals={"tasks_generated": len(attempts), "tasks_valid": int(metrics["challenger/tasks_valid"])},
    )


def choose_kinds(world: World, documents: Sequence[Document], cfg: SpiceConfig) -> tuple[list[AnswerType], Metrics]:
    """Choose the kind of task for each document, "MCQ" or an answer type, and count the choices that are unreadable."""
    kinds: list[AnswerType] = []
    for i in range(len(documents)):
        rng = world.rng(_TYPE, i)
        types = _answer_types(documents[i], cfg)
        free = types[rng.integers(len(types))]
        kinds.append("MCQ" if rng.random() < _mcq_fraction(cfg) else free)
    if not _chooses(cfg):
        return kinds, {}
    rollouts = world.ask(
        "challenger",
        [formats.task_type_messages(d, cfg.style, cfg.templates) for d in documents],
        samples=1,
        first_row=range(len(documents)),
        max_new=_choice_max_new(cfg),
        stream=_TYPE,
    )
    failed = 0
    for i, (rollout,) in enumerate(rollouts):
        chosen = formats.parse_task_type(rollout.text)
        if isinstance(chosen, Rejection):
            failed += 1  # Differs: the drawn kind stands where the choice cannot be read; the paper does not say
        else:
            kinds[i] = chosen
    return kinds, {"challenger/task_type_unparsed": failed / max(len(documents), 1)}


def _answer_types(document: Document, cfg: SpiceConfig) -> tuple[AnswerType, ...]:
    """The types to draw from: no number that must stand in the document is asked of a document without one."""
    # Differs: the paper's Challenger chooses the type; a drawn one would teach nothing but refusals here
    if cfg.no_corpus or cfg.grounding == "none" or has_numbers(document.text):
        return cfg.answer_types
    return tuple(kind for kind in cfg.answer_types if kind not in ("Integer", "Float")) or cfg.answer_types


def attempt_tasks(
    world: World,
    documents: Sequence[Document],
    kinds: Sequence[AnswerType],
    cfg: SpiceConfig,
    known: Iterable[str] = (),
) -> list[Attempt]:
    """Let the Challenger try, in growing rounds, until every document has a valid task or its attempts are used up.

    Args:
      known: keys of questions that were asked before; with `cfg.novelty` none of them is valid, and none twice.
    """
    messages = [
        formats.challenger_messages(None if cfg.no_corpus else d, kind, cfg.style, cfg.templates)
        for d, kind in zip(documents, kinds, strict=True)
    ]
    attempts: list[Attempt] = []
    keys = set(known)
    # Differs: attempts end with the round that has a valid task; algorithm 1 makes all N and subsamples them
    attempted, pending, groups = 0, list(range(len(documents))), 1
    while pending and attempted < cfg.max_attempts:
        groups = min(groups, (cfg.max_attempts - attempted) // cfg.group_size)
        if groups == 0:
            break
        rollouts = world.ask(
            "challenger",
            [messages[i] for i in pending],
            samples=groups * cfg.group_size,
            first_row=[i * cfg.max_attempts + attempted for i in pending],
            max_new=cfg.challenger_max_new,
            stream=_ATTEMPT,
        )
        for i, tries in zip(pending, rollouts, strict=True):
            for rollout in tries:
                outcome = _judge_text(world, rollout, kinds[i], documents[i], cfg)
                if cfg.novelty and isinstance(outcome, Task):
                    key, question = novelty.key(outcome), outcome.question
                    outcome = Rejection("repeated", question[:200]) if key in keys else outcome
                    keys.add(key)
                attempts.append(Attempt(i, kinds[i], rollout, outcome))
        attempted += groups * cfg.group_size
        groups = max(1, attempted // cfg.group_size)
        solved = {a.document for a in attempts if isinstance(a.outcome, Task)}
        pending = [i for i in pending if i not in solved]
    return attempts


def _judge_text(
    world: World, rollout: Rollout, kind: AnswerType, document: Document, cfg: SpiceConfig
) -> Task | Rejection:
    """Read a Challenger's reply as a task, or say why it is none."""
    # Differs: a reply that was cut off, or a question too long for the Reasoner, is invalid whatever it says
    if rollout.finish_reason == "length":
        return Rejection("truncated", f"no end within {cfg.challenger_max_new} tokens")
    outcome = formats.parse_task(
        rollout.text,
        kind=kind,
        document=None if cfg.no_corpus else document,
        style=cfg.style,
        rules=cfg.validity,
        max_string_words=cfg.max_string_words,
        grounding=cfg.grounding,
    )
    if isinstance(outcome, Task) and not world.fits(
        "reasoner", reasoner.messages(outcome.question, cfg.style, cfg.templates)
    ):
        return Rejection("question_too_long", "does not fit the Reasoner's longest prompt bucket")
    if cfg.validity.no_held_out and isinstance(outcome, Task) and world.examines(outcome.question):
        return Rejection("held_out", outcome.question[:200])
    return outcome


def subsample(valid: np.ndarray, group_size: int, rng: np.random.Generator) -> list[int]:
    """Pick at most `group_size` attempts at random, keeping the valid:invalid ratio.

    The number of valid ones is rounded half up.

    Args:
      valid: bool [n].
    Returns: ascending indices, all of them where n <= group_size.
    """
    n = len(valid)
    if n <= group_size:
        return list(range(n))
    good, bad = np.flatnonzero(valid), np.flatnonzero(~valid)
    valid_count = int(np.floor(group_size * len(good) / n + 0.5))
    if len(good):  # Differs: at least one, else the only task would be lost; the paper states no rounding
        valid_count = max(1, valid_count)
    chosen = [*rng.choice(good, valid_count, replace=False), *rng.choice(bad, group_size - valid_count, replace=False)]
    return sorted(int(i) for i in chosen)


def answer_tasks(world: World, attempts: Sequence[Attempt], cfg: SpiceConfig) -> collections.Counter[str]:
    """Let the Reasoner answer each kept valid task G times, check the answers and set every kept attempt's reward."""
    copies: dict[tuple[Any, ...], list[Attempt]] = {}  # attempts that share their answers, by the task
    for n, attempt in enumerate(attempts):
        if attempt.kept and isinstance(attempt.outcome, Task):
            apart = () if cfg.answer_equal_tasks_once else (n,)
            copies.setdefault((attempt.outcome, attempt.document, *apart), []).append(attempt)
        elif attempt.kept:
            attempt.reward = cfg.invalid_penalty
    tasks: list[Task] = [task for task, *_ in copies]
    answers = world.ask(
        "reasoner",
        [reasoner.messages(t.question, cfg.style, cfg.templates) for t in tasks],
        samples=cfg.group_size,
        first_row=[k * cfg.group_size for k in range(len(tasks))],
        max_new=cfg.reasoner_max_new,
        stream=_ANSWER,
    )
    pairs = [(reasoner.answer(r, cfg.judge_truncated), t) for t, rs in zip(tasks, answers, strict=True) for r in rs]
    verdicts = world.check(pairs)
    correct = np.array([v.correct for v in verdicts], bool).reshape(len(tasks), cfg.group_size)
    for k, (same, rollouts, row) in enumerate(zip(copies.values(), answers, correct, strict=True)):
        said = [answer for answer, _ in pairs[k * cfg.group_size : (k + 1) * cfg.group_size]]
        reward = challenger_reward(int(row.sum()), len(row), kind=cfg.challenger_reward)
        for attempt in same:
            attempt.answers, attempt.said, attempt.correct, attempt.reward = rollouts, said, row, reward
            attempt.is_copy = attempt is not same[0]
    return collections.Counter(v.how for v in verdicts)


def pick_reasoner_tasks(world: World, attempts: Sequence[Attempt], num_documents: int, cfg: SpiceConfig) -> None:
    """Mark the tasks whose answers train the Reasoner."""
    for i in range(num_documents):
        of_document = [a for a in attempts if a.document == i and a.correct is not None and not a.is_copy]
        count = cfg.reasoner_tasks_per_document or len(of_document)
        picked = world.rng(_PICK, i, 1).permutation(len(of_document))[:count]
        for k in picked:
            of_document[k].trains_reasoner = True


def _episodes(attempts: Sequence[Attempt], num_documents: int) -> list[Episode]:
    episodes = [Episode("challenger", a.document, a.rollout, a.reward) for a in attempts if a.reward is not None]
    for k, a in enumerate(a for a in attempts if a.trains_reasoner):
        if a.correct is not None:
            group = num_documents + k
            episodes += [Episode("reasoner", group, r, float(c)) for r, c in zip(a.answers, a.correct, strict=True)]
    return episodes


SpiceConfig.game = Game(
    "documents", play, demand, exam, prompts_of, report.ABOUT,
    probe=probe, probed=("reasoner/pass_rate", "challenger/frontier_distance"),
)  # fmt: skip
