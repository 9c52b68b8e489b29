"""What benchmarks share: options, backends that take turns, the decoder that all run, tables, one JSON object."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax

from spicejax.models import transformer

T = TypeVar("T")

SIZES = {"tiny": (4, 256, 4, 2, 1024, 4096), "small": (12, 512, 8, 4, 2048, 16384)}
PACKAGES = ("jax", "torch", "transformers", "google-tunix", "trl")


def options(doc: str | None, argv: Sequence[str] | None = None, **defaults: Any) -> Any:
    """Parse `--NAME` of the type of each default; a tuple holds the choices, a list takes the words without a dash."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        if isinstance(default, list):
            parser.add_argument(name, nargs="*", default=default)
        elif isinstance(default, bool):
            parser.add_argument(f"--{name}", action="store_true")
        elif isinstance(default, tuple):
            parser.add_argument(f"--{name}", choices=default, default=default[0])
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default, help=f"default {default}")
    return parser.parse_intermixed_args(argv)


def chosen(words: str, known: Sequence[str]) -> list[str]:
    """Split words at commas; raise on one that is not known."""
    if unknown := [word for word in words.split(",") if word not in known]:
        raise SystemExit(f"unknown {unknown[0]!r}; choose from {', '.join(known)}")
    return words.split(",")


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as Markdown; all columns but the first stand to the right."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def model_of(size: str) -> transformer.TransformerConfig:
    """The decoder that every backend runs."""
    layers, d_model, heads, kv_heads, d_ff, vocab = SIZES[size]
    return transformer.TransformerConfig(
        family="qwen3",
        vocab_size=vocab,
        d_model=d_model,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=64,
        d_ff=d_ff,
        rope_theta=1e6,
        tie_embeddings=True,
        max_position=4096,
    )


def tunix_config(model: transformer.TransformerConfig) -> Any:
    """The same decoder as google-tunix describes it."""
    from tunix.models.qwen3 import model as qwen3

    return qwen3.ModelConfig(
        num_layers=model.num_layers,
        vocab_size=model.vocab_size,
        embed_dim=model.d_model,
        hidden_dim=model.d_ff,
        num_heads=model.num_heads,
        head_dim=model.head_dim,
        num_kv_heads=model.num_kv_heads,
        rope_theta=1_000_000,
        norm_eps=1e-6,
        use_tied_embedding=True,
    )


def tunix_mesh() -> jax.sharding.Mesh:
    """One device under the axis names of google-tunix."""
    return jax.make_mesh((1, 1), ("fsdp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


@dataclasses.dataclass(frozen=True)
class Ids:
    """Text is the ids in decimal: the cheapest tokenizer there is."""

    eos: int = 2

    def encode(self, text: str, **_: Any) -> list[int]:
        return [int(t) for t in text.split()]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return " ".join(map(str, ids))

    def bos_id(self) -> int:
        return 0  # none: google-tunix then puts no token in front

    def eos_id(self) -> int:
        return self.eos

    def pad_id(self) -> int:
        return 0


def words(ids: Sequence[int]) -> str:
    """Ids as words of `word_tokenizer`, for trainers that tokenise themselves."""
    return "".join(f"t{k} " for k in ids)


def word_tokenizer(vocab: int) -> Any:
    """A Hugging Face tokenizer whose word k is "tk"."""
    import tokenizers
    import transformers

    known = {f"t{k}": k for k in range(vocab)}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="t0"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="t2", pad_token="t0")


def installed(makers: Mapping[str, Callable[[], T]]) -> tuple[dict[str, T], list[str]]:
    """Make each backend; those whose packages are missing are left out, with a note."""
    made: dict[str, T] = {}
    notes = []
    for name, make in makers.items():
        try:
            made[name] = make()
        except ImportError as error:
            notes.append(f"{name} left out: {error}")
    return made, notes


def interleaved(calls: Mapping[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each call in `rounds` rounds, forward then backward; the number of the round is its argument."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls)[:: -1 if number % 2 else 1]:
            began = time.perf_counter()
            calls[name](number)
            seconds[name].append(time.perf_counter() - began)
    return seconds


def ratios(seconds: Mapping[str, Sequence[float]], ours: str) -> dict[str, float]:
    """Median seconds of each other backend over the median of `ours`: above 1 = ours is faster."""
    mine = statistics.median(seconds[ours])
    return {name: round(statistics.median(s) / mine, 2) for name, s in seconds.items() if name != ours}


def versions() -> dict[str, str]:
    """Versions of the compared packages that are installed."""
    found = {d.name: d.version for d in importlib.metadata.distributions()}
    return {name: found[name] for name in PACKAGES if name in found}
