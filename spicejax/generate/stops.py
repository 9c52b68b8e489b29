"""Stop tokens and stop strings as one finite-state machine over token ids, so that the sampler can stop in-graph."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

ACCEPT = -1  # in `transitions`: this token completes a stop


@dataclasses.dataclass(frozen=True, eq=False)  # compared by identity: comparing tables would cost a pass over them
class StopMachine:
    """`state = transitions[token, state]`, starting at 0; ACCEPT means the response ends with this token."""

    transitions: np.ndarray  # int16 [V, S]
    strings: tuple[str, ...]
    token_bytes: Sequence[bytes] | None = None  # of each token; needed to add strings

    def trim(self, text: str) -> str:
        """Cut `text` before the first stop string in it."""
        ends = [text.find(s) for s in self.strings if s in text]
        return text[: min(ends)] if ends else text


def stop_machine(
    vocab_size: int, stop_ids: Sequence[int], strings: Sequence[str] = (), token_bytes: Sequence[bytes] | None = None
) -> StopMachine:
    """Build the machine (Aho-Corasick over the bytes of the stop strings, run once over every token's bytes).

    Args:
      vocab_size: rows of the model's vocabulary (may exceed the tokenizer's).
      stop_ids: token ids that end a response by themselves.
      strings: texts that end a response, also where they start or end inside a token.
      token_bytes: the bytes each token adds; needed with `strings`, and for `also`.
    Raises: ValueError for an id outside the vocabulary.
    """
    bad = [i for i in stop_ids if not 0 <= i < vocab_size]
    if bad:
        raise ValueError(f"stop token ids {bad} lie outside the vocabulary of {vocab_size}")
    goto = _automaton([s.encode() for s in strings])
    table = np.tile(np.arange(len(goto), dtype=np.int16), (vocab_size, 1))
    if token_bytes is not None and strings:
        table[: len(token_bytes)] = _run(goto, token_bytes[:vocab_size])
    table[list(stop_ids)] = ACCEPT
    return StopMachine(table, tuple(strings), token_bytes)


@functools.lru_cache(maxsize=8)
def also(machine: StopMachine, strings: tuple[str, ...]) -> StopMachine:
    """A machine that stops at these strings too; the same object for the same arguments.

    Raises: ValueError for a machine without the bytes of its tokens.
    """
    if machine.token_bytes is None:
        raise ValueError(f"stop strings {strings} need the bytes of the tokens; give stop_machine token_bytes")
    ends = np.flatnonzero(machine.transitions[:, 0] == ACCEPT)  # stop tokens, and those that hold a whole stop string
    return stop_machine(len(machine.transitions), ends.tolist(), machine.strings + strings, machine.token_bytes)


def _automaton(patterns: list[bytes]) -> np.ndarray:
    """Aho-Corasick `goto` int16 [S, 256] with ACCEPT where a pattern is complete."""
    edges: list[dict[int, int]] = [{}]
    final = [False]
    for pattern in patterns:
        node = 0
        for byte in pattern:
            if byte not in edges[node]:
                edges.append({})
                final.append(False)
                edges[node][byte] = len(edges) - 1
            node = edges[node][byte]
        final[node] = True
    goto = np.zeros((len(edges), 256), np.int16)
    fail = [0] * len(edges)
    queue = [0]
    for node in queue:  # breadth first: the list grows while it is read
        final[node] = final[node] or final[fail[node]]
        goto[node] = goto[fail[node]]
        for byte, child in edges[node].items():
            fail[child] = int(goto[fail[node], byte])
            goto[node, byte] = child
            queue.append(child)
    goto[np.isin(goto, np.flatnonzero(final))] = ACCEPT
    return goto


def _run(goto: np.ndarray, token_bytes: Sequence[bytes]) -> np.ndarray:
    """States int16 [V, S] after each token's bytes from each state."""
    longest = max((len(b) for b in token_bytes), default=0)
    state = np.tile(np.arange(len(goto), dtype=np.int16), (len(token_bytes), 1))
    lengths = np.fromiter((len(b) for b in token_bytes), np.int64, len(token_bytes))
    for i in range(longest):
        live = np.flatnonzero(lengths > i)
        byte = np.fromiter((token_bytes[int(j)][i] for j in live), np.int64, len(live))
        now = state[live]
        state[live] = np.where(now == ACCEPT, ACCEPT, goto[now, byte[:, None]])
    return state
