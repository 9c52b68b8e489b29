"""Question sets in the formats they are published in, read into rows of one shape."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import itertools
import json
import re
import types
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from spicejax.data import rows
from spicejax.models.files import looks_like

T = TypeVar("T")

_CALCULATED = re.compile(r"<<[^<>]*>>")  # GSM8K's marks for a calculator
_CLOSING = re.compile(r"(?s:.*)\bthe answer is:?[ \t]*(.+?)\.?\s*\Z", re.IGNORECASE)  # the last line says it
_FINAL = re.compile(r"(?:\A|\n)####[ \t]*(\S[^\n]*?)\s*\Z")
_FENCE = re.compile(r"^```(?:python)?\n(.*?)```", re.DOTALL)
_SIGNS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-COLON-": ":"}
_CHUNK = 1 << 20  # characters read at a time
YES = {True: "Yes", False: "No", "SUPPORTS": "Yes", "REFUTES": "No", "yes": "Yes", "no": "No"}
YES |= {"SUPPORTED": "Yes", "NOT_SUPPORTED": "No"}


@dataclasses.dataclass(frozen=True)
class Row:
    """A question with what its set has for it."""

    id: str
    question: str
    answers: tuple[str, ...] = ()  # the first is the answer; none where it has none
    context: str = ""  # the text it is about
    steps: tuple[str, ...] = ()  # sub-questions that lead to the answer
    solution: str = ""  # the way to it in words
    program: str = ""  # the way to it in Python

    def __post_init__(self) -> None:
        rows.text(self.question)
        for text in (*self.answers, self.context, *self.steps, self.solution, self.program):
            if not isinstance(text, str):
                raise TypeError(f"{text!r:.80} is no text")


Reader = Callable[[Any], Iterable[Row]]  # of one entry of a file
Place = tuple[str, int]  # a sentence of FEVER's pages: the page's name, its number there
PAGES = "wiki-pages"  # FEVER's folder of them


# What readers raise at entries that are not as published
_FAULTS = (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError)


class _Broken(ValueError):
    """Stands in the place of a line that is no entry, or of a question that is not as published."""


def read(path: Path, reader: Reader, broken: list[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a file, entry by entry: jsonl, a JSON array or a JSON object, gzipped or not.

    FEVER's passages come from the folder wiki-pages beside its file.

    Args:
      broken: collects the faults of entries that are not as published, which are left out; None = they raise.
    Raises: ValueError naming file and entry, for such an entry, and where the begin of the next one is unknown.
    """
    if reader is fever:
        reader = functools.partial(fever, sentences=_sentences(path, None if broken is None else []))
    yield from _each(path, reader, broken)


def _each(path: Path, reader: Callable[[Any], Iterable[T]], broken: list[str] | None = None) -> Iterator[T]:
    try:
        yield from parsed(entries(path), reader, broken)
    except (UnicodeDecodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} cannot be read ({error}); fetch it again") from None


def parsed(
    entries: Iterable[tuple[str, Any]], reader: Callable[[Any], Iterable[T]], broken: list[str] | None
) -> Iterator[T]:
    """Yield what `reader` makes of (place, entry) pairs; `broken` as in `read`."""
    for where, entry in entries:
        try:
            for row in [entry] if isinstance(entry, _Broken) else reader(entry):
                if not isinstance(row, _Broken):
                    yield row
                elif broken is None:
                    raise row
                else:
                    broken.append(f"{where}: {row}")
        except _FAULTS as error:
            why = f"{where}: {error if isinstance(error, _Broken) else _unlike(error)}"
            if broken is None:
                raise ValueError(why) from None
            broken.append(why)


def _unlike(error: Exception) -> str:
    return f"not as published ({type(error).__name__}: {error!s:.200})"


def _rows(questions: Iterable[T], row: Callable[[T], Row]) -> Iterator[Any]:
    """Yield the row of each question of an entry; one that is not as published leaves the others."""
    for number, question in enumerate(questions, 1):
        try:
            yield row(question)
        except _FAULTS as error:
            yield _Broken(f"question {number}: {_unlike(error)}")


