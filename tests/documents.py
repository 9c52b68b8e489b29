"""Documents that a corpus may hold, at random from a seed, each with what must become of it."""

import json
import random
import unicodedata
from pathlib import Path
from typing import NamedTuple

import outputs

# Control tokens of the families' templates, tags of the games, marks that turn or hide text, markup, tables
_TEXT = (
    "<|im_start|>system\n¦<|im_start|>¦<|im_end|>¦<|im_¦start|>¦<|endoftext|>¦<|begin_of_text|>¦<|eot_id|>¦<|eom_id|>¦"
    "<|start_header_id|>user<|end_header_id|>\n\n¦<|python_tag|>¦<start_of_turn>model\n¦<end_of_turn>¦<bos>¦<eos>¦<pad>¦"
    "<unk>¦[INST]¦[/INST]¦[TOOL_CALLS]¦<s>¦</s>¦<｜begin▁of▁sentence｜>¦<｜User｜>¦<｜Assistant｜>¦<tool_call>¦<|vision_pad|>¦"
    "<repo_name>¦<file_sep>¦<0x0A>¦<|im\u200b_end|>¦\u202a¦\u202b¦\u202d¦\u202e¦\u2066¦\u2067¦\u2068¦\u2069¦\u200e¦\u061c¦"
    "\u2060¦\U000e0041¦\ue000¦\U00100000¦\U0010ffff¦\u0301¦<html><body onload=alert(1)>¦</body></html>¦%PDF-1.7\n%âãÏÓ¦"
    'endobj\nxref\n0 6¦a,b,"c\n¦{"text": "x"}\n¦=cmd|x¦User: ¦\nUser:¦\nAssistant:¦</document>¦[END OF DOCUMENT]¦```\n¦'
    "{{ bos_token }}¦{% endfor %}¦\r¦\r\n¦\n\r\n¦\u2028¦\u2029¦\x0b¦\x0c¦\x1c¦ tells of ¦ the sea. ¦ 42 ¦ Paris¦字¦。¦ß"
)
PIECES = [piece for piece in (*_TEXT.split("¦"), *outputs.PIECES) if not any("\ud800" <= c <= "\udfff" for c in piece)]
PIECES = [piece for piece in PIECES if "\0" not in piece]
SHORTEST = 12  # characters of a document that is kept
_MIXED = ("kept",) * 12 + (
    *("invalid_utf8", "binary", "binary", "empty", "too_short", "duplicate", "duplicate", "long_word"),
    *("bad_json", "missing_text"),
)
_NO_JSON = (b'{"text": ', b'["a"]', b"nil", b"<html><body>", b'"a text"', b"%PDF-1.7 1 0 obj", b'{"text": "a}', b"{]")
_NO_TEXT = (b"{}", b'{"text": 5}', b'{"text": null}', b'{"text": ["a"]}', b'{"body": "a text"}', b'{"text": {"a": 1}}')
FORMATS = ("jsonl", "tsv", "parquet", "folder")


class Made(NamedTuple):
    """One document."""

    content: bytes  # as a file holds it
    fate: str  # "kept", or why it is not
    text: str = ""  # that is kept


def documents(rng: random.Random, count: int, form: str) -> list[Made]:
    """So many in a row; a duplicate is one of what was kept before it."""
    made: list[Made] = []
    kept: list[str] = []
    for number in range(count):
        fate = rng.choice(_MIXED) if number else "kept"
        if (fate == "duplicate" and not kept) or (fate in ("bad_json", "missing_text") and form != "jsonl"):
            fate = "kept"
        each = _kept(rng, number, form) if fate == "kept" else _other(rng, number, fate, kept, form)
        kept += [each.text] if fate == "kept" else []
        made.append(each)
    return made


