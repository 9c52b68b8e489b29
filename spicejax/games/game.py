"""What a game is to the rest: what it reads, what it asks of its players, how it is played, what it shows."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from spicejax.config import key_of
from spicejax.data.items import Kind
from spicejax.games.world import World
from spicejax.generate.layout import TurnLimits
from spicejax.text import prompts
from spicejax.types import Estimator, Lesson, LessonKind, Messages, Metrics, Rollout, Task

LONGEST_ANSWER = 200  # characters that a record keeps of an answer


@dataclasses.dataclass(frozen=True)
class Ask:
    """What a game asks of one role in an ordinary iteration; plan, shapes and flight check read nothing else."""

    role: str
    prompts: int  # asked in an iteration
    samples: int  # responses to each prompt; 0 = none is sampled, the responses are given
    max_new: int  # longest response, in tokens; observations of searches included
    prompt: Literal["document", "question"] = "question"  # a document takes the longest bucket, a question the shortest
    trained: int = 0  # prompts whose responses are learnt from
    group: int = 0  # responses of each trained prompt; 0 = `samples`
    estimator: Estimator = "mean"  # of the advantages
    compared: int = 0  # trained responses that share a baseline; 0 = those of a prompt
    lesson: LessonKind = "scored"  # what its trained responses become
    seat: str = ""  # who is asked; "" = the role
    player: Literal["policy", "initial"] = "policy"  # who sits there, unless the run seats another model
    off_policy: bool = False  # while playing, the first policy sits here and today's learns from it
    turn_limits: TurnLimits | None = None  # of several turns, between which it is shown something
    finds: bool = False  # the game looks up passages for its prompts
    programs: Literal["off", "sandbox", "accept"] = "off"  # whether responses are run as programs, see Sandbox
    once: bool = False  # asked in the first iteration alone

    @property
    def behind(self) -> int:
        """Most tokens that a bucket must hold behind the prompt: of several turns the whole row but its last token."""
        return self.max_new - 1 if self.turn_limits else 0


class Reply(NamedTuple):
    """What the policy answered to a question of an evaluation."""

    answer: str | None  # None where it gave none
    rollout: Rollout  # what it wrote; its text holds nothing that a search found
    transcript: list[dict[str, Any]] | None = None  # how it came about, where that took more than one turn
    searches: int = 0


class Respond(Protocol):
    """Several replies to each question; sample j of task k has the stream `first_row[k] + j`."""

    def __call__(
        self,
        world: World,
        tasks: Sequence[Task],
        *,
        samples: int,
        first_row: Sequence[int],
        stream: int,
        max_new: int,
    ) -> list[list[Reply]]: ...


class Exam(NamedTuple):
    """How the policy answers a question of an evaluation."""

    role: str
    ask: Callable[[Task], Messages]  # the first prompt that a question leads to
    respond: Respond
    max_new: int  # longest answer, in tokens; nothing where it searches between its turns
    behind: int = 0  # as `Ask.behind`
    searches: bool = False
    programs: bool = False  # replies may be run as programs


@dataclasses.dataclass(frozen=True)
class Record:
    """A question, or what should have become one: a line of tasks.jsonl."""

    question: str | None = None  # None where none could be read
    gold: str | None = None  # what is held to be right
    said: Sequence[str | None] = ()  # the answers as they were read; None where none was given
    correct: Sequence[bool] = ()  # which of them are right
    reward: float | None = None  # of who wrote it; of who answers, the mean
    transcript: Sequence[Mapping[str, Any]] = ()  # how a reply came about, turn by turn: {"wrote": text, ...}
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # JSON-able; `id`, `document_id`: what it is of

    @property
    def pass_rate(self) -> float | None:
        """Share of right answers; None where none was asked for."""
        return sum(map(bool, self.correct)) / len(self.correct) if len(self.correct) else None

    @property
    def row(self) -> dict[str, Any]:
        """The line of tasks.jsonl: fields that are None or empty are left out, answers are cut to their beginnings."""
        row = {"question": self.question, "answer": self.gold, "pass_rate": self.pass_rate, "reward": self.reward}
        row = {**self.extra} | {name: value for name, value in row.items() if value is not None}
        if self.said:
            row |= {"said": [text and text[:LONGEST_ANSWER] for text in self.said]}
            row |= {"correct": list(map(bool, self.correct))}
        return row | ({"transcript": list(self.transcript)} if self.transcript else {})


@dataclasses.dataclass(frozen=True)
class Played:
    """What one iteration of a game yields."""

    lessons: Sequence[Lesson]
    metrics: Metrics  # named role/quantity
    records: Sequence[Record] = ()  # one for each thing generated, for tasks.jsonl
    state: Any = None  # what the next iteration is given; JSON-able, kept in checkpoints
    progress: Mapping[str, float | None] = dataclasses.field(default_factory=dict)  # for the progress line
    totals: Mapping[str, int] = dataclasses.field(default_factory=dict)  # summed over the run, for the summary

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The records as tasks.jsonl has them."""
        return [record.row for record in self.records]

    @property
    def example(self) -> str:
        """For the terminal: the question whose pass rate is nearest to one half, or why there is none."""
        if judged := [record for record in self.records if record.pass_rate is not None]:
            best = min(judged, key=lambda record: abs((record.pass_rate or 0) - 0.5))
            reply = "".join(turn.get("wrote", "") for turn in best.transcript)
            source, form = best.extra.get("document_id") or best.extra.get("id"), best.extra.get("format")
            head = f"task{f' from {source}' if source else ''}{f' [{form}]' if form else ''}"
            end = f"reply: {reply!r}" if reply else f"said: {list(best.said)!r}"
            return f"  {head}, solved {best.pass_rate:.0%}\n    Q: {best.question!r}\n    A: {best.gold!r}\n    {end}"
        reasons = collections.Counter(filter(None, (record.extra.get("rejected") for record in self.records)))
        common = [reason for reason, _ in reasons.most_common(1)]
        return f"  no valid task in this iteration; commonest reason: {common[0]}" if common else ""


