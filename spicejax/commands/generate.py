"""Respond to prompts by a model or a run: spicejax generate --model=MODEL --prompt=TEXT [--max_new=N] [--temperature=T]

spicejax generate --run=runs/nano --prompts=prompts.jsonl
spicejax generate --run=runs/smollm2 --chat

--run takes the newest policy of a work folder (of a chain, of its last stage that has one), --model what model.path
takes. --prompts=FILE (- for stdin) answers every line of a text file, or every row of a .jsonl file with a "prompt" or
"messages", with one JSON object a line: prompt, text and finish_reason. --chat talks until an empty line. --raw skips
the chat template. --json prints one object (with --prompts one a line) with prompt_ids, token_ids, logprobs (of the
plain model, temperature 1), text and finish_reason.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spicejax.commands import Parser, tell
from spicejax.data.rows import read_rows
from spicejax.generate.sampler import SamplerConfig
from spicejax.run import respond
from spicejax.types import Messages, Rollout


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(__name__, __doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", help="Hugging Face folder, ORG/NAME of the Hub, .gguf file, or package:NAME")
    source.add_argument("--run", type=Path, help="work folder of a training run")
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--prompt", help="text of the user's turn, or with --raw the text to continue")
    asked.add_argument("--prompts", metavar="FILE", help="a prompt a line, or .jsonl; - reads lines from stdin")
    asked.add_argument("--chat", action="store_true", help="talk in the terminal; an empty line ends it")
    parser.add_argument("--max_new", type=int, default=128, help="most new tokens (default 128)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 = greedy (default)")
    parser.add_argument("--top_k", type=int, default=0, help="keep the k likeliest tokens; 0 = all")
    parser.add_argument("--top_p", type=float, default=1.0, help="keep this much probability mass; 1 = all")
    parser.add_argument("--min_p", type=float, default=0.0, help="drop tokens below min_p x the likeliest; 0 = none")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="precision")
    parser.add_argument("--raw", action="store_true", help="no chat template: continue the prompt itself")
    parser.add_argument("--json", action="store_true", help="print JSON, with token ids and logprobs")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> None:
    """Print responses."""
    args = arguments(argv)
    if args.max_new < 1:
        raise ValueError(f"--max_new={args.max_new}: must be at least 1")
    if args.chat and args.raw:
        raise ValueError("--raw has no turns to chat in; leave one of --raw and --chat out")
    if args.chat and args.json:
        raise ValueError("--json prints no chat; leave one of --json and --chat out")
    asked = _read(args.prompts) if args.prompts else [[{"role": "user", "content": args.prompt}]]
    settings = SamplerConfig(args.temperature, args.top_k, args.top_p, args.min_p)
    loaded = respond.load(args.model, args.run, args.dtype, sys.stderr)
    # without a template nothing opens thinking
    player = dataclasses.replace(loaded.player, opening="") if args.raw else loaded.player
    if loaded.run:
        print(f"{loaded.run}: policy after {loaded.step} iterations", file=sys.stderr)
    responder = respond.Responder(player, settings, args.max_new, args.seed, sys.stderr)
    if args.chat:
        return _chat(responder)
    encode = loaded.chat_format.tokenizer.encode_raw
    rollouts = responder.respond([encode(m[-1]["content"]) if args.raw else player.render(m) for m in asked])
    for messages, rollout in zip(asked, rollouts, strict=True):
        if args.prompts:
            print(json.dumps({"prompt": messages[-1]["content"], **_told(rollout, ids=args.json)}))
        else:
            tell(json.dumps(_told(rollout, ids=True)) if args.json else rollout.text)


def _read(path: str) -> list[Messages]:
    """The prompts of a file as conversations."""
    if path.endswith(".jsonl"):
        conversations = []
        for where, row in read_rows(path, "prompts or messages"):
            messages = row.get("messages", [{"role": "user", "content": row.get("prompt")}])
            if not isinstance(messages, list) or not all(
                isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str)
                for m in messages
            ):
                raise ValueError(f"{where}: needs a text under prompt, or a list of role and content under messages")
            conversations.append(messages)
    else:
        try:
            text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"--prompts={path} is no UTF-8 text ({error}); write it again") from None
        conversations = [[{"role": "user", "content": line}] for line in text.splitlines() if line.strip()]
    if not all(conversations) or not conversations:
        raise ValueError(f"--prompts={path}: there is no prompt in it")
    return conversations


def _chat(responder: respond.Responder) -> None:
    """Turns in the terminal; the model sees all before."""
    import readline  # noqa: F401 - gives input() its line editing

    messages: Messages = []
    while True:
        try:
            text = input("you: ").strip()
        except EOFError:
            print()
            return
        if not text:
            return
        messages.append({"role": "user", "content": text})
        (rollout,) = responder.respond([responder.player.render(messages)])
        messages.append({"role": "assistant", "content": rollout.text})
        tell(f"model: {rollout.text}")


def _told(rollout: Rollout, *, ids: bool) -> dict[str, Any]:
    fields = {name: getattr(rollout, name).tolist() for name in ("prompt_ids", "token_ids") if ids}
    fields |= {"logprobs": [round(float(x), 6) for x in rollout.logprobs]} if ids else {}
    return fields | {"text": rollout.text, "finish_reason": rollout.finish_reason}
