"""What AceSearcher learns from (arXiv:2509.24193, table 5): examples, as a seqio mixture, and its rounds' questions.

Every source is a file in its published format under DATA/NAME/, or DATA/NAME.jsonl with rows of your own
(`published.plain`), or a data set of TFDS. Mixing needs the extra `seqio` (TensorFlow); reading what is written
does not.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spicejax.data import published
from spicejax.data.published import Reader, Row
from spicejax.errors import Missing

log = logging.getLogger(__name__)

# What an example teaches: answer = from a text; plan = the sub-questions; reason = solution and answer; program = a
# program. For the questions of a round it is their kind: qa, claim, document, program
Use = Literal["answer", "claim", "plan", "reason", "program", "qa", "document"]
Pair = tuple[str, str]  # prompt, completion
Files = Mapping[str, tuple[Path, Reader] | None]
Render = Callable[[Row, Use], Pair | str]  # the reason where a row is left out
MAX_BROKEN = 0.05  # share of broken entries; a file with more is another one than it should be


@dataclasses.dataclass(frozen=True)
class Source:
    """One line of the table."""

    name: str
    use: Use
    count: int  # examples taken
    file: str  # as published, under DATA/folder/
    where: str  # it is published
    reader: Reader
    tfds: str = ""  # its name in TFDS, where its rows have the reader's shape
    seed_of: str = ""  # its key in MuSiQue's list of questions that must not be trained on (`read_leaks`)
    own_folder: str = ""  # where two lines share a file

    @property
    def folder(self) -> str:
        """Under DATA."""
        return self.own_folder or self.name


_SQUAD, _HUB = "https://rajpurkar.github.io/SQuAD-explorer/", "https://huggingface.co/datasets"
_GSM8K = "https://github.com/openai/grade-school-math"
ACESEARCHER: tuple[Source, ...] = (
    Source("narrativeqa", "answer", 20_000, "train.jsonl", f"{_HUB}/deepmind/narrativeqa (rows as jsonl)",
           published.narrativeqa),
    Source("squad1", "answer", 10_000, "train-v1.1.json", _SQUAD, published.squad, "squad/v1.1", "squad2"),
    Source("squad2", "answer", 10_000, "train-v2.0.json", _SQUAD, published.squad, "squad/v2.0", "squad2"),
    Source("tatqa", "answer", 12_000, "tatqa_dataset_train.json",
           "https://github.com/NExTplusplus/TAT-QA/tree/master/dataset_raw", published.tatqa),
    Source("fever", "claim", 10_000, "train.jsonl", "https://fever.ai/dataset/fever.html", published.fever),
    # Not from TFDS, which keeps the first of several spans
    Source("drop", "answer", 20_000, "drop_dataset_train.json", f"{_HUB}/ucinlp/drop (its zip)", published.drop),
    Source("quoref", "answer", 20_000, "quoref-train-v0.1.json", f"{_HUB}/allenai/quoref (its zip)", published.quoref),
    Source("ropes", "answer", 10_000, "train-v1.0.json", f"{_HUB}/allenai/ropes (its archive)", published.squad),
    Source("nq", "answer", 20_000, "biencoder-nq-train.json.gz",
           "https://dl.fbaipublicfiles.com/dpr/data/retriever/biencoder-nq-train.json.gz", published.natural_questions,
           seed_of="natural_questions"),
    Source("gsm8k_plan", "plan", 7_000, "train_socratic.jsonl", _GSM8K, published.gsm8k, own_folder="gsm8k"),
    Source("convfinqa", "plan", 1_000, "train.json", "https://github.com/czyssrs/ConvFinQA (its data.zip)",
           published.convfinqa),
    # Differs: the paper links a copy without sub-questions (ChilleD/StrategyQA); this is the authors' own file
    Source("strategyqa", "plan", 1_600, "train.json", "https://github.com/eladsegal/strategyqa (data/strategyqa)",
           published.strategyqa),
    Source("ifqa", "reason", 2_000, "train.json", "https://github.com/wyu97/IfQA/tree/main/dataset/full_split",
           published.ifqa),
    Source("tabmwp", "reason", 10_000, "problems_train.json", "https://promptpg.github.io/index.html#dataset",
           published.tabmwp),
    Source("gsm8k_reason", "reason", 7_000, "train_socratic.jsonl", _GSM8K, published.gsm8k, own_folder="gsm8k"),
    Source("mathinstruct_reason", "reason", 10_000, "MathInstruct.json", f"{_HUB}/TIGER-Lab/MathInstruct",
           published.math_instruct, own_folder="mathinstruct"),
    Source("mathinstruct_program", "program", 10_000, "MathInstruct.json", f"{_HUB}/TIGER-Lab/MathInstruct",
           published.math_instruct, own_folder="mathinstruct"),
)  # fmt: skip
ROUNDS: tuple[Source, ...] = (
    Source("hotpotqa", "qa", 10_000, "hotpot_train_v1.1.json", "https://github.com/hotpotqa/hotpot",
           published.multihop),
    Source("2wiki", "qa", 10_000, "train.json", "https://github.com/Alab-NII/2wikimultihop", published.multihop),
    Source("hover", "claim", 10_000, "hover_train_release_v1.1.json", "https://github.com/hover-nlp/hover",
           published.hover),
    Source("gsm8k", "document", 7_000, "train.jsonl", _GSM8K, published.gsm8k),
    Source("tabmwp", "document", 10_000, "problems_train.json", "https://promptpg.github.io/index.html#dataset",
           published.tabmwp),
    Source("convfinqa", "document", 2_000, "train.json", "https://github.com/czyssrs/ConvFinQA (its data.zip)",
           published.convfinqa),
)  # fmt: skip


def select_sources(names: Sequence[str], table: Sequence[Source] = ACESEARCHER) -> list[Source]:
    """Return the sources of these names; without names, the whole table.

    NAME:USE is a row of the table with another use, or all rows of DATA/NAME.jsonl. A text that a round asks about may
    also be given another use, program, as in the public code.
    Raises: ValueError for an unknown name or use.
    """
    known = {source.name: source for source in table}
    uses: dict[str, Use] = {source.use: source.use for source in table}
    if "document" in uses:
        uses["program"] = "program"
    sources = []
    for text in dict.fromkeys(names or known):
        name, _, use = text.partition(":")
        if text in known:
            sources.append(known[text])
        elif use not in uses:
            raise ValueError(
                f"--sources={text}: unknown; choose from {', '.join(known)}, or NAME:USE for one of these or for rows "
                f"of your own in NAME.jsonl, where USE is {', '.join(uses)}"
            )
        elif name in known:
            source = known[name]
            sources.append(dataclasses.replace(source, name=f"{name}_{use}", use=uses[use], own_folder=source.folder))
        else:
            sources.append(Source(name, uses[use], sys.maxsize, f"{name}.jsonl", "", published.plain, own_folder="."))
    return sources


def locate(data: Path, sources: Sequence[Source], tfds: bool) -> Files:
    """Find the file of each source and its reader: as published, else rows of the user's own; None = from TFDS.

    Raises: FileNotFoundError naming every file that is missing and where it is published.
    """
    located: dict[str, tuple[Path, Reader] | None] = {}
    missing: dict[str, str] = {}
    for source in sources:
        published_at = data / source.folder / source.file
        own = [(data / f"{name}.jsonl", published.plain) for name in (source.name, source.folder)]
        file = next((each for each in ((published_at, source.reader), *own) if each[0].is_file()), None)
        if file is None and not (tfds and source.tfds):
            where = f"it is published at {source.where}" if source.where else "write rows of your own there"
            missing[source.name] = f"{source.name}: {published_at} is missing; {where}"
        located[source.name] = file
    if missing:
        names = ",".join(name for name in located if name not in missing)
        raise Missing("\n".join([*missing.values(), *([f"or go without: --sources={names}"] * bool(names))]))
    return located


def read_leaks(path: Path) -> dict[str, set[str]]:
    """Read MuSiQue's list (dev_test_singlehop_questions_v1.0.json): ids and normalised questions by seed set.

    The public code's keys are squad2, natural_questions, zerore, mlqaen and trex. The README of the list calls squad2
    `squad`, which is taken too.
    Raises: ValueError where the file is no such list.
    """
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); fetch it again") from None
    if not isinstance(listed, dict) or not listed or not all(isinstance(entries, list) for entries in listed.values()):
        raise ValueError(f"{path}: give MuSiQue's dev_test_singlehop_questions_v1.0.json")
    leaks: dict[str, set[str]] = {}
    for name, entries in listed.items():
        keys = leaks.setdefault("squad2" if name == "squad" else name, set())
        for entry in entries:
            key, text = (entry.get("id", ""), entry.get("question", "")) if isinstance(entry, dict) else (entry, entry)
            keys |= {str(key), _words(str(text))} - {""}
    return leaks


def rows(source: Source, file: tuple[Path, Reader] | None, broken: list[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a source, from its file or from TFDS; `broken` as in published.read."""
    if file is not None:
        yield from published.read(*file, broken)
        return
    import tensorflow_datasets as tfds  # pyright: ignore[reportMissingImports]

    entries = enumerate(tfds.as_numpy(tfds.load(source.tfds, split="train")), 1)
    places = ((f"tfds:{source.tfds}: entry {n}", entry) for n, entry in entries)
    yield from published.parsed(places, lambda entry: source.reader(_texts(entry)), broken)


