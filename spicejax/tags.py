"""How a model asks for a search in the middle of a reply, and how it is shown what was found."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from spicejax.types import Passage

THINK = ("<think>", "</think>")  # around thinking


@dataclasses.dataclass(frozen=True)
class Tags:
    """The strings around a query, an observation and a passage."""

    query: tuple[str, str]  # around a query; the closing one pauses the row
    observation: tuple[str, str]  # around the passages
    passage: str  # one passage: {n}, counted from 1, {title} and {text}
    ends: tuple[str, ...] = ()  # strings that end a row, such as the closing tag of an answer

    def __post_init__(self) -> None:
        if not all((*self.query, *self.observation, *self.ends)):
            raise ValueError(f"tags {self.query}, {self.observation}, {self.ends}: none may be empty; write each out")

    @property
    def stops(self) -> tuple[str, ...]:
        """Where the model's turn ends, beside its own stops."""
        return (self.query[1], *self.ends)

    def show(self, passages: Sequence[Passage]) -> str:
        """The observation as text."""
        numbered = (self.passage.format(n=n, title=p.title, text=p.text) for n, p in enumerate(passages, 1))
        return "\n\n" + "\n".join([self.observation[0], *numbered, self.observation[1]]) + "\n\n"


# Search Self-Play and Search-R1; where questions are proposed the row ends with </question>.
SEARCH_TAGS = Tags(
    query=("<search>", "</search>"),
    observation=("<information>", "</information>"),
    passage="Doc {n} (Title: {title})\n{text}",
    ends=("</answer>",),
)
# R-Search.
OBSERVATION_TAGS = dataclasses.replace(SEARCH_TAGS, observation=("<observation>", "</observation>"))
# R1-Searcher, which lets a row write on behind its answer.
QUERY_TAGS = Tags(
    query=("<|begin_of_query|>", "<|end_of_query|>"),
    observation=("<|begin_of_documents|>", "<|end_of_documents|>"),
    passage="({n}){title} {text}",
)

# The nano world's, whose passages name what they are about.
NANO_TAGS = dataclasses.replace(SEARCH_TAGS, passage="{text}")
