"""What AceSearcher learns from (arXiv:2509.24193, table 5): examples, as a seqio mixture, and its rounds' questions.

Every source is a file in the format that it is published in, under DATA/NAME/, or DATA/NAME.jsonl with rows of your own
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

log = logging.getLogger(__name__)

# What is taught: answer = from a text; plan = the sub-questions; reason = the way and the answer; program = a program.
# Of a round's questions the kind: qa, claim, document, program
Use = Literal["answer", "claim", "plan", "reason", "program", "qa", "document"]
Pair = tuple[str, str]  # prompt, completion
Files = Mapping[str, tuple[Path, Reader] | None]
Render = Callable[[Row, Use], Pair | str]  # why it is left out, where a row does not tell what is to be taught
MOST_BROKEN = 0.05  # share of a file's entries; above it the file is another one than it should be


@dataclasses.dataclass(frozen=True)
class Source:
    """One line of the table."""

    name: str
    use: Use
    count: int  # examples taken
    file: str  # as published, under DATA/folder/
    where: str  # it is published
    reader: Reader
    tfds: str = ""  # its name there, where its rows have the reader's shape
    seed_of: str = ""  # its key in MuSiQue's list of questions that must not be trained on (`leaks`)
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
    Source("drop", "answer", 20_000, "drop_dataset_train.json", f"{_HUB}/ucinlp/drop (its zip)", published.drop,
           "drop"),
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


def chosen(names: Sequence[str], among: Sequence[Source] = ACESEARCHER) -> list[Source]:
    """The sources of these names, all of them where none is given.

    NAME:USE is a line of the table for another use, or DATA/NAME.jsonl, all of its rows. What a round asks about a text
    may be asked for a program too, as the public code does.
    Raises: ValueError for an unknown one.
    """
    known = {source.name: source for source in among}
    uses: dict[str, Use] = {source.use: source.use for source in among}
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
            line = known[name]
            sources.append(dataclasses.replace(line, name=f"{name}_{use}", use=uses[use], own_folder=line.folder))
        else:
            sources.append(Source(name, uses[use], sys.maxsize, f"{name}.jsonl", "", published.plain, own_folder="."))
    return sources


def files(data: Path, sources: Sequence[Source], tfds: bool) -> Files:
    """The file of each source and its reader; None for what TFDS has.

    Raises: FileNotFoundError naming every file that is missing and where it is published.
    """
    located: dict[str, tuple[Path, Reader] | None] = {}
    missing = []
    for source in sources:
        published_at = data / source.folder / source.file
        alternatives = (
            (data / f"{source.name}.jsonl", published.plain),
            (data / f"{source.folder}.jsonl", published.plain),
        )
        file = next((each for each in ((published_at, source.reader), *alternatives) if each[0].is_file()), None)
        if file is None and not (tfds and source.tfds):
            where = f"it is published at {source.where}" if source.where else "write rows of your own there"
            missing.append(f"{source.name}: {published_at} is missing; {where}")
        located[source.name] = file
    if missing:
        names = ",".join(s.name for s in sources if not any(m.startswith(f"{s.name}:") for m in missing))
        raise FileNotFoundError("\n".join([*missing, *([f"or go without: --sources={names}"] if names else [])]))
    return located


def leaks(path: Path) -> dict[str, set[str]]:
    """MuSiQue's list (dev_test_singlehop_questions_v1.0.json): of each seed set the ids and normalised questions.

    Its keys are, as public code reads them, squad2, natural_questions, zerore, mlqaen and trex; `squad`, its README's
    name, stands for squad2.
    Raises: ValueError where it is no such list.
    """
    listed = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(listed, dict) or not listed or not all(isinstance(each, list) for each in listed.values()):
        raise ValueError(f"{path}: give MuSiQue's dev_test_singlehop_questions_v1.0.json")
    if "squad" in listed:
        listed["squad2"] = [*listed.pop("squad"), *listed.get("squad2", [])]
    return {
        name: {
            text
            for each in entries
            for text in ([str(each.get("id", "")), _words(str(each.get("question", "")))]
                         if isinstance(each, dict) else [str(each), _words(str(each))])
            if text
        }
        for name, entries in listed.items()
    }  # fmt: skip


def rows(source: Source, file: tuple[Path, Reader] | None, broken: list[str] | None = None) -> Iterator[Row]:
    """Rows of a source, from its file or from TFDS. Broken entries as published.read has them."""
    if file is None:
        import tensorflow_datasets as tfds  # pyright: ignore[reportMissingImports]

        entries = enumerate(tfds.as_numpy(tfds.load(source.tfds, split="train")), 1)
        places = ((f"tfds:{source.tfds}: entry {n}", entry) for n, entry in entries)
        yield from published.parsed(places, lambda entry: source.reader(_texts(entry)), broken)
        return
    yield from published.read(*file, broken)


def _texts(entry: Any) -> Any:
    if isinstance(entry, Mapping):
        return {name: _texts(each) for name, each in entry.items()}
    if isinstance(entry, np.ndarray):
        return [_texts(each) for each in entry]
    return entry.decode() if isinstance(entry, bytes) else entry


def question(row: Row, kind: Use) -> Pair | str:
    """A row as a line of a round's questions (questions.load_items), unless it has no answer."""
    if not row.answers:
        return "not_told"
    line: dict[str, Any] = {"id": row.id, "question": row.question, "answer": row.answers[0], "kind": kind}
    if row.answers[1:]:
        line |= {"aliases": list(row.answers[1:]), "answer_type": "String"}
    return f"{row.context} {row.question}", json.dumps(line | ({"context": row.context} if row.context else {}))


