"""The benchmarks of the papers: where each comes from, how its rows are read, how it is asked and what was reported.

`BENCHMARKS` is the list. Nothing is fetched: a user puts the published file into a folder under one of its names.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spicejax.data import published
from spicejax.data.questions import LETTERS, Item, item

Fields = Mapping[str, Any]


class Benchmark(NamedTuple):
    """A row of the list."""

    title: str  # as the papers' tables have it
    files: tuple[str, ...]  # names that its file may have
    source: str  # where it is published: repository and path, or name on the Hub
    licence: str
    read: Callable[[Any], Fields | None]  # an entry as a row that `questions.load_items` reads; None = it is left out
    score: str = "verifier"  # of evaluation/scores.py
    samples: int = 1  # answers to each question, whose mean counts; one = greedy
    temperature: float = 0.6  # where there are several
    reported: Mapping[str, float] = {}  # by model and method, in percent


QWEN, SPICE = "Qwen3-4B-Base", "Qwen3-4B-Base + SPICE"  # SPICE, table 1
SEVEN, SSP = "Qwen2.5-7B-Instruct", "Qwen2.5-7B-Instruct + SSP"  # Search Self-Play, table 1; a judge's word
ACE = "AceSearcher 8B"  # AceSearcher, table 1; exact match


def plain(entry: Fields) -> dict[str, Any]:
    """A row with question and answer under the names that sets use; the answer without the dollars of TeX."""
    answer = _first(entry, "answer", "final_answer", "expected_answer", "target", "gold")
    listed = isinstance(answer, list) and "final_answer" in entry
    answer = ", ".join(_bare(each) for each in answer) if listed else _bare(answer)
    about = entry.get("subject") or entry.get("category") or entry.get("task")
    return {"question": _first(entry, "problem", "question", "input"), "answer": answer, "category": about} | _name(
        entry
    )


def options(entry: Fields) -> dict[str, Any]:
    """Multiple choice whose right letter is told; an option N/A is none (with which MMLU-Pro was filled up)."""
    choices = [each for each in _first(entry, "options", "choices") if each != "N/A"]
    about = entry.get("category") or entry.get("discipline")
    letter = _first(entry, "answer_letter", "answer")
    return {"question": entry["question"], "choices": choices, "answer": letter, "category": about} | _name(entry)


def gpqa(entry: Fields) -> dict[str, Any]:
    """GPQA: the right option stands first; they are put in an order of their texts' checksums."""
    names = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
    texts = [entry[name].strip() for name in names]
    order = sorted(texts, key=lambda text: zlib.crc32(f"{entry['Question']}\0{text}".encode()))
    row = {"question": entry["Question"].strip(), "choices": order, "answer": LETTERS[order.index(texts[0])]}
    return row | {"id": entry.get("Record ID"), "category": entry.get("High-level domain")}


def open_answers(entry: Fields) -> dict[str, Any]:
    """A question with several right answers, one of them as JSON in PopQA."""
    listed = _first(entry, "golden_answers", "answers", "possible_answers", "answer", "obj")
    listed = json.loads(listed) if isinstance(listed, str) and listed.startswith("[") else listed
    listed = [*([listed] if isinstance(listed, str) else listed), *(entry.get("answer_aliases") or ())]
    return {"question": entry["question"], "answer": listed, "answer_type": "String"} | _name(entry)


def yes_no(entry: Fields) -> dict[str, Any] | None:
    """A question to be answered by Yes or No, or a claim that is supported or not (acesearcher.kind=claim).

    A claim of which there is not enough information is left out.
    """
    label = _first(entry, "label", "answer")
    if label == "NOT ENOUGH INFO":
        return None
    right = {**published.YES, "SUPPORT": "Yes", "REFUTE": "No"}[label]
    return {"question": _first(entry, "claim", "question"), "answer": right, "answer_type": "String"} | _name(entry)


def whole(entry: Fields) -> Fields:
    """A row that is read as it is published."""
    return entry


def _first(entry: Fields, *names: str) -> Any:
    return next(entry[name] for name in (*(n for n in names if n in entry), names[0]))


def _bare(answer: Any) -> Any:
    if not isinstance(answer, str):
        return int(answer) if isinstance(answer, float) and answer.is_integer() else answer
    text = answer.strip()
    return text[1:-1].strip() if text[:1] == text[-1:] == "$" and text.count("$") == 2 else text


