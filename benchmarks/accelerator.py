"""What one accelerator reaches of its own limits: python benchmarks/accelerator.py [--cases=decode,train,spice] ...

  decode  bytes that decoding has to read (weights once, the KV entries in use) per second, over that of a plain
          copy on the same device; models of 0.6 B and 1.7 B in bfloat16, 8 to 64 rows
  train   FLOPs of the model (6 for each parameter and token, and attention under the causal mask) per second of an
          optimizer step, over the published peak; rows of 4,096 tokens
  spice   where the seconds of an iteration go, SPICE on SmolLM2-135M: sampling, learning, and the rest (documents,
          prompts, validity, verifiers, laying out rows, metrics, checkpoints)

Compiling is outside: in `decode` and `train` every shape runs once before it is timed; of `spice` the first two
iterations are left out, and a later one that is fuller than they may still compile (its seconds show it; raise
`learner.min_micro_batches`). Sampling there is all of `Player.respond`, its work on the host too. Weights are random
but for `spice`. `--models` and the other flags make a case that fits other devices; `--models=tiny` runs on a CPU,
which says nothing about an accelerator. Prints one JSON object; each result is on stderr as soon as it is there.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Ids, model_of, versions

from spicejax import config as configuration
from spicejax import configs, sharding
from spicejax.generate.layout import Buckets
from spicejax.generate.player import Player
from spicejax.generate.sampler import SamplerConfig
from spicejax.generate.stops import stop_machine
from spicejax.learn import learner, packing
from spicejax.models import cache, transformer
from spicejax.models.presets import QWEN3_0_6B, QWEN3_1_7B, QWEN3_4B
from spicejax.models.transformer import TransformerConfig
from spicejax.run import train
from spicejax.types import Batch, Rollout

MODELS = {"tiny": model_of("tiny"), "0.6B": QWEN3_0_6B, "1.7B": QWEN3_1_7B, "4B": QWEN3_4B}
# Published dense bfloat16 peaks, in FLOP/s. NVIDIA data sheets give them for H100 SXM and H200 alike (989 TFLOP/s
# without sparsity) and for A100 (312); the name is what jax calls the device.
PEAKS = {
    "NVIDIA H200": 989e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="decode,train,spice")
    parser.add_argument("--models", default="0.6B,1.7B", help=f"of {tuple(MODELS)}")
    parser.add_argument("--rows", default="8,16,32,64", help="decode: rows at a time")
    parser.add_argument("--prompt", type=int, default=512, help="decode: tokens of each row's own prompt")
    parser.add_argument("--new", type=int, default=512, help="decode: tokens written by each row")
    parser.add_argument("--length", type=int, default=4096, help="train: tokens of a row")
    parser.add_argument("--batch", type=int, default=4, help="train: rows of a micro-batch")
    parser.add_argument("--micro_batches", type=int, default=4, help="train: micro-batches of a step")
    parser.add_argument("--remat", default="layer", help="train: none, layer or dots")
    parser.add_argument("--iterations", type=int, default=6, help="spice: iterations; the first two are not counted")
    parser.add_argument("--set", default="", help="spice: more overrides of the config, a.b=c separated by spaces")
    options = parser.parse_args(argv)
    device = jax.devices()[0]
    report: dict[str, Any] = {"device": device.device_kind, "versions": versions()}
    models = {name: MODELS[name] for name in options.models.split(",")}
    cases = options.cases.split(",")
    if "decode" in cases:
        bandwidth = copy_bandwidth(device)
        report["copy_gb_s"] = round(bandwidth / 1e9, 1)
        report["decode"] = [
            said({"model": name, **decode(model, int(rows), options.prompt, options.new, bandwidth)})
            for name, model in models.items()
            for rows in options.rows.split(",")
        ]
    if "train" in cases:
        peak = PEAKS.get(device.device_kind)
        report["train"] = [
            said(
                {
                    "model": name,
                    **step(model, options.length, options.batch, options.micro_batches, options.remat, peak),
                }
            )
            for name, model in models.items()
        ]
    if "spice" in cases:
        report["spice"] = iterations(options.iterations, options.set.split())
    print(json.dumps(report, indent=1))


def said(result: dict[str, Any]) -> dict[str, Any]:
    """The result, after it was told: a later case may run out of memory."""
    print(json.dumps(result), file=sys.stderr, flush=True)
    return result


def timed(call: Callable[[], object], repeats: int = 3) -> float:
    """Median seconds of `call`, which returns when its work is done; the first call is not counted."""
    call()
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def copy_bandwidth(device: Any) -> float:
    """Bytes/s, read and written, of copying a large array."""
    size = 2**30 if device.platform != "cpu" else 2**26
    x = jnp.zeros(size, jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    return 2 * x.nbytes / timed(lambda: jax.block_until_ready(copy(x)), 10)


def decode(model: TransformerConfig, rows: int, prompt: int, new: int, bandwidth: float) -> dict[str, Any]:
    """Rows with a prompt of their own, written to their end; prefill is timed alone and taken off."""
    model = dataclasses.replace(model, dtype="bfloat16", param_dtype="bfloat16")
    mesh = sharding.make_mesh(sharding.MeshConfig(), jax.devices()[:1])
    params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
    player = Player(model, params, Ids(), stop_machine(model.vocab_size, []), Buckets((prompt,), rows), mesh)
    tokens = np.random.default_rng(0).integers(3, model.vocab_size, (rows, prompt)).tolist()

    def respond(limit: int) -> None:
        player.respond(
            tokens, samples=1, first_row=range(rows), key=jax.random.key(0), settings=SamplerConfig(), max_new=new,
            limits=[limit] * rows,
        )  # fmt: skip

    seconds = (timed(lambda: respond(new)) - timed(lambda: respond(1))) / (new - 1)
    weights = sum(x.nbytes for x in jax.tree.leaves(params))
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
    params = jax.jit(transformer.init, static_argnums=0)(model, jax.random.key(0))
    rng = np.random.default_rng(0)
    count, prompt = rows * micro_batches, length // 4
    zeros = np.zeros(length - prompt, np.float32)
    texts = rng.integers(3, model.vocab_size, (count, length)).astype(np.int32)
    rollouts = [Rollout(t[:prompt], t[prompt:], zeros, zeros, zeros + 1, "", "length") for t in texts]
    weights = packing.token_weights(rollouts, aggregation="constant", norm_length=length)
    shape = packing.RowShape(length, rows)
    ((batch, used),) = packing.lay_out(rollouts, rng.normal(size=count).astype(np.float32), weights, [shape])
    settings = learner.LearnerConfig(tis_cap=0.0, row_length=length, rows=rows, vocab_chunk=8192)
    optimizer = learner.make_optimizer(settings)
    doors = learner.make_learner(model, settings, optimizer)
    state = learner.init_state(params, optimizer)
    batch, used = Batch(*jax.device_put(tuple(batch))), jnp.int32(used)

    def once() -> None:
        nonlocal state
        state, _ = doors.step(state, batch, used)
        jax.block_until_ready(state)

    seconds = timed(once)
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


def iterations(count: int, overrides: list[str]) -> dict[str, Any]:
    """Where the seconds of an iteration go, by the loop's own clock."""
    words = dict(word.split("=", 1) for word in overrides)
    cfg = configuration.override(configs.load("spice_smollm2"), {"iterations": str(count)} | words)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        train.train(cfg, Path(folder))
        rows = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
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