def _words(text: str) -> str:
    """What two texts share that differ in case, signs and spaces alone."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _prompt_key(text: str) -> str:
    """What two prompts share that differ in case and spaces alone: in 3 - 5 and 3 + 5 the sign is the question."""
    return " ".join(text.casefold().split())


class Taken(dict[str, list[Pair]]):
    """Examples by source, what was left out, counts[source][reason], and what a source lacks, hints[source]."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[str, collections.Counter[str]] = {}
        self.hints: dict[str, str] = {}


def take(
    sources: Sequence[Source],
    located: Files,
    render: Render,
    *,
    leaked: Mapping[str, set[str]],
    seed: int = 0,
    scale: float = 1.0,
) -> Taken:
    """Examples of each source: those that can be taught, none twice, none that MuSiQue asks, `count` of them by lot.

    Args:
      located: see `files`.
      leaked: see `leaks`; empty removes nothing.
      scale: of all counts.
    Raises: ValueError where `leaked` does not know a source that MuSiQue was made of.
    """
    for source in sources:  # a key that is not found would remove nothing, in silence
        if leaked and source.seed_of and source.seed_of not in leaked:
            raise ValueError(
                f"{source.name}: the list of questions not to be trained on has {', '.join(leaked)} but no "
                f"{source.seed_of}; give MuSiQue's dev_test_singlehop_questions_v1.0.json as it is published"
            )
    taken, seen = Taken(), set[str]()
    for n, source in enumerate(sources):
        counts = taken.counts[source.name] = collections.Counter()
        pairs = _told(source, located[source.name], render, leaked.get(source.seed_of, set()), counts)
        keys = list(pairs)
        # The lot comes before the comparison: SQuAD 1.1 holds every question of 2.0 that has an answer, and those that
        # were not drawn from it are to be had from 2.0, which would be left with its unanswerable ones otherwise.
        drawn = (keys[i] for i in np.random.default_rng([seed, n]).permutation(len(keys)))
        fresh = [key for key in drawn if key not in seen]
        if twice := len(keys) - len(fresh):
            counts["twice"] += twice
        fresh = fresh[: max(1, round(source.count * scale))]
        seen.update(fresh)
        taken[source.name] = [pairs[key] for key in fresh]
        counts["taken"] = len(fresh)
        log.info("%s: %s", source.name, ", ".join(f"{count} {reason}" for reason, count in counts.items()))
        if counts["not_told"] and (hint := _hint(source, located[source.name])):
            taken.hints[source.name] = hint
            log.warning("%s", hint)
    return taken


