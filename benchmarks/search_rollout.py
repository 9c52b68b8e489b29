"""Time rollouts with searches: python benchmarks/search_rollout.py [--size=tiny] [--questions=64] [--repeats=1]

Questions x 5 samples, each row with four searches of three passages: a prompt of 64 tokens, turns of geometric length
(mean 24, longest 96; the first always 96), 240 to 360 tokens shown behind each of the first four. A random Qwen3-shaped
model that never stops, so that every backend writes and reads the same number of tokens; 64 rows at once. Prints one
JSON object.

  ours      Player.converse: each KV entry is computed once, rows at different turns side by side
  replayed  the same engine, which prefills the whole row anew at every turn
  hf        `generate` of Hugging Face with its cache kept from turn to turn, in batches of 64 rows
  slow      as ours, and each search takes 0.2 seconds
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

if __name__ == "__main__":
    from spicejax import memory

    memory.ask_for_huge_pages()  # for every backend, as the launcher does for ours

import jax
import numpy as np
from harness import SIZES, Ids, installed, interleaved, model_of, ratios, versions
from sampler import hf_decoder, row_limits

from spicejax import sharding
from spicejax.generate import engine
from spicejax.generate.lanes import Observation
from spicejax.generate.layout import Buckets, TurnLimits
from spicejax.generate.player import Player, WrittenTurn
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.stops import stop_machine
from spicejax.models import transformer
from spicejax.models.transformer import TransformerConfig

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from replay import Replaying

PROMPT, SAMPLES, TURNS, LONGEST, SHOWN, ROWS = 64, 5, 5, 96, 360, 64
TOTAL = TURNS * LONGEST + (TURNS - 1) * SHOWN


class Work(NamedTuple):
    """What every backend is given."""

    prompts: np.ndarray  # int32 [N, PROMPT]
    turns: np.ndarray  # int32 [N, SAMPLES, TURNS], tokens of each turn
    shown: np.ndarray  # int32 [N, SAMPLES, TURNS - 1], tokens shown behind it


def work(questions: int, vocab: int) -> Work:
    """The same for all backends."""
    rng = np.random.default_rng(0)
    prompts = rng.integers(3, vocab, (questions, PROMPT), dtype=np.int32)
    turns = np.minimum(rng.geometric(1 / 24, (questions, SAMPLES, TURNS)), LONGEST).astype(np.int32)
    turns[:, :, 0] = LONGEST
    return Work(prompts, turns, rng.integers(240, SHOWN + 1, (questions, SAMPLES, TURNS - 1), dtype=np.int32))


Call = Callable[[Work, int], int]  # (work, seed) -> tokens written


def ours(model: TransformerConfig, kind: type[Player], delay: float = 0.0) -> Call:
    """This library: a player of this kind, and a search that takes `delay` seconds."""
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
    stop, buckets = stop_machine(model.vocab_size, []), Buckets((PROMPT, 512, 1024, PROMPT + TOTAL), ROWS)
    player = kind(model, params, Ids(), stop, buckets, mesh)

    def call(work: Work, seed: int) -> int:
        done = np.zeros(work.turns.shape[:2], int)
        wrote = 0

        def observe(turns: list[WrittenTurn]) -> tuple[list[int], Callable[[], list[Observation]]]:
            nonlocal wrote
            asking = []
            for n, (i, j, reply) in enumerate(turns):
                wrote += len(reply.token_ids)
                done[i, j] += 1
                if done[i, j] < TURNS:
                    asking.append(n)

            def found() -> list[Observation]:
                if asking:
                    time.sleep(delay)
                cells = [(*turns[n][:2], done[turns[n][:2]]) for n in asking]
                return [
                    Observation([3 + c[0] % 7] * work.shown[c[0], c[1], c[2] - 1], int(work.turns[c])) for c in cells
                ]

            return asking, found

        player.converse(
            work.prompts.tolist(), samples=SAMPLES, first_row=range(0, 10**6, 1000)[: len(work.prompts)],
            key=jax.random.key(seed), settings=SamplerConfig(), observe=observe,
            turn_limits=TurnLimits(TURNS, LONGEST, SHOWN, TOTAL),
        )  # fmt: skip
        return wrote

    return call


def hf(model: TransformerConfig) -> Call:
    """Hugging Face `generate`, its cache kept over the turns of a batch."""
    import torch
    from transformers import DynamicCache

    decoder = hf_decoder(model)

    @torch.inference_mode()
    def batch(prompts: np.ndarray, turns: np.ndarray, shown: np.ndarray) -> int:
        ids, cache = torch.from_numpy(prompts).long(), DynamicCache()
        seen = torch.ones_like(ids)
        for turn in range(TURNS):
            start, limits = ids.shape[1], turns[:, turn]
            ids = decoder.generate(
                ids, attention_mask=seen, past_key_values=cache, max_new_tokens=int(limits.max()), do_sample=True,
                top_k=0, top_p=1.0, stopping_criteria=row_limits(start, limits),
            )  # fmt: skip
            columns = torch.arange(ids.shape[1] - start)
            seen = torch.cat([seen, (columns < torch.from_numpy(limits)[:, None]).long()], 1)
            if turn + 1 < TURNS:
                sizes = torch.from_numpy(shown[:, turn])
                mask = (torch.arange(int(sizes.max())).flip(0) < sizes[:, None]).long()  # the last column is text
                ids, seen = torch.cat([ids, mask * 3], 1), torch.cat([seen, mask], 1)
        return int(turns.sum())

    def call(work: Work, seed: int) -> int:
        torch.manual_seed(seed)
        prompts = np.repeat(work.prompts, SAMPLES, axis=0)
        turns, shown = work.turns.reshape(-1, TURNS), work.shown.reshape(-1, TURNS - 1)
        parts = [slice(at, at + ROWS) for at in range(0, len(prompts), ROWS)]
        return sum(batch(prompts[part], turns[part], shown[part]) for part in parts)

    return call


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="tiny", choices=list(SIZES))
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--backends", default="ours,slow,replayed,hf", help="comma list")
    parser.add_argument("--repeats", type=int, default=1, help="timed calls of each backend after the first")
    args = parser.parse_args()
    model = model_of(args.size)
    makers: dict[str, Callable[[], Call]] = {
        "ours": lambda: ours(model, Player),
        "slow": lambda: ours(model, Player, delay=0.2),
        "replayed": lambda: ours(model, Replaying),
        "hf": lambda: hf(model),
    }
    calls, notes = installed({name: makers[name] for name in args.backends.split(",")})
    given, few = work(args.questions, model.vocab_size), work(min(args.questions, 16), model.vocab_size)
    for call in calls.values():  # compile
        call(few, 0)
    doors = engine.prefill_jit, engine.insert_jit, engine.append_jit, engine.decode_jit
    compiled = [door._cache_size() for door in doors]  # pyright: ignore[reportFunctionMemberAccess]
    seconds = interleaved({name: functools.partial(call, given) for name, call in calls.items()}, args.repeats)
    again = [door._cache_size() for door in doors]  # pyright: ignore[reportFunctionMemberAccess]
    result = {
        "size": args.size,
        "questions": args.questions,
        "written": int(given.turns.sum()),
        "shown": int(given.shown.sum()),
        "median_s": {name: round(statistics.median(s), 2) for name, s in seconds.items()},
        "times_ours": ratios(seconds, "ours"),
        "compiled_again": sum(again) - sum(compiled),
        "notes": notes,
        "versions": versions(),
    }
    print(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