def _name(entry: Fields) -> dict[str, Any]:
    names = ("id", "unique_id", "question_id", "uuid", "qid", "_id", "uid", "problem_id")
    return next(({"id": str(entry[name])} for name in names if entry.get(name) is not None), {})


def _reported(start: float, after: float, names: tuple[str, str] = (QWEN, SPICE)) -> dict[str, float]:
    return dict(zip(names, (start, after), strict=True))


_AZR = "LeapLabTHU/Absolute-Zero-Reasoner evaluation/math_eval/eval/data/"
_R1 = "RUCAIBox/R1-Searcher data/eval_set/"
_MAA = "(c) MAA, no licence given"
_QA: dict[str, Any] = {"read": open_answers, "score": "exact"}
_SEARCH = (SEVEN, SSP)

BENCHMARKS = {
    "amc23": Benchmark("AMC23", ("amc23.jsonl",), f"{_AZR}amc23", _MAA, plain, reported=_reported(47.5, 57.5)),
    "minerva": Benchmark(
        "Minerva", ("minerva.json", "minerva.jsonl", "minerva_math.jsonl"), "agentica-project/rllm rllm/data/test/math/"
        "minerva.json", "CC BY-NC-SA 4.0", plain, reported=_reported(42.3, 51.9)),
    "math500": Benchmark(
        "MATH-500", ("math500.jsonl", "math_500.jsonl"), f"{_AZR}math500; HuggingFaceH4/MATH-500", "MIT", plain,
        reported=_reported(68.2, 78.0)),
    "gsm8k": Benchmark(
        "GSM8K", ("gsm8k.jsonl",), "openai/grade-school-math grade_school_math/data/test.jsonl", "MIT", whole,
        reported=_reported(72.6, 92.7)),
    "olympiadbench": Benchmark(
        "OlympiadBench", ("olympiadbench.jsonl", "olympiadbench.json"), f"{_AZR}olympiadbench", "MIT", plain,
        reported=_reported(34.8, 42.7)),
    "aime24": Benchmark(
        "AIME24", ("aime24.jsonl",), f"{_AZR}aime24", _MAA, plain, samples=32, reported=_reported(10.3, 12.2)),
    "aime25": Benchmark(
        "AIME25", ("aime25.jsonl",), f"{_AZR}aime25", _MAA, plain, samples=32, reported=_reported(6.7, 19.1)),
    "supergpqa": Benchmark(
        "SuperGPQA", ("supergpqa.jsonl", "SuperGPQA-all.jsonl"), "SuperGPQA/SuperGPQA data/SuperGPQA-all.jsonl",
        "ODC-BY", options, reported=_reported(25.4, 30.2)),
    "gpqa": Benchmark(
        "GPQA-Diamond", ("gpqa.jsonl", "gpqa_diamond.jsonl"), "Idavidrein/gpqa gpqa_diamond on the Hub, as jsonl",
        "CC BY 4.0; its authors ask that it is not shown in plain text on the web", gpqa,
        reported=_reported(26.3, 39.4)),
    "mmlu_pro": Benchmark(
        "MMLU-Pro", ("mmlu_pro.jsonl", "mmlu_pro.json"), "TIGER-Lab/MMLU-Pro on the Hub, as jsonl", "MIT", options,
        reported=_reported(51.6, 58.1)),
    "mmlu": Benchmark("MMLU", ("mmlu.jsonl",), "hendrycks/test, as jsonl with choices and a letter", "MIT", options),
    "bbeh": Benchmark(
        "BBEH", ("bbeh.json", "bbeh.jsonl"), "google-deepmind/bbeh bbeh/mini/data.json", "CC BY 4.0", plain,
        reported=_reported(8.1, 12.3)),
    "bbh": Benchmark("BBH", ("bbh.jsonl",), "suzgunmirac/BIG-Bench-Hard bbh/*.json, as jsonl", "MIT", plain),
    "nq": Benchmark(
        "NQ", ("nq.jsonl", "NQ-open.dev.jsonl"), "google-research-datasets/natural-questions nq_open/NQ-open.dev.jsonl",
        "CC BY-SA 3.0", **_QA, reported=_reported(44.2, 54.8, _SEARCH)),
    "triviaqa": Benchmark(
        "TriviaQA", ("triviaqa.jsonl",), "RUC-NLPIR/FlashRAG_datasets triviaqa on the Hub", "not stated", **_QA,
        reported=_reported(64.0, 73.4, _SEARCH)),
    "popqa": Benchmark(
        "PopQA", ("popqa.jsonl",), "akariasai/PopQA on the Hub, as jsonl", "MIT", **_QA,
        reported=_reported(36.4, 51.8, _SEARCH)),
    "hotpotqa": Benchmark(
        "HotpotQA", ("hotpotqa.jsonl", "hotpotqa_500.jsonl", "hotpot_dev_distractor_v1.json"),
        f"{_R1}hotpotqa_500.jsonl", "CC BY-SA 4.0", **_QA, reported=_reported(45.0, 51.8, _SEARCH) | {ACE: 58.8}),
    "2wiki": Benchmark(
        "2Wiki", ("2wiki.jsonl", "2wiki_500.jsonl", "2wikimultihopqa.jsonl"), f"{_R1}2wiki_500.jsonl", "Apache-2.0",
        **_QA, reported=_reported(32.8, 38.8, _SEARCH) | {ACE: 66.0}),
    "musique": Benchmark(
        "MuSiQue", ("musique.jsonl", "musique_500.jsonl"), f"{_R1}musique_500.jsonl", "CC BY 4.0", **_QA,
        reported=_reported(16.8, 21.2, _SEARCH) | {ACE: 35.4}),
    "bamboogle": Benchmark(
        "Bamboogle", ("bamboogle.jsonl",), f"{_R1}bamboogle.jsonl; ritaranx/AceSearcher eval_datasets/bamboogle", "MIT",
        **_QA, reported=_reported(51.2, 54.4, _SEARCH) | {ACE: 55.2}),
    "hover": Benchmark(
        "HoVer", ("hover.jsonl", "hover_dev_release_v1.1.json"),
        "hover-nlp/hover data/hover/hover_dev_release_v1.1.json", "CC BY-SA 4.0", yes_no, "exact",
        reported={ACE: 68.3}),
    "exfever": Benchmark(
        "ExFEVER", ("exfever.jsonl",), "dependentsign/EX-FEVER data/test.csv, as jsonl", "Apache-2.0", yes_no,
        "exact", reported={ACE: 73.8}),
    "strategyqa": Benchmark(
        "StrategyQA", ("strategyqa.jsonl", "dev.json"), "eladsegal/strategyqa data/strategyqa/dev.json", "MIT", yes_no,
        "exact"),
    **{
        f"docmath_{name}": Benchmark(
            f"DocMath-Eval {name}", (f"docmath_{name}.jsonl", f"{name}_testmini.json"),
            "yale-nlp/DocMath-Eval on the Hub, its testmini files", "MIT", whole, "near")
        for name in ("simpshort", "compshort", "simplong", "complong")
    },
}  # fmt: skip


