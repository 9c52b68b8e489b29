"""The nouns that cross rooms: Document, Passage, Task, Answer, Rejection, Rollout, Episode, Preference, Batch.

Every shape is written here once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

AnswerType = Literal["MCQ", "Integer", "Float", "Expression", "String", "Boolean", "List"]
ANSWER_TYPES: tuple[str, ...] = get_args(AnswerType)

# What a loss takes: scored = Episodes whose rewards say how good they are; given = Episodes to be imitated; pair =
# Preferences
LessonKind = Literal["scored", "given", "pair"]
# of advantages, see learn/advantages.py
Estimator = Literal["mean", "mean_std", "rloo", "max_rl", "whiten", "mean_whiten", "rae", "none"]
FinishReason = Literal["stop", "length"]


@dataclasses.dataclass(frozen=True)
class Document:
    """One segment of the corpus, at most the corpus's `max_tokens` long."""

    id: str  # stable: source id, or the content hash where the source has none; segments carry "#k"
    text: str
    title: str = ""


@dataclasses.dataclass(frozen=True)
class Passage:
    """A piece of a corpus as a search returns it."""

    id: str  # of its document; "#k" behind it where the document was cut
    title: str
    text: str


@dataclasses.dataclass(frozen=True)
class Task:
    """One valid question of a Challenger, or one item of a benchmark."""

    question: str  # the full text the Reasoner sees; an MCQ carries its options A) to D)
    answer: str  # gold answer as text; the letter for an MCQ
    answer_type: AnswerType
    id: str = ""  # of the question; a Challenger's task has that of its document
    options: tuple[str, ...] = ()  # the four option texts of an MCQ, in the order A to D
    aliases: tuple[str, ...] = ()  # other accepted answers, String only
    context: str = ""  # the text that the question is about, for games that show it
    kind: str = ""  # how it is asked, for games that know several ways; "" = as the game's configuration says


@dataclasses.dataclass(frozen=True)
class Example:
    """A prompt with the reply that shall be learnt."""

    prompt: tuple[tuple[str, str], ...]  # (role, content) of each turn; () = `question` is asked as the game does
    reply: str
    source: str = ""  # the set it is from, where it is told
    question: str = ""
    # what stands between prompt and reply: text that is learnt, and what it was shown then, which is not
    turns: tuple[tuple[str, str], ...] = ()
    ended: bool = True  # the reply's end of turn is learnt too; False where a tag ends the row

    @property
    def messages(self) -> Messages:
        """The prompt as a chat."""
        return [{"role": speaker, "content": text} for speaker, text in self.prompt]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a question that is still to be asked shall be answered with."""

    text: str
    aliases: tuple[str, ...] = ()  # other accepted texts
    searches: int = 0  # that finding it shall take; 0 = the game says
    id: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All that counts as the answer."""
        return (self.text, *self.aliases)


@dataclasses.dataclass(frozen=True)
class Rejection:
    """Why a Challenger's text is no valid task."""

    reason: str  # one of the game's own, counted per iteration
    detail: str = ""  # for the log, at most 200 characters


UNSAMPLED = 1.0  # an impossible logprob: of a token that is learnt though nobody sampled it


@dataclasses.dataclass(frozen=True)
class Rollout:
    """One sampled response, kept as token ids: text is for people and parsers, never re-tokenised for training."""

    prompt_ids: np.ndarray  # int32 [P]
    token_ids: np.ndarray  # int32 [R], the stop token included when there was one
    logprobs: np.ndarray  # float32 [R], under the plain model (temperature 1, nothing cut); 0 where not written by it
    sample_logprobs: np.ndarray  # float32 [R], under the distribution sampled from; 0 likewise, or UNSAMPLED
    loss_mask: np.ndarray  # float32 [R], 1 = the policy wrote this token
    text: str  # decoded response without stop token and stop string, behind thinking that the prompt opened
    finish_reason: FinishReason
    reference_logprobs: np.ndarray | None = None  # float32 [R], the first policy's, where they are kept

    def unmasked(self) -> Rollout:
        """The same with every token learnt; what nobody sampled has the logprob UNSAMPLED."""
        sampled = np.where(self.loss_mask > 0, self.sample_logprobs, UNSAMPLED).astype(np.float32)
        return dataclasses.replace(self, sample_logprobs=sampled, loss_mask=np.ones_like(self.loss_mask))


@dataclasses.dataclass(frozen=True)
class Episode:
    """One scored rollout. `group` shares one baseline; ids are unique over roles within an iteration."""

    role: str
    group: int
    rollout: Rollout
    reward: float


@dataclasses.dataclass(frozen=True)
class Preference:
    """Two responses to one prompt, of which the first is better. `group` keeps pairs of one origin in one step."""

    role: str
    group: int
    chosen: Rollout
    rejected: Rollout

    def __post_init__(self) -> None:
        if not np.array_equal(self.chosen.prompt_ids, self.rejected.prompt_ids):
            raise ValueError(f"a preference of {self.role} has two prompts; both responses must answer one")


Lesson = Episode | Preference


class Batch(NamedTuple):
    """Rows for the learner, A micro-batches of B rows of T tokens, of which the last S of each row can be scored.

    Packed rows: S = T; several episodes share a row, `segment_ids` keep them apart, `positions` restart with each.
    Rows of slots: T = P + S; prompts stand in the first P tokens, each once, their responses in slots behind; a
    prompt and its responses are one segment, and the positions of each response go on where its prompt ends.
    """

    # Each is a numpy array when packed and a jax array on the devices.
    # [A, B, T]
    tokens: Any  # int32
    positions: Any  # int32
    segment_ids: Any  # int32, 0 = padding
    # [A, B, S]: index s scores the token at T - S + s
    loss_weight: Any  # float32, loss_mask x the token's share of the loss; 0 = not trained
    advantages: Any  # float32
    behaviour_logprobs: Any  # float32, under the distribution sampled from; 0 where not trained, or UNSAMPLED
    old_logprobs: Any  # float32, the learner's own before the first update; 0 where not trained, not read on policy
    reference_logprobs: Any  # float32, the frozen reference's, for the KL term, dpo and ipo; 0 without one
    predict_from: Any  # int32, index in the row of the token before the scored one: its hidden state predicts it
    # int32, where the loss asks for it: number of the token's response in its row, from 1; of preferences k for the
    # chosen and -k for the rejected one of the row's pair k; 0 = none
    responses: Any = None

    @classmethod
    def filled(
        cls,
        fill: Callable[[tuple[int, ...], Any], Any],
        lead: tuple[int, ...],
        length: int,
        scored: int,
        *,
        numbered: bool = False,
    ) -> Batch:
        """A batch of what `fill(shape, dtype)` makes, such as `np.zeros`, [*lead, length] or [*lead, scored] each."""
        ids = {name: fill((*lead, length), np.int32) for name in ("tokens", "positions", "segment_ids")}
        names = ("loss_weight", "advantages", "behaviour_logprobs", "old_logprobs", "reference_logprobs")
        scores = {name: fill((*lead, scored), np.float32) for name in names}
        responses = fill((*lead, scored), np.int32) if numbered else None
        return cls(**ids, **scores, predict_from=fill((*lead, scored), np.int32), responses=responses)


Messages = list[dict[str, str]]  # a chat: role and content of each turn
Metrics = dict[str, float]
Params = dict[str, Any]  # nested dict of jax arrays