def _hint(source: Source, file: tuple[Path, Reader] | None) -> str:
    """What to put where for rows that lack what is to be taught; empty where that cannot be told."""
    if file is not None and file[1] is published.strategyqa:
        return (
            f"{source.name}: rows without a decomposition teach no plan, and some copies have none; take {source.where}"
        )
    if file is None or file[1] is not published.fever or published.pages(file[0]):
        return ""
    return (
        f"{source.name}: {file[0].parent / published.PAGES} is missing, and claims without passages are not told; "
        f'unpack wiki-pages.zip there ({source.where}), or give each row a "context" of its own'
    )


def _told(
    source: Source,
    file: tuple[Path, Reader] | None,
    render: Render,
    forbidden: set[str],
    counts: collections.Counter[str],
) -> dict[str, Pair]:
    """All examples of a source, each prompt once, by their keys; the others are counted."""
    pairs: dict[str, Pair] = {}
    broken: list[str] = []
    for row in rows(source, file, broken):
        counts["read"] += 1
        pair = render(row, source.use)
        if forbidden and (row.id in forbidden or _words(row.question) in forbidden):
            counts["in_musique"] += 1
        elif isinstance(pair, str):
            counts[pair] += 1
        elif (key := _prompt_key(pair[0])) in pairs:
            counts["twice"] += 1
        else:
            pairs[key] = pair
    if broken:
        counts["broken"] = len(broken)
        if len(broken) > MOST_BROKEN * (len(broken) + counts["read"]):
            raise ValueError(
                f"{broken[0]}; {len(broken)} entries are broken beside {counts['read']} whole rows: mend them, or "
                "fetch the file again"
            )
        log.warning("%s: %d entries are left out as broken, the first: %s", source.name, len(broken), broken[0])
    return pairs


def mixture(taken: Mapping[str, Sequence[Pair]], name: str = "acesearcher") -> Any:
    """A seqio.Mixture whose tasks have the examples of one source each, at rates of their numbers.

    One epoch (num_epochs=1) has every example once. Features: inputs and targets, texts; source.
    """
    import seqio  # pyright: ignore[reportMissingImports]
    import tensorflow as tf  # pyright: ignore

    feature = seqio.Feature(seqio.PassThroughVocabulary(0), add_eos=False, dtype=tf.string, rank=0)

    def dataset(split: str, shuffle_files: bool, seed: int | None = None, *, of: str) -> tf.data.Dataset:
        columns: Any = {
            "inputs": [prompt for prompt, _ in taken[of]],
            "targets": [completion for _, completion in taken[of]],
            "source": [of] * len(taken[of]),
        }
        return tf.data.Dataset.from_tensor_slices(columns)

    tasks = [
        seqio.Task(
            f"{name}_{each}",
            source=seqio.FunctionDataSource(
                functools.partial(dataset, of=each), splits=["train"], num_input_examples={"train": len(taken[each])}
            ),
            output_features={"inputs": feature, "targets": feature},
            preprocessors=[],
        )
        for each in taken
    ]
    rates = [(task, float(len(taken[each]))) for task, each in zip(tasks, taken, strict=True)]
    draw = functools.partial(tf.data.Dataset.sample_from_datasets, stop_on_empty_dataset=False)
    return seqio.Mixture(name, rates, sample_fn=draw)


def mixed(taken: Mapping[str, Sequence[Pair]], seed: int = 0) -> Iterator[dict[str, str]]:
    """One epoch of the mixture: {"source", "prompt", "completion"} of every example once, in the mixture's order."""
    entries: Iterable[Mapping[str, bytes]] = (
        mixture(taken)
        .get_dataset(
            None, split="train", shuffle=False, seed=seed, num_epochs=1, passthrough_features=["source"],
            trim_output_features=False, try_in_mem_cache=False,
        )
        .as_numpy_iterator()
    )  # fmt: skip
    for row in entries:
        text = {key: row[key].decode() for key in ("source", "inputs", "targets")}
        yield {"source": text["source"], "prompt": text["inputs"], "completion": text["targets"]}
