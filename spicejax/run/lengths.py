"""Checks that every prompt fits the longest bucket of the sampler, before the weights are loaded."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from spicejax import hosts
from spicejax.data import prepared
from spicejax.data.items import Items
from spicejax.data.questions import Item
from spicejax.evaluation.held_out import question
from spicejax.games.game import Prompts
from spicejax.run.config import RunConfig
from spicejax.text import render, tokens
from spicejax.text.tokens import Tokenizer
from spicejax.types import Document, Messages, Task

log = logging.getLogger("spicejax")

# Most tokens that a document costs in a prompt beyond its own: where it meets the prompt's text its first and last word
# may be cut into other pieces.
JOINT = 2
# Questions or examples that are rendered, those of the most characters: a thousand take half a second.
RENDERED = 10_000


class ChatFormat(NamedTuple):
    """How a model turns messages into a prompt."""

    tokenizer: Tokenizer
    template: render.Template

    def length(self, messages: Messages) -> int:
        """Tokens of the rendered prompt."""
        return len(render.render(self.tokenizer, messages, self.template))


class _Formats(dict[str, ChatFormat]):
    """The formats by seat; a game may ask who has none."""

    def __missing__(self, seat: str) -> ChatFormat:
        seats = ", ".join(filter(None, self))
        raise ValueError(f"the game asks {seat!r}, who has no seat: its demand names {seats}")


def chat_formats(cfg: RunConfig, tokenizer: Tokenizer) -> dict[str, ChatFormat]:
    """The format of every seat; `tokenizer` is that of the policy, whose format also stands under ""."""
    policy = ChatFormat(tokenizer.dated(cfg.model.date), cfg.model.template)
    formats = _Formats({"": policy} | dict.fromkeys((ask.seat or ask.role for ask in cfg.asks), policy))
    for role, path in cfg.folders_of_seats.items():
        formats[role] = load_chat_format(path, cfg.model.date)
    return formats


def load_chat_format(path: str, date: str = "") -> ChatFormat:
    """Load the format of another model: its chat template where it has one, at a date (see model.date)."""
    tokenizer = tokens.load(path).dated(date)
    return ChatFormat(tokenizer, "conversation" if tokenizer.chat is None else "chat")


def require_documents_fit(cfg: RunConfig, formats: Mapping[str, ChatFormat]) -> None:
    """Raise ValueError where a document of the most tokens that cfg.corpus allows makes too long a prompt.

    No document is read: each prompt is rendered around a text of that length.
    """
    longest, others = cfg.corpus.max_tokens, _seats_with_other_tokenizers(cfg, formats)
    own = {seat: chat_format for seat, chat_format in formats.items() if seat not in others}
    _require_fits(cfg, own, longest, f"a document of corpus.max_tokens={longest}")


def _seats_with_other_tokenizers(cfg: RunConfig, formats: Mapping[str, ChatFormat]) -> list[str]:
    """The seats that read documents by another tokenizer than that of the policy, which cut them."""
    shown = {seat for seat, _ in cfg.game.game.prompts_of(cfg.game, Document("", ""))}
    probes = {seat: prepared.probe(formats[seat].tokenizer.encode) for seat in {"", *shown} & formats.keys()}
    return sorted(seat for seat, probe in probes.items() if probe != probes[""])


def _require_fits(cfg: RunConfig, formats: Mapping[str, ChatFormat], longest: int, name: str) -> None:
    """The same for a document of `longest` tokens, called `name`, and some seats."""
    text = " ".join(["a"] * longest)
    most, room, shown = 0, cfg.buckets.prompt[-1], False
    for seat, messages in cfg.game.game.prompts_of(cfg.game, Document("", text)):
        if seat in formats:
            extra = longest - len(formats[seat].tokenizer.encode(text))
            most = max(most, formats[seat].length(messages) + extra + JOINT)
            shown = shown or any(text in turn["content"] for turn in messages)
    if most > room:
        lower = cfg.corpus.max_tokens * (longest - most + room) // longest if shown else 0
        fix = f"lower corpus.max_tokens to {lower}" if lower > 0 else "take another style"
        raise ValueError(
            f"{name} makes a prompt of up to {most} tokens, "
            f"buckets.prompt ends at {room}: raise buckets.prompt, or {fix}"
        )


def _tokens_behind(cfg: RunConfig) -> dict[str, int]:
    """`Ask.behind` of each seat, the largest of its asks."""
    seats = {ask.seat or ask.role for ask in cfg.asks}
    return {seat: max(ask.behind for ask in cfg.asks if (ask.seat or ask.role) == seat) for seat in seats}


def _plus(behind: int, how: str = "and") -> str:
    """That so many tokens of a row come on top; empty for none."""
    return f" {how} {behind} of searches behind it" if behind else ""


def require_items_fit(
    cfg: RunConfig, source: Items, held_out: Sequence[Item], formats: Mapping[str, ChatFormat]
) -> None:
    """Raise ValueError where an item that is asked makes too long a prompt; what a game leaves out is logged.

    Documents were cut by the policy's tokenizer, so they are counted again for players that bring their own. Games
    leave questions and examples out that are too long; here it is an error only if none is left.
    """
    game, room = cfg.game.game, cfg.buckets.prompt[-1]
    if game.reads == "examples":
        for chat_format in formats.values():
            render.reply(*chat_format, "")
    exam, behind = game.exam(cfg.game), _tokens_behind(cfg)
    bare = formats[exam.role].length(exam.ask(Task("", "", "String")))
    if bare + exam.behind >= room:
        raise ValueError(
            f"the {exam.role}'s prompt has {bare} tokens without its question{_plus(exam.behind)}, buckets.prompt ends "
            f"at {room}: raise buckets.prompt, or shorten the prompt"
        )
    for number, item in enumerate(held_out, 1):
        length = formats[""].length(question(item, exam))  # the policy answers them, whoever has the seat
        if length + exam.behind > room:
            raise ValueError(
                f"{cfg.eval.tasks}: question {item.task.id or number} makes a prompt of {length} tokens"
                f"{_plus(exam.behind)}, buckets.prompt ends at {room}: raise buckets.prompt, or take the question out"
            )
    indices = range(len(source.sequence))
    if game.reads == "documents":
        for seat in _seats_with_other_tokenizers(cfg, formats):
            count = formats[seat].tokenizer.encode
            length, k = max((len(count(source.sequence[k].text)), k) for k in indices)
            name = f"document {source.sequence[k].id} ({seat}: {length} tokens)"
            _require_fits(cfg, {seat: formats[seat]}, length, name)
        return

    def prompts(k: int) -> Prompts:
        return game.prompts_of(cfg.game, source.sequence[k])

    def characters(k: int) -> int:
        return sum(len(turn["content"]) for _, messages in prompts(k) for turn in messages)

    looked_at = sorted(heapq.nlargest(RENDERED, indices, key=characters))
    sizes = {k: max(formats[seat].length(said) + behind[seat] for seat, said in prompts(k)) for k in looked_at}
    if long := [k + 1 for k, size in sizes.items() if size > room]:
        text = (
            f"{cfg.corpus.source}: {len(long)} of {len(indices)} {game.reads} make prompts of up to "
            f"{max(sizes.values())} tokens{_plus(max(behind.values()), 'with')}, buckets.prompt ends at {room}: "
            f"number {', '.join(map(str, long[:6]))}"
            f"{', ...' * (len(long) > 6)}"
        )
        if len(long) == len(indices):
            raise ValueError(f"{text}; raise buckets.prompt")
        log.log(logging.WARNING if hosts.leads() else logging.DEBUG, "%s are left out", text)
