"""Code for a model card that loads an exported model and asks it as it was trained, greedily."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from spicejax.report import game
from spicejax.report.base import Base
from spicejax.report.game import QUESTION
from spicejax.text import prompts, render
from spicejax.types import Messages


class Usage(NamedTuple):
    """How a run asks a held-out question."""

    messages: Messages
    max_new: int  # longest answer, in tokens
    searches: bool
    conversation: bool  # in the plain words for base models, not by a chat template


def asked(config: dict[str, Any], folder: Path) -> Usage | None:
    """Of the configuration of a run in its folder; None where its game is not known."""
    found = game.asked(config, folder)
    if found is None:
        return None
    longest, template = (config.get(part) or {} for part in ("eval", "model"))
    most = longest.get("max_new") or found.max_new
    return Usage(found.messages, most, found.searches, template.get("template") == "conversation")


def usage(name: str, base: Base, how: Usage | None, adapter: bool) -> list[str]:
    """Lines of Markdown.

    Args:
      name: of the model, by which it is loaded.
      adapter: it is the adapters alone.
    """
    if adapter and not base.loads:
        return [
            *("## Use", "", f"These are adapters for {base.words}, which transformers and PEFT cannot load by a name."),
            "Of the run that made them, this writes the whole model, adapters merged:",
            *("", "```bash", "spicejax export --run=RUN --out=FOLDER", "```", ""),
            'and `pipeline("text-generation", model="FOLDER")` of transformers loads it.',
            "",
        ]
    how = how or Usage([{"role": "user", "content": QUESTION}], 512, False, False)
    load = [f'speak = pipeline("text-generation", model={json.dumps(name)})']
    if adapter:
        hub = base.name and base.loads == base.name
        where = json.dumps(base.loads if hub else Path(base.loads).name)
        load = [
            f"base = AutoModelForCausalLM.from_pretrained({where})"
            + ("" if hub else f"  # the folder of {base.words}"),
            f"model = PeftModel.from_pretrained(base, {json.dumps(name)})",
            f'speak = pipeline("text-generation", model=model, tokenizer={json.dumps(name)})',
        ]
    imports = ["from transformers import pipeline"]
    if adapter:
        imports = ["from peft import PeftModel", "from transformers import AutoModelForCausalLM, pipeline"]
    said = ["The prompt is the one it was trained with, and the answer the likeliest one, not a sample."]
    if how.searches:
        said.append(
            "It was trained to search between its turns: this shows the first turn, `spicejax ask` does it all."
        )
    return ["## Use", "", " ".join(said), "", "```python", *imports, "", *load, *_ask(how), "```", ""]


def _ask(how: Usage) -> list[str]:
    """The code that asks."""
    lines = ['question = "What is the capital of France?"']
    if how.conversation:
        request = how.messages[-1]["content"]
        lines += [f"prompt = {_literal(prompts.fill(render.CONVERSATION, request=request))}"]
        ask = f'prompt.replace("{QUESTION}", question)'
        more = f", stop_strings={json.dumps(render.CONVERSATION_STOPS)}, tokenizer=speak.tokenizer"
    else:
        turns = [f'    {{"role": "{turn["role"]}", "content": {_literal(turn["content"])}}},' for turn in how.messages]
        lines += ["messages = [", *turns, "]", "for turn in messages:"]
        lines += [f'    turn["content"] = turn["content"].replace("{QUESTION}", question)']
        ask, more = "messages", ""
    call = f"speak({ask}, max_new_tokens={how.max_new}, do_sample=False, return_full_text=False{more})"
    return [*lines, f'print({call}[0]["generated_text"])']


def _literal(text: str) -> str:
    """Python that is this text, as readable as may be."""
    plain = '"""' not in text and not text.endswith(('"', "\\"))
    return f'r"""{text}"""' if plain and ("\n" in text or "\\" in text) else json.dumps(text, ensure_ascii=False)
