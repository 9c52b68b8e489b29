"""Texts to vectors: one encoder with its tokenizer on the devices, batched by length."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tokenizers
from jax.sharding import Mesh

from spicejax import interrupt, sharding
from spicejax.models import encoder
from spicejax.models.config import DType
from spicejax.models.encoder import Style
from spicejax.models.hf import locate
from spicejax.types import Passage

log = logging.getLogger("spicejax")

CPU_TOKENS, DEVICE_TOKENS = 2**11, 2**14  # of a batch on each device; a CPU's caches hold fewer
MIN_ROWS = 4  # of a batch, which is not split further
MAX_TEXTS = 4096  # in the tokenizer together: it keeps far more than their ids
REPORT_EVERY = 10.0  # seconds between lines on how far the encoding has come


@dataclasses.dataclass(frozen=True, eq=False)
class Encoder:
    """A loaded encoder with its tokenizer. Text given to it is data: it never becomes a control token."""

    source: str  # what it was loaded from
    fingerprint: str  # sha256 over the files that decide what vectors it gives
    style: Style
    dim: int
    mesh: Mesh
    tokenizer: tokenizers.Tokenizer  # cuts at style.max_tokens
    embed: Callable[[jax.Array, jax.Array], jax.Array]  # ids [B, T] and lengths [B] to float32 [B, D]

    def queries(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of questions, float32 [N, D]."""
        return self._encode([self.style.query_prefix + text for text in texts])

    def passages(self, passages: Sequence[Passage]) -> np.ndarray:
        """Vectors of passages, title before text, float32 [N, D]."""
        return self._encode([f"{self.style.passage_prefix}{p.title} {p.text}" for p in passages])

    def _encode(self, texts: Sequence[str]) -> np.ndarray:
        vectors, reported, cut = np.zeros((len(texts), self.dim), np.float32), time.monotonic(), 0
        for start in range(0, len(texts), MAX_TEXTS):
            encodings = self.tokenizer.encode_batch_fast(texts[start : start + MAX_TEXTS])
            cut += sum(bool(e.overflowing) for e in encodings)
            rows = [e.ids for e in encodings]
            # All are dispatched before the first is fetched, so that the devices need not wait for the host.
            running, done = [], start
            for chosen, shape in self._batches(rows):
                running.append((chosen, self._run([rows[i] for i in chosen], shape)))
                done += len(chosen)
                if time.monotonic() - reported >= REPORT_EVERY:
                    reported = time.monotonic()
                    log.info("%d of %d texts", done, len(texts))
            for chosen, result in running:
                interrupt.check("stopped while texts were encoded")
                vectors[start + np.asarray(chosen)] = sharding.fetch(result)[: len(chosen)]
        if cut:
            log.info("%d of %d texts cut at %d tokens", cut, len(texts), self.style.max_tokens)
        if len(bad := np.flatnonzero(~np.isfinite(vectors).all(1))):
            raise FloatingPointError(
                f"{self.source} gave NaN or infinite numbers for {len(bad)} of {len(texts)} texts, such as "
                f"{texts[bad[0]][:80]!r}; try it in float32"
            )
        return vectors

    def _batches(self, rows: Sequence[Sequence[int]]) -> list[tuple[list[int], tuple[int, int]]]:
        """Group rows into batches: (row numbers, shape) with a bucket's length and a power of two of rows.

        So there are few programs; the last rows go in smaller batches, so that little is padding.
        """
        ways, batches = sharding.ways(self.mesh, 0), []
        tokens = CPU_TOKENS if jax.default_backend() == "cpu" else DEVICE_TOKENS
        for shorter, length in zip((0, *lengths(self.style)), lengths(self.style), strict=False):
            chosen = [i for i, row in enumerate(rows) if shorter < len(row) <= length]
            size = _power_of_two(max(1, tokens // length))
            while chosen:
                while size > MIN_ROWS and size * ways > len(chosen):
                    size //= 2
                batches.append((chosen[: size * ways], (size * ways, length)))
                chosen = chosen[size * ways :]
        return batches

    def _run(self, rows: Sequence[Sequence[int]], shape: tuple[int, int]) -> jax.Array:
        ids, sizes = np.zeros(shape, np.int32), np.zeros(shape[0], np.int32)
        for i, row in enumerate(rows):
            ids[i, : len(row)], sizes[i] = row, len(row)
        return self.embed(*sharding.put_global((ids, sizes), sharding.rows(self.mesh, shape[0])))


def lengths(style: Style) -> list[int]:
    """The bucket lengths in tokens: passages are padded by a tenth at most, short questions by more."""
    steps = (*range(16, 64, 16), *range(64, 256, 32), *range(256, 513, 64))
    return [n for n in steps if n < style.max_tokens] + [style.max_tokens]


def _power_of_two(limit: int) -> int:
    return 1 << (limit.bit_length() - 1)


def load(path: str | Path, style: Style, mesh: Mesh, *, dtype: DType = "float32") -> Encoder:
    """Load an encoder, whole on every device of the mesh; texts are split over its data and fsdp axes.

    Args:
      path: Hugging Face folder of a BERT with tokenizer.json, or package:NAME for one inside an installed package.
    Raises:
      FileNotFoundError: nothing there.
      ValueError: broken files, or a style that does not fit the model.
    """
    cfg, params = encoder.load(path, dtype=dtype)
    folder = locate(path, weights=True)
    encoder.require_pooling(folder, style.pooling)
    if style.max_tokens > cfg.max_position:
        raise ValueError(f"{path}: max_tokens={style.max_tokens}, but the model has {cfg.max_position} positions")
    apply = functools.partial(encoder.embed, cfg, pooling=style.pooling, normalize=style.normalize)
    placed = sharding.put_global(params, sharding.replicated(mesh))
    tokenizer = _tokenizer(folder / "tokenizer.json", style.max_tokens, cfg.vocab_size)
    embed = functools.partial(jax.jit(apply), placed)
    return Encoder(str(path), _fingerprint(folder), style, cfg.d_model, mesh, tokenizer, embed)


def _tokenizer(file: Path, max_tokens: int, rows: int) -> tokenizers.Tokenizer:
    if not file.is_file():
        raise FileNotFoundError(f"{file} is not there; an encoder needs its tokenizer beside it")
    try:
        tokenizer: Any = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"{file} is broken ({error}); download it again") from error
    # Many files carry the settings of the last training: fixed padding, a shorter cut.
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    tokenizer.encode_special_tokens = True
    if len(ids := tokenizer.encode("").ids) != 2:
        raise ValueError(f"{file} gives {ids} for an empty text, not [CLS] and [SEP] alone; it is not a BERT's")
    if (ids := tokenizer.get_vocab_size()) > rows:
        raise ValueError(f"{file} has {ids} ids, the model {rows}; take its own tokenizer")
    return tokenizer


def _fingerprint(folder: Path) -> str:
    total = hashlib.sha256()
    for file in (folder / "config.json", folder / "tokenizer.json", *sorted(folder.glob("*.safetensors"))):
        total.update(sha256(file).encode())
    return total.hexdigest()


def sha256(file: Path) -> str:
    """Hash a file's content."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
