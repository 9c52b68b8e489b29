"""Chats as pieces of plain text and control tokens: only the template writes control tokens, data never does."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spicejax.tags import THINK
from spicejax.text import templates
from spicejax.text.vocabulary import AddedToken, well_formed

ROLE = re.compile(r"[A-Za-z_]{1,32}")
LONGEST = 1000  # characters of an added token, each beginning of which is kept
PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))


class Chat:
    """A chat template together with the added tokens it may write.

    Every string of the messages and template arguments is data. Before rendering, a mark (one private-use character
    that occurs nowhere else) is put inside each spelling of an added token in the data, so that after rendering an
    unbroken spelling can only be the template's own. The text is cut at those, the marks are taken out, and the
    pieces in between are encoded as plain text. Where no data spells an added token this is exactly what
    `transformers` does.

    Limit: a template that looks for an added token inside a content does not find it. Qwen3's cuts `<think>` blocks
    out of earlier turns that way; pass the reasoning apart, as the message's `reasoning_content`, or leave it out.
    """

    def __init__(self, source: str, added: Sequence[AddedToken], special_names: Mapping[str, str] | None = None):
        """Compile `source`; `special_names` are the template's variables bos_token, eos_token, ... (trusted)."""
        self.source = source
        self._special_names = dict(special_names or {})
        if longest := max((token.text for token in added if len(token.text) > LONGEST), key=len, default=""):
            raise ValueError(f"added token {longest[:40]!r}... has {len(longest)} characters of {LONGEST} at most")
        self._ids = {token.text: token.id for token in added}
        self._template = templates.compiled(source)
        longest_first = sorted(added, key=lambda t: -len(t.text))
        self._swallowing = [token for token in longest_first if token.lstrip or token.rstrip]
        alternatives = "|".join(
            (r"\s*" if t.lstrip else "") + re.escape(t.text) + (r"\s*" if t.rstrip else "") for t in longest_first
        )
        starts = "|".join(re.escape(t.text) for t in longest_first)
        # Thousands of tokens are tried only where one can begin, and none is a group: each would be kept at every try.
        firsts = "".join(sorted({re.escape(t.text[0]) for t in added}))
        spaces = r"\s" if any(t.lstrip for t in added) else ""
        nothing = r"(?!)"  # where there is no added token
        self._split = re.compile(f"(?=[{firsts}{spaces}])(?:{alternatives})" if added else nothing)
        self._starts = re.compile(f"(?=[{firsts}])(?=(?:{starts}))" if added else nothing)
        self._heads = tuple({t.text[:n] for t in added for n in range(1, len(t.text))})
        self._tails = tuple({t.text[-n:] for t in added for n in range(1, len(t.text))})

    @property
    def dated(self) -> bool:
        """Whether the template writes the date."""
        return "strftime_now" in self.source

    def pieces(
        self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], date: datetime.date | None = None
    ) -> list[str | int]:
        """Render, and return plain text pieces (str) and the ids of the template's added tokens (int) in order.

        Args:
          messages: dicts with a `role` and usually a `content`; plain JSON values only.
          variables: the template's other arguments, such as add_generation_prompt or tools; data like the messages.
          date: today's date for the template; None = the day of this process's first render.
        Raises:
          ValueError: no message, a role that is no word, or a template error.
        """
        try:
            text, mark = self._render(messages, variables, date)
        except ValueError:
            if (folded := _folded(messages)) is None:
                raise
            text, mark = self._render(folded, variables, date)
        pieces: list[str | int] = []
        position = 0
        for match in self._split.finditer(text):
            pieces.append(text[position : match.start()].replace(mark, ""))
            pieces.append(self._id(match[0]))
            position = match.end()
        pieces.append(text[position:].replace(mark, ""))
        return [piece for piece in pieces if piece != ""]

    def _id(self, matched: str) -> int:
        """The added token of a match, which holds the spaces that the token swallows."""
        if (found := self._ids.get(matched)) is not None:
            return found
        around = ((token, matched.partition(token.text)) for token in self._swallowing if token.text in matched)
        return next(token.id for token, (before, _, behind) in around if not (before + behind).strip())

    def end_token(self) -> int | None:
        """Return the added token that closes an assistant's turn; None where the template writes none."""
        answer = "answer-7f3a"
        turns = [{"role": "user", "content": "question"}, {"role": "assistant", "content": answer}]
        try:
            pieces = self.pieces(turns, {"add_generation_prompt": False})
        except ValueError:
            return None
        for piece, following in itertools.pairwise(pieces):
            if isinstance(piece, str) and piece.rstrip().endswith(answer) and isinstance(following, int):
                return following
        return None

    def opening(self) -> str:
        """Return the thinking that the template opens for every reply and does not close; "" without one."""
        question, texts = "question-7f3a", {i: text for text, i in self._ids.items()}
        try:
            pieces = self.pieces([{"role": "user", "content": question}], {"add_generation_prompt": True})
        except ValueError:
            return ""
        text = "".join(piece if isinstance(piece, str) else texts[piece] for piece in pieces).rpartition(question)[2]
        begins = text.rfind(THINK[0])
        return text[begins:] if begins > text.rfind(THINK[1]) else ""

    def _render(
        self, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any], date: datetime.date | None
    ) -> tuple[str, str]:
        _check_messages(messages)
        used = set("".join(_strings([self.source, messages, variables])))
        mark = next(character for character in map(chr, itertools.chain(*PRIVATE_USE)) if character not in used)
        marked = [{k: v if k == "role" else self._marked(v, mark) for k, v in message.items()} for message in messages]
        context = {k: self._marked(v, mark) for k, v in variables.items()}
        context = {"tools": None, "documents": None, **self._special_names, **context, "messages": marked}
        context |= {} if date is None else {"strftime_now": templates.clock(date)}
        return self._template(context), mark

    def _marked(self, value: Any, mark: str) -> Any:
        if isinstance(value, str):
            return self._mark_string(well_formed(value), mark)
        if isinstance(value, Mapping):
            return {self._marked(k, mark): self._marked(v, mark) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._marked(v, mark) for v in value]
        if value is None or type(value) in (bool, int, float):
            return value
        raise ValueError(f"chat value {value!r:.80} is a {type(value).__name__}; pass plain JSON values only")

    def _mark_string(self, text: str, mark: str) -> str:
        # Every start is broken, overlapping ones too: a mark goes behind the first character of each spelling.
        cuts = [match.start() + 1 for match in self._starts.finditer(text)]
        broken = mark.join(text[a:b] for a, b in itertools.pairwise([0, *cuts, len(text)]))
        # An edge that could complete a token together with the template's text next to it is closed with a mark.
        return mark * text.startswith(self._tails) + broken + mark * text.endswith(self._heads)


def _folded(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]] | None:
    """Put the system's text before the user's first, for templates without a system role; None for other turns."""
    if [m.get("role") for m in messages[:2] if isinstance(m, Mapping)] != ["system", "user"]:
        return None
    texts = [message.get("content") for message in messages[:2]]
    if not all(isinstance(text, str) for text in texts):
        return None
    return [{**messages[1], "content": "\n\n".join(map(str, texts))}, *messages[2:]]


def _check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
    if not messages:
        raise ValueError("a chat needs at least one message; got none")
    for message in messages:
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str) or not ROLE.fullmatch(role):
            raise ValueError(f"message {message!r:.120} needs a 'role' that is a plain word such as 'user'")


def _strings(value: Any) -> Iterator[str]:
    """Every string inside a JSON-able value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for part in value.items() if isinstance(value, Mapping) else value:
            yield from _strings(part)