def _texts(entry: Any) -> Any:
    """An entry of TFDS with lists for arrays and texts for bytes."""
    if isinstance(entry, Mapping):
        return {name: _texts(each) for name, each in entry.items()}
    if isinstance(entry, np.ndarray):
        return [_texts(each) for each in entry]
    return entry.decode() if isinstance(entry, bytes) else entry


def question(row: Row, kind: Use) -> Pair | str:
    """Return a row as a line of a round's questions (questions.load_items), or why it is left out."""
    if not row.answers:
        return "no_target"
    line: dict[str, Any] = {"id": row.id, "question": row.question, "answer": row.answers[0], "kind": kind}
    if row.answers[1:]:
        line |= {"aliases": list(row.answers[1:]), "answer_type": "String"}
    return f"{row.context} {row.question}", json.dumps(line | ({"context": row.context} if row.context else {}))


def _words(text: str) -> str:
    """A key that ignores case, signs and spaces."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _prompt_key(text: str) -> str:
    """A key that ignores case and spaces alone: 3 - 5 and 3 + 5 are two questions."""
    return " ".join(text.casefold().split())


@dataclasses.dataclass
class Selection:
    """Examples by source, what was left out, and what a source lacks."""

    examples: dict[str, list[Pair]] = dataclasses.field(default_factory=dict)
    counts: dict[str, collections.Counter[str]] = dataclasses.field(default_factory=dict)  # by source and reason
    hints: dict[str, str] = dataclasses.field(default_factory=dict)  # the fix, by source


def select_examples(
    sources: Sequence[Source],
    located: Files,
    render: Render,
    *,
    leaks: Mapping[str, set[str]],
    seed: int = 0,
    scale: float = 1.0,
) -> Selection:
    """Draw `count` examples of each source at random, no prompt twice and none that MuSiQue asks.

    Args:
      located: see `locate`.
      leaks: see `read_leaks`; empty removes nothing.
      scale: factor of all counts.
    Raises: ValueError where `leaks` lacks a source that MuSiQue was made of: nothing would be removed.
    """
    for source in sources:
        if leaks and source.seed_of and source.seed_of not in leaks:
            raise ValueError(
                f"{source.name}: the list of questions not to be trained on has {', '.join(leaks)} but no "
                f"{source.seed_of}; give MuSiQue's dev_test_singlehop_questions_v1.0.json as it is published"
            )
    selection, seen = Selection(), set[str]()
    for n, source in enumerate(sources):
        counts = selection.counts[source.name] = collections.Counter()
        file = located[source.name]
        examples = _examples(source, file, render, leaks.get(source.seed_of, set()), counts)
        keys = list(examples)
        # Shuffled before the comparison: SQuAD 1.1 holds every answerable question of 2.0. Those not drawn from 1.1
        # stay available from 2.0, which would be left with its unanswerable ones otherwise.
        shuffled = (keys[i] for i in np.random.default_rng([seed, n]).permutation(len(keys)))
        fresh = [key for key in shuffled if key not in seen]
        if repeated := len(keys) - len(fresh):
            counts["twice"] += repeated
        fresh = fresh[: max(1, round(source.count * scale))]
        seen.update(fresh)
        selection.examples[source.name] = [examples[key] for key in fresh]
        counts["taken"] = len(fresh)
        log.info("%s: %s", source.name, ", ".join(f"{count} {reason}" for reason, count in counts.items()))
        if counts["no_target"] and file is not None and (hint := _hint(source, *file)):
            selection.hints[source.name] = f"{source.name}: {hint}"
            log.warning("%s: %s", source.name, hint)
    return selection


def _hint(source: Source, path: Path, reader: Reader) -> str:
    """How to get rows with targets; empty where that is not known."""
    if reader is published.strategyqa:
        return f"rows without a decomposition teach no plan, and some copies have none; take {source.where}"
    if reader is published.fever and not published.pages(path):
        return (
            f"{path.parent / published.PAGES} is missing, and claims without passages are left out; unpack "
            f'wiki-pages.zip there ({source.where}), or give each row a "context" of its own'
        )
    return ""


def _examples(
    source: Source,
    file: tuple[Path, Reader] | None,
    render: Render,
    leaked: set[str],
    counts: collections.Counter[str],
) -> dict[str, Pair]:
    """All examples of a source by the keys of their prompts; rows that give none are counted by their reasons."""
    examples: dict[str, Pair] = {}
    broken: list[str] = []
    for row in rows(source, file, broken):
        counts["read"] += 1
        pair = render(row, source.use)
        if leaked and (row.id in leaked or _words(row.question) in leaked):
            counts["in_musique"] += 1
        elif isinstance(pair, str):
            counts[pair] += 1
        elif (key := _prompt_key(pair[0])) in examples:
            counts["twice"] += 1
        else:
            examples[key] = pair
    if broken:
        counts["broken"] = len(broken)
        if len(broken) > MAX_BROKEN * (len(broken) + counts["read"]):
            raise ValueError(
                f"{broken[0]}; {len(broken)} entries are broken beside {counts['read']} whole rows: mend them, or "
                "fetch the file again"
            )
        log.warning("%s: %d entries are left out as broken, the first: %s", source.name, len(broken), broken[0])
    return examples


def mixture(examples: Mapping[str, Sequence[Pair]], name: str = "acesearcher") -> Any:
    """Build a seqio.Mixture of one task a source, at rates of their numbers of examples.

    One epoch (num_epochs=1) has every example once. Features: inputs and targets, texts; source.
    """
    import seqio  # pyright: ignore[reportMissingImports]
    import tensorflow as tf  # pyright: ignore

    feature = seqio.Feature(seqio.PassThroughVocabulary(0), add_eos=False, dtype=tf.string, rank=0)

    def dataset(split: str, shuffle_files: bool, seed: int | None = None, *, source: str) -> tf.data.Dataset:
        prompts, completions = zip(*examples[source], strict=True)
        columns: Any = {"inputs": list(prompts), "targets": list(completions), "source": [source] * len(prompts)}
        return tf.data.Dataset.from_tensor_slices(columns)

    tasks = [
        seqio.Task(
            f"{name}_{source}",
            source=seqio.FunctionDataSource(
                functools.partial(dataset, source=source), splits=["train"], num_input_examples={"train": len(pairs)}
            ),
            output_features={"inputs": feature, "targets": feature},
            preprocessors=[],
        )
        for source, pairs in examples.items()
    ]
    rates = [(task, float(len(pairs))) for task, pairs in zip(tasks, examples.values(), strict=True)]
    draw = functools.partial(tf.data.Dataset.sample_from_datasets, stop_on_empty_dataset=False)
    return seqio.Mixture(name, rates, sample_fn=draw)


def epoch(examples: Mapping[str, Sequence[Pair]], seed: int = 0) -> Iterator[dict[str, str]]:
    """Yield {"source", "prompt", "completion"} of every example once, in the mixture's order."""
    entries: Iterable[Mapping[str, bytes]] = (
        mixture(examples)
        .get_dataset(
            None, split="train", shuffle=False, seed=seed, num_epochs=1, passthrough_features=["source"],
            trim_output_features=False, try_in_mem_cache=False,
        )
        .as_numpy_iterator()
    )  # fmt: skip
    names = {"source": "source", "inputs": "prompt", "targets": "completion"}
    for row in entries:
        yield {name: row[feature].decode() for feature, name in names.items()}
