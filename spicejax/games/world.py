"""The world a game is played in: who sits in which seat, and the functions a game may call."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import jax
import numpy as np

from spicejax.generate import search
from spicejax.generate.endpoint import Chat
from spicejax.generate.player import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.score import answers, judge
from spicejax.score.sandbox import Ran
from spicejax.tags import Tags
from spicejax.types import Example, Messages, Passage, Rollout, Task


class Verdict(Protocol):
    """What a check says of one answer."""

    @property
    def correct(self) -> bool: ...

    @property
    def how(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class World:
    """Seats and functions of one iteration. Everything random in a game derives from `seed` and `iteration`."""

    players: Mapping[str, Player]  # role -> player; self-play seats several roles on one policy
    check: Callable[[Sequence[tuple[str | None, Task]]], Sequence[Verdict]]
    sampler: SamplerConfig
    seed: int
    iteration: int
    find: search.SearchFn | None = None  # the run's search engine, where a game of it searches
    chat: Chat | None = None  # the run's server for judging, where it names one
    programs: Callable[[Sequence[str]], Sequence[Ran]] | None = None  # runs them, where the game may
    examined: frozenset[str] = frozenset()  # what the evaluation asks, as `answers.tokens` has it
    # seconds spent, each once, by what: sampling, searching, checking, judging, programs
    clock: defaultdict[str, float] = dataclasses.field(default_factory=lambda: defaultdict(float))
    # rows of each stream that were drawn in this world
    drawn: defaultdict[int, set[int]] = dataclasses.field(default_factory=lambda: defaultdict(set), init=False)

    def ask(
        self,
        role: str,
        prompts: Sequence[Messages],
        *,
        samples: int,
        first_row: Sequence[int],
        max_new: int,
        stream: int,
    ) -> list[list[Rollout]]:
        """Sample responses of `role` to each prompt.

        Args:
          first_row: row id of each prompt's first response, see `Respond`.
          stream: name of the random stream; roles with streams of their own never share draws.
        Raises: ValueError for a role that has no seat, and where a row of this stream is drawn twice.
        """
        player = self._player(role)
        self._draw(role, first_row, samples, stream)
        with self._timed("sampling"):
            return player.respond(
                [player.render(p) for p in prompts],
                samples=samples,
                first_row=first_row,
                key=self.key(stream),
                settings=self.sampler,
                max_new=max_new,
            )

    def search(
        self,
        role: str,
        prompts: Sequence[Messages],
        *,
        tags: Tags,
        limits: search.Limits,
        samples: int,
        first_row: Sequence[int],
        stream: int,
    ) -> list[list[search.Searched]]:
        """Sample rows of several turns of `role`; between two turns it is shown what the search engine finds."""
        find, player = self.find, self._player(role)
        if find is None:
            raise ValueError("this game searches, and the run has no search engine; give retrieval.index=FOLDER")
        self._draw(role, first_row, samples, stream)
        before = self.clock["searching"]

        def timed(queries: list[str], limit: int) -> list[list[Passage]]:
            with self._timed("searching"):
                return find(queries, limit)

        with self._timed("sampling"):
            rows = search.search(
                player,
                [player.render(p) for p in prompts],
                search_fn=timed,
                tags=tags,
                limits=limits,
                samples=samples,
                first_row=first_row,
                key=self.key(stream),
                settings=self.sampler,
            )
        self.clock["sampling"] -= self.clock["searching"] - before
        return rows

    def look_up(self, queries: Sequence[str], limit: int) -> list[list[Passage]]:
        """The best passages of each query, at most `limit`; equal queries are looked up once."""
        if self.find is None:
            raise ValueError(
                "this game looks up passages, and the run has no search engine; give retrieval.index=FOLDER"
            )
        distinct = list(dict.fromkeys(queries))
        with self._timed("searching"):
            passages_of = dict(zip(distinct, self.find(distinct, limit) if distinct else [], strict=True))
        return [passages_of[query] for query in queries]

    def execute(self, programs: Sequence[str]) -> list[Ran]:
        """Run programs that a player wrote."""
        if not programs:
            return []
        if self.programs is None:
            raise ValueError("this game runs programs, and the run has no sandbox for them")
        with self._timed("programs"):
            return list(self.programs(programs))

    def judge(self, claims: Sequence[judge.Claim], *, max_new: int) -> list[bool]:
        """Whether each answer says the same as a reference: by the run's server, else by the seat `judge`, greedy.

        A claim without an answer, or one that is too long for the seat, is not right; nobody is asked about it.

        Args:
          max_new: longest reply of the seat, in tokens; the server has its own.
        """
        messages = {n: judge.prompt(claim) for n, claim in enumerate(claims) if claim.answer}
        if self.chat is None:
            messages = {n: prompt for n, prompt in messages.items() if self.fits("judge", prompt)}
        with self._timed("judging"):
            replies = self._verdicts(messages, max_new) if messages else []
        agreed = dict(zip(messages, map(judge.agrees, replies), strict=True))
        return [agreed.get(n, False) for n in range(len(claims))]

    def _verdicts(self, messages: Mapping[int, Messages], max_new: int) -> list[str]:
        """What the judge replies to these prompts, by the number of their claim."""
        prompts = list(messages.values())
        if self.chat is not None:
            return self.chat(prompts)
        # With a clock of its own, or its seconds would count as sampling too
        greedy = dataclasses.replace(self, sampler=SamplerConfig(temperature=0.0), clock=defaultdict(float))
        rollouts = greedy.ask("judge", prompts, samples=1, first_row=list(messages), max_new=max_new, stream=0)
        return [reply.text for (reply,) in rollouts]

    def given(self, role: str, example: Example, ask: Callable[[Task], Messages]) -> Rollout:
        """An example as a rollout of `role`: as if the player had written all of it but what it was shown.

        Who wrote a token is known from where it stands, as in rollouts; the loss mask of what was shown is 0.

        Args:
          ask: a question's prompt, for examples that have one.
        """
        player = self._player(role)
        messages = example.messages or ask(Task(example.question, "", "String"))
        parts = [(player.encode(text), by) for turn in example.turns for text, by in zip(turn, (1, 0), strict=True)]
        parts.append((player.write(example.reply, ended=example.ended), 1))
        ids = np.array([token for tokens, _ in parts for token in tokens], np.int32)
        mask = np.repeat(np.array([by for _, by in parts], np.float32), [len(tokens) for tokens, _ in parts])
        text = "".join([*(text for turn in example.turns for text in turn), example.reply])
        none = np.zeros(len(ids), np.float32)
        return Rollout(np.asarray(player.render(messages), np.int32), ids, none, none, mask, text, "stop")

    def examines(self, question: str) -> bool:
        """Whether the evaluation asks this question too, word for word."""
        return bool(self.examined) and answers.tokens(question) in self.examined

    def fits(self, role: str, prompt: Messages, behind: int = 0) -> bool:
        """Whether the rendered prompt and `behind` tokens after it (`Ask.behind`) fit the player's longest bucket."""
        player = self._player(role)
        return len(player.render(prompt)) + behind <= player.buckets.prompt[-1]

    def _player(self, role: str) -> Player:
        if role not in self.players:
            raise ValueError(f"the game asks {role!r}, who has no seat: its demand names {', '.join(self.players)}")
        return self.players[role]

    def _draw(self, role: str, first_row: Sequence[int], samples: int, stream: int) -> None:
        """Note the rows of a call. Raises ValueError where one was drawn before: both would get the same noise."""
        rows, drawn = Counter(row + j for row in first_row for j in range(samples)), self.drawn[stream]
        again = [row for row, times in rows.items() if times > 1 or row in drawn]
        if again and self.sampler.temperature:
            raise ValueError(
                f"row {again[0]} of stream {stream} is drawn twice, the second time for {role!r}: give each prompt a "
                "first_row that is `samples` behind the one before, and each call a stream of its own"
            )
        drawn.update(rows)

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.clock[what] += time.perf_counter() - began

    def key(self, stream: int) -> jax.Array:
        """Typed key of (seed, iteration, stream)."""
        return jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), self.iteration), stream)

    def rng(self, *stream: int) -> np.random.Generator:
        """Host-side generator of (seed, iteration, stream)."""
        return np.random.default_rng([self.seed, self.iteration, *stream])
