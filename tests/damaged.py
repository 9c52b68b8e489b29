"""Files made wrong at random from a seed, where their readers look: members of JSON, numbers of headers, bytes."""

import json
import random
import struct
from typing import Any

# Values that a field does not expect, as JSON writes them; the last of them are no JSON
VALUES = (
    "null true false 0 -1 1 3 1.5 -0.0 1e-999 1e999 -1e999 2147483647 2147483648 4611686018427387904"
    ' 18446744073709551616 "" "x" "\\ud800" "\\u0000" "1" "<|im_end|>" "../../etc/passwd" "/dev/zero" "NaN"'
    ' "\\n\\u001b[2J" "{question}" [] {} [[]] [null] {"":0} NaN -Infinity nil'
).split()
LONG = ("9" * 5000, f'"{"A" * 200_000}"', "[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, "[" * 150_000)
NUMBERS = (0, 1, 2, 3, 5, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**61 + 1, 2**63 - 1, 2**63, 2**64 - 1)
PIECES = (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b'"', b"{", b"]", b",", b"\t", b"\x1b[2J", b"\xef\xbb\xbf")
_GGUF_SIZES = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), (1, 1, 2, 2, 4, 4, 4, 1, 8, 8, 8), strict=True))


def damage(rng: random.Random, name: str, data: bytes) -> bytes:
    """A file of this name with one to three damages: of its form where that is known and whole, else of its bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        form = next((change for ending, change in _FORMS.items() if name.endswith(ending)), None)
        if form is None or rng.random() < 0.2:
            data = of_bytes(rng, data)
            continue
        try:
            data = form(rng, data)
        except (ValueError, LookupError, RecursionError, struct.error):  # damaged before
            data = of_bytes(rng, data)
    return data


def of_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bits flipped, a part cut, left out, doubled, overwritten or put in."""
    at = rng.randrange(1 + len(data))
    end = min(len(data), at + rng.choice((1, 2, 8, 100, len(data))))
    match rng.randrange(7):
        case 0 if data:
            at = min(at, len(data) - 1)
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:end] + data[at:]
        case 4:
            return data[:at] + rng.choice(PIECES) * rng.choice((1, 1, 1000)) + data[at:]
        case 5:
            number = rng.choice(NUMBERS).to_bytes(8, "little")[: rng.choice((1, 2, 4, 8))]
            return data[:at] + number + data[at + len(number) :]
        case _:
            return data[:at] + bytes(end - at) + data[end:]


class _Twice(str):
    """A key that may stand twice in one object."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def of_json(rng: random.Random, data: bytes) -> bytes:
    """One member taken away, renamed, doubled, moved or given another value."""
    tree = {"": json.loads(data)}
    holder, key = _spot(rng, tree)
    raw = ""
    match rng.randrange(8):
        case 0 if holder is not tree:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("", "x", f"{key} ", f"{key}".upper(), f"_{key}", "\ud800", "\x00", "A" * 9999))] = (
                holder.pop(key) if holder is not tree else holder[key]
            )
        case 2 if isinstance(holder, dict) and holder is not tree:
            holder[_Twice(key)] = rng.choice((None, 1, "x", [], holder[key]))
        case 3 if isinstance(holder, list):
            holder.insert(key, holder[rng.randrange(len(holder))])
        case 4:
            other, where = _spot(rng, tree)
            holder[key] = json.loads(json.dumps(other[where]))
        case 5:
            holder[key] = rng.choice(([holder[key]], {"x": holder[key]}, str(holder[key]), [holder[key]] * 40))
        case _:
            holder[key], raw = "\x01raw\x01", rng.choice(VALUES if rng.random() < 0.8 else LONG)
    return json.dumps(tree[""]).replace('"\\u0001raw\\u0001"', raw).encode()


def _spot(rng: random.Random, tree: Any) -> tuple[Any, Any]:
    """A container of the tree and a key in it; all depths are as likely, however many members each has."""
    holder, key = tree, ""
    while isinstance(inner := holder[key], dict | list) and inner and rng.random() < 0.8:
        holder, key = inner, rng.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
    return holder, key


def of_lines(rng: random.Random, data: bytes) -> bytes:
    """One line of JSON changed, taken away, doubled or joined with the next."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    match rng.randrange(10):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[at])
        case 2:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case _:
            lines[at] = of_json(rng, lines[at])
    return b"\n".join(lines)


def of_safetensors(rng: random.Random, data: bytes) -> bytes:
    """A member of the header, its length, or the numbers behind it."""
    size = int.from_bytes(data[:8], "little")
    header, rest = data[8 : 8 + size], data[8 + size :]
    match rng.randrange(4):
        case 0:
            return rng.choice((*NUMBERS, size + 1, size - 1, len(data))).to_bytes(8, "little") + data[8:]
        case 1:
            return data[: 8 + size] + of_bytes(rng, rest)
        case _:
            header = of_json(rng, header)
            return len(header).to_bytes(8, "little") + header + rest


def of_gguf(rng: random.Random, data: bytes) -> bytes:
    """A number of the header: a count, a length, a type, a value, a dimension, an offset; or a byte of a text."""
    kind, at, size = rng.choice(gguf_spots(data))
    if kind == "text":
        at += rng.randrange(size) if size else 0
        return data[:at] + rng.choice((b"\xff", b"\0", b"\n", b"X", b".")) + data[at + 1 :]
    value = int.from_bytes(data[at : at + size], "little")
    number = rng.choice((*NUMBERS, value + 1, value - 1, value * 2, value ^ 1 << rng.randrange(8 * size)))
    return data[:at] + (number % 2 ** (8 * size)).to_bytes(size, "little") + data[at + size :]


def gguf_spots(data: bytes) -> list[tuple[str, int, int]]:
    """(kind, offset, size) of each number and text of a GGUF header; of long arrays the first members."""
    spots, at = [("count", 8, 8), ("count", 16, 8)], 24
    tensors, fields = struct.unpack_from("<QQ", data, 8)

    def number(kind: str, size: int) -> int:
        nonlocal at
        if at + size > len(data):
            raise ValueError("ends within its header")
        spots.append((kind, at, size))
        at += size
        return int.from_bytes(data[at - size : at], "little")

    def text() -> None:
        nonlocal at
        length = number("length", 8)
        spots.append(("text", at, length))
        at += length

    def value(kind: int) -> None:
        if kind == 8:
            text()
        elif kind == 9:
            inner, count = number("type", 4), number("count", 8)
            for k in range(count):
                before = len(spots)
                value(inner)
                if k > 3:
                    del spots[before:]
        else:
            number("value", _GGUF_SIZES[kind])

    for _ in range(fields):
        text()
        value(number("type", 4))
    for _ in range(tensors):
        text()
        for _ in range(number("count", 4)):
            number("dimension", 8)
        number("type", 4)
        number("offset", 8)
    return spots


_FORMS = {
    ".json": of_json,
    ".jsonl": of_lines,
    ".safetensors": of_safetensors,
    ".gguf": of_gguf,
}