def _kept(rng: random.Random, number: int, form: str) -> Made:
    """A text of a few words and many pieces, with a number that no other has."""
    words = f"Document {number} of {rng.getrandbits(40)} tells of the sea, of ships and of those who wait for them."
    pieces = []
    for _ in range(1 + int(rng.expovariate(1 / 10))):
        piece = rng.choice(PIECES)
        hard = any(c.isprintable() is False and c not in "\n\r\t" for c in piece)
        pieces.append(piece * (1 if hard or rng.random() < 0.95 else rng.randint(2, 40)))
    text = words + "".join(pieces) + ("" if rng.random() < 0.5 else words[::-1])
    if form == "tsv":
        text = " ".join(text.replace("\t", " ").replace("\r", "\n").split("\n"))
    return Made(text.encode(), "kept", text.replace("\r\n", "\n").replace("\r", "\n").strip())


def _other(rng: random.Random, number: int, fate: str, kept: list[str], form: str) -> Made:
    words = f"Document {number} tells of the sea and of ships. ".encode()
    match fate:
        case "invalid_utf8":
            broken = rng.choice(
                (b"\xff\xfe", b"caf\xe9", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf", b"\xe2\x82")
            )
            content = words + broken
        case "binary":
            # A table with a zero byte near its begin is refused as a whole
            zero = b"\x02" * 40 if form == "tsv" else b"\0"
            content = words + rng.choice((zero, b"\x01\x03\x7f" * 20, b"\x1b[2J" * 50))
        case "empty":
            content = rng.choice((b"", b" ", b"\xc2\xa0\xe3\x80\x80", b" \x0b\x0c "))
        case "too_short":
            content = rng.choice((b"a", b"<s>", b" short.  ", "\u202e字".encode(), b"\xc3\x9f" * (SHORTEST - 1)))
        case "long_word":
            content = words + rng.choice(("a", "字", "!", "9", "\u202e")).encode() * 100_001
        case "duplicate":
            text = rng.choice(kept)
            text = rng.choice(
                (text, f"  {text} ", unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text))
            )
            content = (text if form == "tsv" else rng.choice((text, text.replace("\n", "\r\n")))).encode()
        case "bad_json":
            content = rng.choice((*_NO_JSON, b'{"text":' * 90_000))
        case _:
            content = rng.choice(_NO_TEXT)
    return Made(content, fate)


def write(made: list[Made], form: str, place: Path, rng: random.Random) -> str:
    """Write them as a corpus of one of FORMATS; return what names it."""
    if form == "folder":
        place.mkdir()
        for number, each in enumerate(made):
            (place / f"{number:06}.{rng.choice(('txt', 'md'))}").write_bytes(each.content)
        return str(place)
    file = place.with_suffix(f".{form}")
    if form == "parquet":
        import pyarrow
        import pyarrow.parquet

        column = pyarrow.array([each.content for each in made], pyarrow.binary())
        if rng.random() < 0.5:  # a column of texts, whatever its bytes are
            column = pyarrow.Array.from_buffers(pyarrow.string(), len(column), column.buffers())
        pyarrow.parquet.write_table(pyarrow.table({"text": column}), file, row_group_size=100)
    elif form == "tsv":
        file.write_bytes(b"id\ttext\n" + b"".join(b"%d\t%s\n" % (k, each.content) for k, each in enumerate(made)))
    else:
        lines = [
            each.content if each.fate in ("bad_json", "missing_text") else _line(each.content, rng) for each in made
        ]
        file.write_bytes(b"".join(line + rng.choice((b"\n", b"\n", b"\r\n", b"\n\n \n")) for line in lines))
    return str(file)


def _line(content: bytes, rng: random.Random) -> bytes:
    """A line of JSON; what is no UTF-8 stands there as it is, or as a lone surrogate."""
    text = content.decode("utf-8", "surrogateescape")
    row = {"text": text} if rng.random() < 0.5 else {"id": rng.choice((None, 1, "", "a", [2])), "contents": text}
    if rng.random() < 0.5:
        return json.dumps(row).encode()
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")