class Panel(NamedTuple):
    """One panel of a run's report."""

    title: str
    series: tuple[tuple[str, str], ...]  # (quantity, its label)
    rows: Literal["metrics", "evaluations"] = "metrics"
    limits: tuple[float, float] | None = None  # of the y axis
    line: float | None = None  # a horizontal line to compare with
    meaning: str = ""  # what it shows, in a sentence or two
    unit: str = ""  # of the y axis


@dataclasses.dataclass(frozen=True)
class About:
    """What reports say of a game: data alone, so that a run of a game from outside can keep it in its folder."""

    panels: tuple[Panel, ...] = ()
    # what its metrics mean; `*` in a name stands for a reason or a role, and the first name that fits holds
    glossary: Mapping[str, str] = dataclasses.field(default_factory=dict)
    counts: tuple[str, ...] = ()  # prefixes of metrics that are counts
    valid: str = ""  # metric: share of valid tasks among what players wrote; "" where all tasks are given
    # which fields to change, by a metric that tells why nothing is learnt: rejected/WHY, fault/WHY, skipped/WHY,
    # ROLE/too_long, ROLE/truncated
    fixes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    written: bool = False  # the questions and answers that it learns from are written by its players
    paper: str = ""  # title and arXiv number of what it follows


Prompts = list[tuple[str, Messages]]  # who is asked (seat), and what


class Game(NamedTuple):
    """A paper's game, or anyone's. Its Config has a property `items`: how many items an iteration takes."""

    reads: Kind
    play: Callable[[World, Sequence[Any], Any, Any], Played]  # (world, items, cfg, state)
    demand: Callable[[Any], list[Ask]]
    exam: Callable[[Any], Exam]
    prompts_of: Callable[[Any, Any], Prompts]  # (cfg, item): all that may be asked because of it
    about: About = About()
    # (cfg, item): whether the item's own answer would be judged right; verifier = the run's verifier judges it; None
    # where nothing is compared with it
    matches: Callable[[Any, Any], bool] | Literal["verifier"] | None = None
    # the config of a probe with so many items and samples, and the metrics looked at (evaluation/probes.py)
    probe: Callable[[Any, int, int], Any] | None = None
    probed: tuple[str, ...] = ()
    # fields that its Config has no more, with the value that they did nothing at: a run with that value goes on
    removed: Mapping[str, Any] = {}


class GameConfig(Protocol):
    """A game as a run has it (`RunConfig.game`): any frozen dataclass that carries its `Game`, anyone's."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    game: ClassVar[Game]

    @property
    def items(self) -> int:
        """How many items an iteration takes."""
        ...


def require(cfg: GameConfig, least: Mapping[str, float]) -> None:
    """Raise ValueError where a field is below the least value it may have."""
    for name, value in least.items():
        if getattr(cfg, name) < value:
            raise ValueError(f"{key_of(type(cfg))}.{name}={getattr(cfg, name)}: must be at least {value}")


def read_prompts(cfg: Any, *packages: str) -> None:
    """Read the folder `prompts` of a game into its `templates`: a run is bound to the texts, not to their folder.

    Args:
      packages: those whose prompts they replace.
    Raises: as `prompts.overridden`.
    """
    templates = prompts.overridden(key_of(type(cfg)), cfg.templates, cfg.prompts, *packages)
    object.__setattr__(cfg, "templates", templates)
    object.__setattr__(cfg, "prompts", "")
