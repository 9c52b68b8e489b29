"""Time rollouts with searches: python benchmarks/search_rollout.py [--size=tiny] [--questions=64] [--repeats=1]

Questions x 5 samples, each row with four searches of three passages: a prompt of 64 tokens, turns of geometric length
(mean 24, longest 96; the first always 96), 240 to 360 tokens shown behind each of the first four. A random Qwen3-shaped
model that never stops, so that every backend writes and reads the same number of tokens; 64 rows at once.

  ours       Player.converse: each KV entry is computed once, rows at different turns side by side
  ours_slow  the same, and each search takes 0.2 seconds
  hf         `generate` of Hugging Face with its cache kept from turn to turn, in batches of 64 rows
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import harness
import jax
import numpy as np
from sampler import hf_decoder, row_limits

from spicejax import memory
from spicejax.generate.lanes import Observation
from spicejax.generate.layout import Buckets, TurnLimits
from spicejax.generate.player import WrittenTurn
from spicejax.generate.sampler import SamplerConfig
from spicejax.models.transformer import TransformerConfig

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


def ours(model: TransformerConfig, delay: float = 0.0) -> Call:
    """This library, and a search that takes `delay` seconds."""
    player = harness.sampler_of(model, Buckets((PROMPT, 512, 1024, PROMPT + TOTAL), ROWS))

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


def main() -> None:
    given = harness.options(__doc__, size=tuple(harness.SIZES), questions=64, backends="ours,ours_slow,hf", repeats=1)
    model = harness.model_of(given.size)
    makers: dict[str, Callable[[], Call]] = {
        "ours": lambda: ours(model),
        "ours_slow": lambda: ours(model, delay=0.2),
        "hf": lambda: hf(model),
    }
    asked = work(given.questions, model.vocab_size)

    def make(name: str) -> Callable[[int], int]:
        call = makers[name]()
        return lambda number: call(asked, number)

    names = harness.chosen(given.backends, list(makers))
    done = harness.compare({name: lambda name=name: make(name) for name in names}, given.repeats)
    written, shown = int(asked.turns.sum()), int(asked.shown.sum())
    harness.report(size=given.size, questions=given.questions, written=written, shown=shown, **done)


if __name__ == "__main__":
    memory.tune()  # for every backend, as the launcher does for ours
    main()
