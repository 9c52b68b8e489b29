"""Messages to prompt ids: by the model's chat template, or as a plain conversation for base models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from spicejax.text import prompts
from spicejax.text.tokens import Tokenizer

Template = Literal["chat", "conversation"]

CONVERSATION = """\
What follows is a conversation in which a User asks and an Assistant helps. Before replying, the Assistant first works \
through the problem in its mind, then tells the User the answer.

User: {request}

Assistant:"""
# A base model ends its turn by opening the other side's.
CONVERSATION_STOPS = ("\nUser:", "\nAssistant:")


def render(tokenizer: Tokenizer, messages: Sequence[Mapping[str, str]], template: Template) -> list[int]:
    """Prompt ids of `messages`; a conversation holds the last turn alone."""
    if template == "chat":
        return tokenizer.render_chat(messages)
    return tokenizer.encode_raw(prompts.fill(CONVERSATION, request=messages[-1]["content"]))


def opening(tokenizer: Tokenizer, template: Template) -> str:
    """The begin of the reply that the prompt already holds: thinking that the chat template opens, else nothing."""
    return tokenizer.chat.opening() if template == "chat" and tokenizer.chat else ""


def reply(tokenizer: Tokenizer, template: Template, text: str, *, ended: bool = True) -> list[int]:
    """Ids of a whole reply, or of its last turn, with the end of turn where it has `ended`.

    Raises: ValueError where the prompt opens thinking, which a given reply neither continues nor closes.
    """
    if begun := opening(tokenizer, template):
        raise ValueError(
            f"{tokenizer.source}: its chat template opens thinking ({begun.strip()}) in every prompt, which given "
            "replies do not go on from; write a chat_template.jinja that ends with the assistant's header"
        )
    end = tokenizer.turn_end if template == "chat" else tokenizer.eos_ids[0]
    return [*tokenizer.encode(text), *([end] if ended else [])]


def stop_strings(template: Template) -> tuple[str, ...]:
    """Strings that end a response, besides the tokenizer's end tokens."""
    return CONVERSATION_STOPS if template == "conversation" else ()