def find(names: Sequence[str], folder: Path) -> dict[str, Path]:
    """The file of each benchmark in a folder.

    Raises: ValueError for an unknown name; FileNotFoundError that says for every missing one what to fetch and where
      to put it.
    """
    if unknown := [name for name in names if name not in BENCHMARKS]:
        raise ValueError(f"--benchmarks={unknown[0]}: there is no such benchmark; choose from {', '.join(BENCHMARKS)}")
    if not folder.is_dir():
        raise FileNotFoundError(
            f"--data_dir={folder}: there is no such folder; make it and put the benchmarks' files there"
        )
    found = {name: [folder / file for file in BENCHMARKS[name].files if (folder / file).is_file()] for name in names}
    if missing := [name for name, files in found.items() if not files]:
        told = [f"{BENCHMARKS[name].source} as {folder / BENCHMARKS[name].files[0]}" for name in missing]
        raise FileNotFoundError(f"{', '.join(missing)}: no file yet; put {'; '.join(told)}")
    return {name: files[0] for name, files in found.items()}


def load(name: str, path: Path, most: int = 0) -> list[Item]:
    """The first `most` questions of a benchmark, 0 = all, as items of a suite of its name.

    Raises: ValueError naming the file and the entry that is not as published.
    """

    def read(entry: Any) -> Iterable[Item]:
        fields = entry[1] if isinstance(entry, tuple) else entry  # of a JSON object of entries
        row = BENCHMARKS[name].read(fields)
        if row is not None:
            yield dataclasses.replace(item(dict(row), str(path)), suite=name)

    items = []
    for each in published.parsed(published.entries(path), read, None):
        items.append(each)
        if len(items) == most:
            break
    if not items:
        raise ValueError(f"{path} holds no questions")
    return items
