"""Cutting a document into segments of at most so many tokens, at paragraphs and sentences where that is possible."""

from __future__ import annotations

import re
from collections.abc import Callable, Sized

# Places to cut, the best first; each match is the end of a unit.
BOUNDARIES = (
    re.compile(r"\n[ \t]*\n\s*"),  # paragraphs
    re.compile(r"\n+|(?<=[.!?。！？])[\"'”’)\]]*\s+"),  # lines and sentences
    re.compile(r"\s+"),  # words
)

Span = tuple[int, int]
HUGE = 2**20  # characters; of longer documents the smallest units are not counted one by one


def cut(text: str, encode: Callable[[str], Sized], max_tokens: int) -> list[str]:
    """Cut `text` into consecutive segments of similar length, of at most `max_tokens` tokens.

    Only whitespace at the cuts is lost.

    Raises:
      ValueError: one character alone has more than `max_tokens` tokens.
    """

    def count(a: int, b: int) -> int:
        return len(encode(text[a:b].strip()))

    total = len(encode(text.strip()))
    if total <= max_tokens:
        return [text.strip()]
    parts = -(-total // max_tokens)
    target = min(max_tokens, -(-total // parts) + max_tokens // 20)  # even parts, with room for uneven paragraphs
    units = _units(text, count, target, (0, len(text)), total, 0)
    # What the whitespace between two units costs, on average: the counts of single units leave it out.
    joint = max(0.0, (total - sum(size for _, size in units)) / (len(units) - 1))
    spans = _pack(units, joint, count, target, max_tokens)
    return [segment for a, b in spans if (segment := text[a:b].strip())]


def _units(
    text: str, count: Callable[[int, int], int], target: int, span: Span, size: int, level: int
) -> list[tuple[Span, int]]:
    """Split `span`, which has `size` tokens, into units of at most `target` tokens, with their token counts."""
    if size <= target:
        return [(span, size)]
    ends: list[int] = []
    while not ends and level < len(BOUNDARIES):
        ends = [m.end() for m in BOUNDARIES[level].finditer(text, *span) if span[0] < m.end() < span[1]]
        if span[1] - span[0] > HUGE:  # units of a few characters are too many to count one by one
            ends = _apart(ends, span[0], target // 8)
        level += 1
    if not ends and span[1] - span[0] > 1:
        ends = [(span[0] + span[1]) // 2]
    elif not ends:
        raise ValueError(f"the character {text[span[0]]!r} has {size} tokens, more than {target}; raise max_tokens")
    bounds = [span[0], *ends, span[1]]
    pieces = zip(bounds, bounds[1:], strict=False)
    return [unit for piece in pieces for unit in _units(text, count, target, piece, count(*piece), level)]


def _apart(ends: list[int], start: int, least: int) -> list[int]:
    """Keep those of `ends` that lie at least `least` characters behind the one before."""
    starts = [start]
    for end in ends:
        if end - starts[-1] >= least:
            starts.append(end)
    return starts[1:]


def _pack(
    units: list[tuple[Span, int]], joint: float, count: Callable[[int, int], int], target: int, max_tokens: int
) -> list[Span]:
    """Join neighbouring units while they fit `target` by estimate; then count the joined text exactly."""
    segments: list[Span] = []
    i = 0
    while i < len(units):
        (start, end), size = units[i]
        j = i + 1
        while j < len(units) and size + joint + units[j][1] <= target:
            size += joint + units[j][1]
            end = units[j][0][1]
            j += 1
        while j > i + 1 and count(start, end) > max_tokens:
            j -= 1
            end = units[j - 1][0][1]
        segments.append((start, end))
        i = j
    if len(segments) > 1:
        # A short tail joins its neighbour where both fit.
        (a, b), (c, d) = segments[-2:]
        if count(c, d) * 4 < target and count(a, d) <= max_tokens:
            segments[-2:] = [(a, d)]
    return segments
