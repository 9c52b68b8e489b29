"""What one device reaches of its own limits: python benchmarks/accelerator.py [--cases=decode,train,loop] ...

  decode  bytes that decoding has to read (weights once, the KV entries in use) per second, over that of a plain
          copy on the same device; --models in bfloat16, --rows at a time, --prompt and --new tokens of each
  train   FLOPs of the model (6 for each parameter and token, and attention under the causal mask) per second of an
          optimizer step, over the published peak; --micro_batches of --batch rows of --length tokens
  loop    where the seconds of an iteration of --config go: sampling, learning, and the rest (documents, prompts,
          validity, verifiers, laying out rows, metrics, checkpoints); a.b=c changes the configuration

Compiling is outside: in `decode` and `train` every shape runs once before it is timed; of `loop` the first two
iterations are left out, and a later one that is fuller than they may still compile (its seconds show it; raise
`learner.min_micro_batches`). Sampling there is all of `Player.respond`, its work on the host too. `--models=tiny` runs
on a CPU, which says nothing about an accelerator. Each result is on stderr as soon as it is there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
import jax
import jax.numpy as jnp
import numpy as np

from spicejax import config as configuration
from spicejax import configs
from spicejax.generate.layout import Buckets
from spicejax.generate.sampler import SamplerConfig
from spicejax.learn import learner, packing
from spicejax.models import cache, transformer
from spicejax.models.presets import QWEN3_0_6B, QWEN3_1_7B, QWEN3_4B
from spicejax.models.transformer import TransformerConfig
from spicejax.run import train

MODELS = {"tiny": harness.model_of("tiny"), "0.6B": QWEN3_0_6B, "1.7B": QWEN3_1_7B, "4B": QWEN3_4B}
# Published dense bfloat16 peaks, in FLOP/s. NVIDIA data sheets give them for H100 SXM and H200 alike (989 TFLOP/s
# without sparsity) and for A100 (312); the name is what jax calls the device.
PEAKS = {
    "NVIDIA H200": 989e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
}


def main() -> None:
    given = harness.options(
        __doc__, cases="decode,train,loop", models="0.6B,1.7B", rows="8,16,32,64", prompt=512, new=512, length=4096,
        batch=4, micro_batches=4, remat=("layer", "none", "dots"), config="spice_smollm2", iterations=6, words=[],
    )  # fmt: skip
    device = jax.devices()[0]
    found: dict[str, Any] = {}
    models = {name: MODELS[name] for name in harness.chosen(given.models, list(MODELS))}
    cases = harness.chosen(given.cases, ("decode", "train", "loop"))
    if "decode" in cases:
        bandwidth = copy_bandwidth(device)
        found["copy_gb_s"] = round(bandwidth / 1e9, 1)
        found["decode"] = [
            said({"model": name, **decode(model, int(rows), given.prompt, given.new, bandwidth)})
            for name, model in models.items()
            for rows in given.rows.split(",")
        ]
    if "train" in cases:
        peak = PEAKS.get(device.device_kind)
        found["train"] = [
            said({"model": name, **step(model, given.length, given.batch, given.micro_batches, given.remat, peak)})
            for name, model in models.items()
        ]
    if "loop" in cases:
        found["loop"] = loop(given.config, given.iterations, given.words)
    harness.report(**found)


def said(result: dict[str, Any]) -> dict[str, Any]:
    """The result, after it was told: a later case may run out of memory."""
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def copy_bandwidth(device: Any) -> float:
    """Bytes/s, read and written, of copying a large array."""
    size = 2**30 if device.platform != "cpu" else 2**26
    x = jnp.zeros(size, jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    return 2 * x.nbytes / harness.timed(lambda: jax.block_until_ready(copy(x)), 10)


def decode(model: TransformerConfig, rows: int, prompt: int, new: int, bandwidth: float) -> dict[str, Any]:
    """Rows with a prompt of their own, written to their end; prefill is timed alone and taken off."""
    model = dataclasses.replace(model, dtype="bfloat16", param_dtype="bfloat16")
    player = harness.sampler_of(model, Buckets((prompt,), rows))
    tokens = np.random.default_rng(0).integers(3, model.vocab_size, (rows, prompt)).tolist()

    def respond(limit: int) -> None:
        player.respond(
            tokens, samples=1, first_row=range(rows), key=jax.random.key(0), settings=SamplerConfig(), max_new=new,
            limits=[limit] * rows,
        )  # fmt: skip

    seconds = (harness.timed(lambda: respond(new)) - harness.timed(lambda: respond(1))) / (new - 1)
    weights = sum(x.nbytes for x in jax.tree.leaves(player.params))
    token = cache.token_bytes(model.num_layers, model.num_kv_heads, model.head_dim, "bfloat16")
    entries = rows * (prompt + new / 2) * token
    return {
        "rows": rows,
        "ms_per_token": round(1e3 * seconds, 3),
        "tokens_per_s": round(rows / seconds),
        "weights_gb": round(weights / 1e9, 3),
        "kv_gb": round(entries / 1e9, 3),
        "share_of_copy_bandwidth": round((weights + entries) / seconds / bandwidth, 3),
    }


def step(
    model: TransformerConfig, length: int, rows: int, micro_batches: int, remat: Any, peak: float | None
) -> dict[str, Any]:
    """One optimizer step on full rows, a quarter prompt and three quarters response."""
    model = dataclasses.replace(model, dtype="bfloat16", param_dtype="float32", remat=remat)
    rng = np.random.default_rng(0)
    count, prompt = rows * micro_batches, length // 4
    texts = rng.integers(3, model.vocab_size, (count, length)).astype(np.int32)
    rollouts = [harness.rollout(t[:prompt], t[prompt:]) for t in texts]
    weights = packing.token_weights(rollouts, aggregation="constant", norm_length=length)
    shape = packing.RowShape(length, rows)
    (part,) = packing.lay_out(rollouts, rng.normal(size=count).astype(np.float32), weights, [shape])
    settings = learner.LearnerConfig(tis_cap=0.0, row_length=length, rows=rows, vocab_chunk=8192)
    trained = harness.Trained(model, harness.random_of(model), settings, *part)
    seconds = harness.timed(trained.step)
    tokens = count * length
    attention = 6 * model.num_layers * model.num_heads * model.head_dim * length  # a token, half of the square
    flops = tokens * (6 * transformer.num_params(model) + attention)
    return {
        "seconds": round(seconds, 4),
        "tokens_per_s": round(tokens / seconds),
        "model_tflops": round(flops / 1e12, 2),
        "tflops_per_s": round(flops / seconds / 1e12, 2),
        "mfu": round(flops / seconds / peak, 3) if peak else None,
    }


def loop(name: str, count: int, words: list[str]) -> dict[str, Any]:
    """Where the seconds of an iteration go, by the loop's own clock."""
    changes = dict(word.split("=", 1) for word in words)
    cfg = configuration.override(configs.load(name), {"iterations": str(count)} | changes)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        train.train(cfg, Path(folder))
        rows = harness.lines(Path(folder) / "metrics.jsonl")
    seconds = [row["time/play"] + row["time/update"] for row in rows]
    counted = rows[2:] or rows
    total = sum(seconds[2:] or seconds)
    parts = {"sampling": "time/sampling", "learning": "time/update", "checking": "time/checking"}
    share = {part: round(sum(row[name] for row in counted) / total, 4) for part, name in parts.items()}
    return {
        "seconds_per_iteration": [round(each, 2) for each in seconds],
        "share": share | {"neither": round(1 - share["sampling"] - share["learning"], 4)},
    }


if __name__ == "__main__":
    main()