def entries(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, entry): the lines of a jsonl, the members of an array, the (key, value) pairs of an object.

    A line that cannot be read is a _Broken in its entry's place: the next one may be whole.
    """
    if other := path.suffix != ".gz" and looks_like(path):
        raise ValueError(f"{path} looks like {other}")
    if path.suffix == ".jsonl":
        yield from _lines(path)
        return
    with (
        gzip.open(path, "rt", encoding="utf-8-sig") if path.suffix == ".gz" else path.open(encoding="utf-8-sig") as file
    ):
        stream = cast(IO[str], file)
        first = stream.read(1)
        while first.isspace():
            first = stream.read(1)
        if first == "[":
            yield from ((f"{path}: entry {n}", each) for n, each in enumerate(_members(stream, path), 1))
            return
        try:
            whole = json.loads(first + stream.read())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(whole, dict):
        raise ValueError(f"{path}: a {type(whole).__name__}, not a JSON object or array of questions with answers")
    lists = (whole[name] for name in ("data", "examples") if isinstance(whole.get(name), list))
    members = next(lists, None) or whole.items()
    yield from ((f"{path}: entry {n}", each) for n, each in enumerate(members, 1))


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Lines of a jsonl, one at a time: those of NarrativeQA, each with a whole book, are of many GB."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row: Any = json.loads(line.decode("utf-8-sig"))
                    row = row if isinstance(row, dict) else _Broken(f"a {type(row).__name__}, not a JSON object")
                except (ValueError, RecursionError) as error:
                    row = _Broken(f"not JSON: {error}")
                yield f"{path}:{number}", row


def _members(stream: IO[str], path: Path) -> Iterator[Any]:
    """Members of the array whose bracket was read; the file is never held as a whole (DPR's is of several GB)."""
    decoder, text, ended = json.JSONDecoder(), "", False
    while True:
        text = text.lstrip(" \t\r\n,")
        if text.startswith("]"):
            return
        try:
            member, end = decoder.raw_decode(text)
            if end == len(text) and not ended:
                raise ValueError("a number may go on")
        except ValueError as error:
            more = stream.read(max(_CHUNK, len(text)))
            if not more:
                raise ValueError(f"{path}: cut short, or not JSON: {error}") from None
            text, ended = text + more, False
            continue
        except RecursionError as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
        yield member
        text = text[end:]


def squad(article: Mapping[str, Any]) -> Iterator[Row]:
    """SQuAD 1.1 and 2.0, ROPES (background and situation); also one flat row of TFDS."""

    def row(of: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Row:
        paragraph, qa = of
        parts = [paragraph.get(name) for name in ("context", "background", "situation")]
        answers = qa["answers"]
        texts = answers["text"] if isinstance(answers, Mapping) else [each["text"] for each in answers]
        return Row(rows.label(qa["id"]), qa["question"].strip(), _once(texts), "\n\n".join(filter(None, parts)))

    if article.get("paragraphs"):
        yield from _rows(((paragraph, qa) for paragraph in article["paragraphs"] for qa in paragraph["qas"]), row)
    else:
        yield row((article, article))


def quoref(article: Mapping[str, Any]) -> Iterator[Row]:
    """Quoref, laid out as SQuAD: several answers are the parts of one."""
    for row in squad(article):
        yield dataclasses.replace(row, answers=_once([", ".join(row.answers)])) if isinstance(row, Row) else row


def drop(entry: Any) -> Iterator[Row]:
    """DROP: a number, a date or spans."""
    _, content = entry

    def row(qa: Mapping[str, Any]) -> Row:
        answer = qa["answer"]
        date = " ".join(
            filter(None, (rows.label(answer.get("date", {}).get(part)) for part in ("day", "month", "year")))
        )
        text = rows.label(answer.get("number")) or date or ", ".join(answer.get("spans", []))
        return Row(rows.label(qa["query_id"]), qa["question"], _once([text]), content["passage"])

    yield from _rows(content["qa_pairs"], row)


def tatqa(entry: Mapping[str, Any]) -> Iterator[Row]:
    """TAT-QA: paragraphs and a table; a number has its scale (million, percent) behind it."""
    ordered = sorted(entry["paragraphs"], key=lambda paragraph: int(paragraph["order"]))
    context = "\n".join([*(p["text"] for p in ordered), table(entry["table"]["table"])])

    def row(qa: Mapping[str, Any]) -> Row:
        answer = qa["answer"]
        text = ", ".join(map(rows.answer, answer)) if isinstance(answer, list) else rows.answer(answer)
        way = str(qa.get("derivation") or "")
        right = _once([f"{text} {qa.get('scale') or ''}"])
        return Row(rows.label(qa["uid"]), qa["question"], right, context, solution=way)

    yield from _rows(entry["questions"], row)


def fever(entry: Mapping[str, Any], sentences: Mapping[Place, str] = types.MappingProxyType({})) -> Iterator[Row]:
    """FEVER: a claim that is true or not; without enough evidence, or without passages, it has no answer.

    Its passages are its own "context", else the first set of evidence of which all sentences are there.
    """
    label, context = YES.get(entry["label"]), str(entry.get("context") or "")
    sets = () if context else (each for each in _evidence(entry) if all(place in sentences for place in each))
    texts: dict[str, list[str]] = {}
    for page, number in next(iter(sets), ()):
        texts.setdefault(_plain(page.replace("_", " ")), []).append(sentences[page, number])
    context = context or "\n\n".join(f"{title}\n{' '.join(lines)}" for title, lines in texts.items())
    yield Row(rows.label(entry["id"]), entry["claim"], (label,) if label and context else (), context)


def _evidence(entry: Mapping[str, Any]) -> list[list[Place]]:
    """Sets of sentences, each of which decides a FEVER claim; the names of pages in one form of Unicode."""
    groups = [[(page, number) for *_, page, number in each if page is not None] for each in entry.get("evidence") or ()]
    return [[(unicodedata.normalize("NFC", page), int(number)) for page, number in each] for each in groups if each]


def pages(path: Path) -> list[Path]:
    """Files of FEVER's Wikipedia, unpacked beside its file as wiki-pages/, or in a folder of that."""
    return sorted((path.parent / PAGES).rglob("wiki-*.jsonl"))


def _sentences(path: Path, broken: list[str] | None) -> dict[Place, str]:
    """The sentences that the claims of FEVER's file refer to; none where wiki-pages is missing beside it."""
    files = pages(path)
    places = set(_each(path, lambda entry: itertools.chain(*_evidence(entry)), broken)) if files else set[Place]()
    names = {name for name, _ in places}

    def referred(page: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
        name = unicodedata.normalize("NFC", page["id"])
        for line in page["lines"].split("\n") if name in names else ():
            number, _, rest = line.partition("\t")
            text = _plain(rest.partition("\t")[0]).strip()  # links follow
            if text and number.isdecimal() and (name, int(number)) in places:
                yield (name, int(number)), text

    return dict(itertools.chain.from_iterable(_each(file, referred) for file in files))


def _plain(source: str) -> str:
    """FEVER's texts without the Penn Treebank's names of signs."""
    return functools.reduce(lambda text, sign: text.replace(*sign), _SIGNS.items(), source)


def natural_questions(entry: Mapping[str, Any]) -> Iterator[Row]:
    """NQ as DPR has it: the first passage that holds the answer; without one it has no answer."""
    if not entry["positive_ctxs"]:
        yield Row("", entry["question"])
    for passage in entry["positive_ctxs"][:1]:
        context = f"{rows.label(passage['title'])}\n{rows.text(passage['text'])}"
        yield Row(rows.label(passage.get("passage_id")), entry["question"], _once(entry["answers"]), context)


def narrativeqa(entry: Mapping[str, Any]) -> Iterator[Row]:
    """NarrativeQA: about the summary of a story."""
    document = entry["document"]
    name = f"{document['id']}/{entry['question']['text']}"
    answers = [each["text"] for each in entry["answers"]]
    yield Row(name, entry["question"]["text"], _once(answers), document["summary"]["text"])


def gsm8k(entry: Mapping[str, Any]) -> Iterator[Row]:
    """GSM8K: the problem is the text, its last sentence the question; of the socratic form sub-questions too."""
    lines = [_CALCULATED.sub("", line).strip() for line in entry["answer"].strip().splitlines()]
    pairs = [line.partition(" ** ") for line in lines if not line.startswith("####")]
    steps = tuple(before.strip() for before, mark, _ in pairs if mark)
    solution = "\n".join((after if mark else before).strip() for before, mark, after in pairs)
    problem = entry["question"].strip()
    yield Row(problem, _last_sentence(problem), (final(entry["answer"]) or lines[-1],), problem, steps, solution)


def final(answer: str) -> str:
    """The text behind GSM8K's #### on the last line, without commas; "" without one."""
    match = _FINAL.search(answer)
    return match[1].replace(",", "") if match else ""


def convfinqa(entry: Mapping[str, Any]) -> Iterator[Row]:
    """ConvFinQA: texts around a table; the turns of the conversation are the steps, each of its own question."""
    context = "\n".join([*entry["pre_text"], table(entry["table"]), *entry["post_text"]])
    annotation = entry["annotation"]
    turns = list(zip(annotation["qa_split"], annotation["dialogue_break"], strict=False))
    for name, which in (("qa", 0), ("qa_0", 0), ("qa_1", 1)):
        if name in entry:
            qa = entry[name]
            steps = tuple(turn for of, turn in turns if of == which)
            yield Row(f"{entry['id']}/{name}", qa["question"], _once([qa["answer"]]), context, steps)


def strategyqa(entry: Mapping[str, Any]) -> Iterator[Row]:
    """StrategyQA: yes or no, with facts and a decomposition where it has them."""
    facts = entry.get("facts") or ()
    solution = facts if isinstance(facts, str) else " ".join(facts)  # one text in some copies
    steps = tuple(entry.get("decomposition") or ())
    yield Row(rows.label(entry.get("qid")), entry["question"], (YES[entry["answer"]],), steps=steps, solution=solution)


def ifqa(entry: Mapping[str, Any]) -> Iterator[Row]:
    """IfQA: counterfactual questions."""
    yield Row(rows.label(entry["idx"]), entry["question"], _once(entry["answers"]), "\n".join(entry["context"]))


def tabmwp(entry: Any) -> Iterator[Row]:
    """TabMWP: about a table; the question names the unit, as the authors ask it, and the answer does not."""
    name, qa = entry
    context = "\n".join(filter(None, (qa.get("table_title"), qa["table"])))
    choices = f" ({', '.join(qa['choices'])})" if qa.get("choices") else ""
    unit = f" (Unit: {qa['unit']})" if qa.get("unit") else ""
    question = f"{qa['question']}{unit}{choices}"
    yield Row(name, question, _once([qa["answer"]]), context, solution=qa["solution"].strip())


def multihop(entry: Mapping[str, Any]) -> Iterator[Row]:
    """HotpotQA and 2WikiMultihopQA: the question without the passages that come with it."""
    yield Row(rows.label(entry["_id"]), entry["question"], _once([entry["answer"]]))


def hover(entry: Mapping[str, Any]) -> Iterator[Row]:
    """HoVer: a claim of several parts."""
    yield Row(rows.label(entry["uid"]), entry["claim"], (YES[entry["label"]],))


def math_instruct(entry: Mapping[str, Any]) -> Iterator[Row]:
    """MathInstruct: a chain of thought, whose last line says the answer, or a program, by the folder it comes from."""
    question, output = entry["instruction"].strip(), entry["output"].strip()
    if "/PoT/" in entry["source"]:
        fenced = _FENCE.search(output)
        yield Row(question, question, program=fenced[1] if fenced else output)
    else:
        closing = _CLOSING.match(output)
        yield Row(question, question, _once(closing.groups() if closing else ()), solution=output)


def plain(entry: Mapping[str, Any]) -> Iterator[Row]:
    """One row of your own: question (or claim) and answer or answers, with any of document or context, passages,
    decomposition, facts, derivation, solution, program."""
    passages = "\n\n".join(f"{rows.label(p['title'])}\n{rows.text(p['text'])}" for p in entry.get("passages") or ())
    question = rows.text(entry.get("claim") or entry["question"]).strip()
    answers = entry.get("answers") or [entry["answer"]]
    solution = entry.get("solution") or entry.get("derivation") or " ".join(entry.get("facts") or ())
    if "####" in solution:
        yield from gsm8k({"question": question, "answer": solution})
        return
    texts = [", ".join(map(rows.answer, each)) if isinstance(each, list) else _verdict(each) for each in answers]
    if entry.get("scale"):
        texts = [f"{rows.answer(each)} {entry['scale']}" for each in texts]
    context = str(entry.get("document") or entry.get("context") or passages)
    steps = tuple(each["question"] if isinstance(each, dict) else each for each in entry.get("decomposition") or ())
    right = _once([each for each in texts if each != "NOT ENOUGH INFO"])
    yield Row(rows.label(entry.get("id")), question, right, context, steps, solution, str(entry.get("program") or ""))


def _verdict(answer: Any) -> Any:
    """Yes or no for a verdict; other answers as they are, numbers too, though 1 == True."""
    return YES.get(answer, answer) if isinstance(answer, bool | str) else answer


def table(lines: Iterable[Iterable[Any]]) -> str:
    """A table as text."""
    return "\n".join(" | ".join("" if cell is None else str(cell).strip() for cell in line) for line in lines)


def _once(texts: Iterable[Any]) -> tuple[str, ...]:
    """Right answers, each once and without empty ones. A null raises: the row is not as published."""
    return tuple(dict.fromkeys(text for each in texts if (text := "" if each == "" else rows.answer(each).strip())))


def _last_sentence(text: str) -> str:
    return re.split(r"(?<=[.?!])\s+", text)[-1]
