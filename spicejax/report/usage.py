"""Code for a model card that loads an exported model and asks it as it was trained, greedily."""

from __future__ import annotations

import json
from pathlib import Path

from spicejax.report.base import Base
from spicejax.report.game import QUESTION, Asked
from spicejax.text import prompts, render


def usage(name: str, base: Base, how: Asked | None, *, adapter: bool, conversation: bool) -> list[str]:
    """Lines of Markdown.

    Args:
      name: of the model, by which it is loaded.
      how: the run asks a held-out question; None where its game is not known.
      adapter: the model is the adapters alone.
      conversation: it is asked in the plain words for base models, not by a chat template.
    """
    if adapter and not base.loads:
        return [
            *("## Use", "", f"These are adapters for {base.words}, which transformers and PEFT cannot load by a name."),
            "Of the run that made them, this writes the whole model, adapters merged:",
            *("", "```bash", "spicejax export --run=RUN --out=FOLDER", "```", ""),
            'and `pipeline("text-generation", model="FOLDER")` of transformers loads it.',
            "",
        ]
    how = how or Asked([{"role": "user", "content": QUESTION}], 512, False)
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
    return ["## Use", "", " ".join(said), "", "```python", *imports, "", *load, *_ask(how, conversation), "```", ""]


def _ask(how: Asked, conversation: bool) -> list[str]:
    """The code that asks."""
    lines = ['question = "What is the capital of France?"']
    if conversation:
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
