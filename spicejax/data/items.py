"""Items: what a game takes a batch of in each iteration, and the one resumable iterator over them."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import grain
import numpy as np

from spicejax.data import answers, corpus, examples, prepared, questions, sources
from spicejax.types import Task

# Fields of items that came later, with their defaults
_ADDED = {"question": "", "turns": (), "ended": True}

# nothing: a game whose players make up all they need; its items are the numbers 0, 1, ...
Kind = Literal["documents", "questions", "answers", "examples", "nothing"]


@dataclasses.dataclass(frozen=True, eq=False)
class Items:
    """Items in a fixed order, and how they are dealt out."""

    sequence: Sequence[Any] | prepared.Documents
    digest: str  # of all of them
    seed: int
    batch_size: int  # items of one iteration, the same on every process

    def iterator(self) -> ItemIterator:
        """Start at the first batch of epoch 0.

        Every epoch is a new permutation. No item comes twice within a batch: the last len(sequence) mod batch_size
        items of a permutation wait for the next one. Only a batch of more items than there are repeats some.
        """
        return ItemIterator(self)

    def fixed(self, n: int) -> list[Any]:
        """Return the first n items of a fixed order, the same ones at every call."""
        order = np.random.default_rng([self.seed, 77]).permutation(len(self.sequence))
        return [self.sequence[int(i)] for i in order[:n]]


class ItemIterator:
    """Endless batches, the same on every process. Its state is one integer: the next batch."""

    def __init__(self, items: Items):
        self._source = items
        self._next_batch = 0
        sequence: Any = items.sequence
        dataset = grain.MapDataset.source(sequence).seed(items.seed).shuffle()
        # Differs: every document once an epoch, in a new order; SPICE (section 2.2) samples them uniformly
        whole = len(items.sequence) // items.batch_size * items.batch_size
        # No threads: an item is read when it is needed.
        options = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        self._items = iter(dataset[: whole or None].repeat().to_iter_dataset(options))

    def __next__(self) -> list[Any]:
        batch = [next(self._items) for _ in range(self._source.batch_size)]
        self._next_batch += 1
        return batch

    def get_state(self) -> dict[str, int | str]:
        """Return the position as a small JSON-able dict."""
        return {"next_batch": self._next_batch, **self._identity()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `get_state` was called.

        Raises:
          ValueError: the state belongs to other items, another seed or batch size.
        """
        for key, value in self._identity().items():
            if state.get(key) != value:
                raise ValueError(
                    f"the saved position has {key}={state.get(key)!r}, this run's items have {value!r}; resume with "
                    "the same items, seed and batch size (and version: how files are read may have changed), or start "
                    "a new run"
                )
        self._next_batch = state["next_batch"]
        self._items.set_state({"next_index": self._next_batch * self._source.batch_size})

    def _identity(self) -> dict[str, int | str]:
        items = self._source
        return {
            "version": 1,
            "digest": items.digest,
            "seed": items.seed,
            "global_batch_size": items.batch_size,  # its name in saved positions
        }


def open_items(
    kind: Kind,
    spec: str,
    *,
    seed: int,
    batch_size: int,
    encode: Callable[[str], list[int]],
    max_tokens: int,
    min_chars: int,
    text_field: str = "",
    follow_links: bool = False,
) -> Items:
    """Read the items of a game.

    Args:
      kind: documents are read by `corpus.open_corpus`, with all but `seed` and `batch_size`; nothing has
        `batch_size` items; the others are a jsonl file, examples also a folder of launch/prepare_sft.py.
      seed: of the permutations.
    Raises: FileNotFoundError; ValueError naming file and line, or where nothing can be used.
    """
    if kind == "nothing":
        return Items(range(batch_size), "", seed, batch_size)
    if kind != "documents":
        return Items(*_read(kind, spec), seed, batch_size)
    opened = corpus.open_corpus(
        spec,
        encode=encode,
        max_tokens=max_tokens,
        min_chars=min_chars,
        text_field=text_field,
        follow_links=follow_links,
    )
    return Items(opened.documents, opened.digest, seed, batch_size)


def _read(kind: Kind, spec: str) -> tuple[Any, str]:
    """Items that are no documents, and their digest."""
    if kind == "examples" and prepared.is_prepared(spec):
        return prepared.open_examples(spec)
    if kind == "questions":
        items: Sequence[Any] = [item.task for item in questions.load_items(spec)]
    else:
        items = answers.load_answers(spec) if kind == "answers" else examples.load_examples(spec)
    text = json.dumps([_fields(item) for item in items])
    return items, hashlib.sha256(text.encode()).hexdigest()


def _fields(item: Any) -> dict[str, Any]:
    """An item's fields for the digest, as older runs named them, without newer ones at their defaults."""
    names = {"id": "document_id"} if isinstance(item, Task) else {}
    fields = dataclasses.asdict(item)
    return {names.get(k, k): value for k, value in fields.items() if k not in _ADDED or value != _ADDED[k]}


def check_items(kind: Kind, spec: str, text_field: str = "", *, follow_links: bool = False) -> Items | None:
    """Raise what `open_items` would for path, format, fields and packages, from the beginning of each source.

    Returns: the items; None for documents, whose files may be large.
    """
    if kind == "nothing":
        raise ValueError(f"corpus.source={spec}: this game reads nothing, its players make it up; leave it out")
    if kind != "documents":
        return Items(*_read(kind, spec), 0, 1)
    if prepared.is_prepared(spec):
        prepared.manifest_of(spec)
    else:
        for source in sources.split_mixture(spec):
            next(sources.Reader(text_field, follow_links).documents(source), None)
    return None
