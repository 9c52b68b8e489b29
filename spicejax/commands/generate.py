"""Sample from a model folder: spicejax generate --model=DIR --prompt=TEXT [--max_new=N] [--temperature=T]

--model is a Hugging Face folder, a .gguf file or package:NAME. --raw skips the chat template. --json prints one object
with prompt_ids, token_ids, logprobs (of the plain model, temperature 1), text and finish_reason.
"""

import argparse
import json
from collections.abc import Sequence

import jax

from spicejax import sharding
from spicejax.commands import Parser
from spicejax.generate.policy import Buckets, Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.stops import stop_machine
from spicejax.models import hf, transformer
from spicejax.text import tokens
from spicejax.types import Rollout


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(__name__, __doc__)
    parser.add_argument("--model", required=True, help="folder, .gguf file or package:NAME")
    parser.add_argument("--prompt", required=True, help="text of the user's turn, or with --raw the text to continue")
    parser.add_argument("--max_new", type=int, default=128, help="most new tokens (default 128)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 = greedy (default)")
    parser.add_argument("--top_k", type=int, default=0, help="keep the k likeliest tokens; 0 = all")
    parser.add_argument("--top_p", type=float, default=1.0, help="keep this much probability mass; 1 = all")
    parser.add_argument("--min_p", type=float, default=0.0, help="drop tokens below min_p x the likeliest; 0 = none")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draws")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="precision")
    parser.add_argument("--raw", action="store_true", help="no chat template: continue the prompt itself")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


def generate(args: argparse.Namespace) -> Rollout:
    """Load the model and sample one response."""
    if args.max_new < 1:
        raise ValueError(f"--max_new={args.max_new}: must be at least 1")
    settings = SamplerConfig(args.temperature, args.top_k, args.top_p, args.min_p)
    tokenizer = tokens.load(args.model)
    message = {"role": "user", "content": args.prompt}
    prompt = tokenizer.encode_raw(args.prompt) if args.raw else tokenizer.render_chat([message])
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, tensor=1), jax.devices()[:1])
    shape = hf.read_config(args.model)
    tokenizer.require_rows(shape.vocab_size)
    places = sharding.param_shardings(mesh, transformer.param_axes(shape), transformer.abstract_params(shape))
    shape, params = hf.load(args.model, dtype=args.dtype, shardings=places)
    bucket = 1 << max(4, (len(prompt) - 1).bit_length())
    stop = stop_machine(shape.vocab_size, tokenizer.eos_ids)
    player = Player(shape, params, tokenizer, stop, Buckets((bucket,), 1), mesh)
    ((rollout,),) = player.respond(
        [prompt], samples=1, first_row=[0], key=jax.random.key(args.seed), settings=settings, max_new=args.max_new
    )
    return rollout


def main(argv: Sequence[str]) -> None:
    """Print one response."""
    args = arguments(argv)
    rollout = generate(args)
    if args.json:
        fields = {name: getattr(rollout, name).tolist() for name in ("prompt_ids", "token_ids")}
        fields["logprobs"] = [round(float(x), 6) for x in rollout.logprobs]
        print(json.dumps(fields | {"text": rollout.text, "finish_reason": rollout.finish_reason}))
    else:
        print(rollout.text)
