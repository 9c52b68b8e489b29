"""Print what a run would find on this machine, to be pasted into an issue: spicejax doctor [--workdir=DIR] [--json]

Versions, devices, memory, the optional packages, the sandbox for programs; a small program is compiled and run, a text
encoded and decoded, a folder written as a checkpoint is; on a CPU, products in float32 and bfloat16 are timed.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spicejax import memory
from spicejax.commands import Parser

# What each extra of the package brings: module -> extra
EXTRAS = {
    "scann": "retrieval",
    "bm25s": "bm25",
    "starlette": "serve",
    "lm_eval": "eval",
    "pyarrow": "parquet",
    "qwix": "int8",
    "seqio": "seqio",
    "tensorflow_datasets": "tfds",
    "tensorboardX": "tensorboard",
    "wandb": "wandb",
    "trackio": "trackio",
}


def main(argv: Sequence[str]) -> int:
    """Print the report; return 1 where something that every run needs does not work."""
    parser = Parser(__name__, __doc__)
    parser.add_argument("--workdir", type=Path, default=Path("runs"), help="where runs would go (default runs)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    report: dict[str, Any] = {}
    for name, look in (
        ("python", lambda: f"{platform.python_version()} on {platform.platform()}"),
        ("packages", _packages),
        ("extras", lambda: {extra: _installed(module) for module, extra in EXTRAS.items()}),
        ("devices", _devices),
        ("a program", _compute),
        ("products", _products),
        ("tokenizer", _round_trip),
        ("cores", lambda: len(os.sched_getaffinity(0))),
        ("memory", _memory),
        ("disk", lambda: _disk(options.workdir)),
        ("sandbox", _sandbox),
    ):
        report[name] = _tried(look)
    lines = (f"{name:<10} {_shown(name, value)}" for name, value in report.items())
    print(json.dumps(report, indent=1) if options.json else "\n".join(lines))
    needed = ("devices", "a program", "tokenizer", "disk")
    return 1 if any(str(report[name]).startswith("failed") for name in needed) else 0


def _tried(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # a report of what is broken must not break
        return f"failed: {type(error).__name__}: {error}"[:300]


def _packages() -> dict[str, str]:
    from spicejax.run.store import record

    return record.versions()


def _installed(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.origin is not None  # a folder `wandb` of runs here is no package


def _devices() -> dict[str, Any]:
    devices = jax.devices()
    first = {"kind": devices[0].device_kind, "platform": devices[0].platform}  # TPU v5 lite, tpu
    return {"count": len(devices), **first, "hosts": jax.process_count()}


def _compute() -> str:
    began = time.perf_counter()
    x = np.arange(16.0, dtype=np.float32).reshape(4, 4)
    ours, right = float(jax.jit(lambda x: (x @ x).sum())(jnp.asarray(x))), float((x @ x).sum())
    if abs(ours - right) > 0.01 * right:  # a TPU multiplies in bfloat16
        raise ArithmeticError(f"the sum of a product is {ours}, it should be {right}")
    return f"compiled and ran in {time.perf_counter() - began:.1f} s"


def _products() -> str:
    """Which type is faster on this CPU: whether it names products of its own for bfloat16 does not tell."""
    from spicejax.models import products

    if jax.default_backend() != "cpu":
        return "not timed: only a CPU's choice is in doubt"
    rows, width, hidden = 256, 896, 4864  # a layer of Qwen2.5-0.5B
    sides = {
        dtype: (jnp.ones((rows, width), dtype), jnp.ones((width, hidden), dtype)) for dtype in ("float32", "bfloat16")
    }
    multiply, best = jax.jit(products.matmul), dict.fromkeys(sides, 0.0)
    for _ in range(6):  # in turns, since the machine may be busy; the first compiles
        for dtype, (x, matrix) in sides.items():
            began = time.perf_counter()
            multiply(x, matrix).block_until_ready()
            best[dtype] = max(best[dtype], 2e-9 * rows * width * hidden / (time.perf_counter() - began))
    told = ", ".join(f"{dtype} {speed:.0f}" for dtype, speed in best.items()) + f" GFLOP/s with {rows} rows: "
    if best["float32"] > 1.1 * best["bfloat16"]:
        return told + "model.dtype=float32 model.param_dtype=float32 is faster, in twice the memory"
    return told + "bfloat16 is about as fast or faster, in half the memory"


def _round_trip() -> str:
    from spicejax.text import sentencepieces, tokens

    text = "Grüße, 日本\n 1+1=2 \U0001f642"
    with tempfile.TemporaryDirectory() as folder:
        pieces, other = Path(folder) / "pieces", Path(folder) / "json"
        tokenizer = tokens.load(sentencepieces.train_sentencepiece(["a short text to train on, 123"] * 20, 300, pieces))
        tokenizer.save(other)
        (other / "tokenizer.model").unlink()  # what is left is read by the other library
        ids = tokenizer.encode(text)
        for name, read in (("sentencepiece", tokenizer), ("tokenizers", tokens.load(other))):
            if read.encode(text) != ids or read.decode(ids) != text:
                raise ValueError(f"{name} makes {read.decode(ids)!r} of {text!r}")
    return "a text comes back as it was, by sentencepiece and by tokenizers"


def _memory() -> str:
    whole, free = memory.machine()
    return f"{whole / 2**30:.1f} GiB" if free is None else f"{free / 2**30:.1f} of {whole / 2**30:.1f} GiB free"


def _disk(workdir: Path) -> str:
    from spicejax.run.host import disk

    place = disk.existing(workdir)
    data = b"x" * 2**20
    with tempfile.TemporaryDirectory(dir=place) as folder:  # as a checkpoint is made: written, flushed, renamed whole
        draft, made = Path(folder) / "draft", Path(folder) / "made"
        draft.mkdir()
        with (draft / "file").open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(made)
        if (made / "file").read_bytes() != data:
            raise OSError(f"what was written at {workdir} is read back otherwise")
    free = shutil.disk_usage(place).free / 2**30
    return f"{free:.1f} GiB free at {workdir}, where a folder can be written and renamed"


def _sandbox() -> str:
    from spicejax.score.sandbox import Sandbox

    opened = Sandbox(accept=True)
    return f"tier {opened.tier}{opened.why and f' ({opened.why})'}"


def _shown(name: str, value: Any) -> str:
    if name == "devices" and isinstance(value, dict):
        return "{count} {kind} ({platform}), of {hosts} hosts".format(**value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {('yes' if v else 'no') if isinstance(v, bool) else v}" for name, v in value.items())
    return str(value)
