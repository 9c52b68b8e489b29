"""The vocabulary of a byte-pair tokenizer: plain text to ids, ids to exact bytes, and the table of added tokens.

Plain text never becomes an added token: the encoder is rebuilt from `tokenizer.json` without the added tokens, and
pieces that spell one are taken out of its vocabulary and its merges. Added tokens of whitespace only (runs of
newlines in some families) are text like any other and stay.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import tokenizers

from spicejax.models.files import GGUF_TOKENIZERS, checked, gguf_reader

GGUF_CONTROL, GGUF_USER_DEFINED, GGUF_UNUSED = 3, 4, 5  # values of tokenizer.ggml.token_type

# Ids index tables in memory, so a wild one must not pass.
Id = Annotated[int, msgspec.Meta(ge=0, lt=2**24)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Merge = Annotated[str, msgspec.Meta(pattern=" ")]


class AddedSpec(TypedDict):
    """An added token in a file."""

    content: Text
    special: bool
    lstrip: bool
    rstrip: bool


class NumberedSpec(AddedSpec):
    """An added token of tokenizer.json."""

    id: Id


class ModelSpec(TypedDict):
    """What is read of tokenizer.json's model."""

    type: NotRequired[Literal["BPE"]]
    vocab: Annotated[dict[str, Id], msgspec.Meta(min_length=1)]
    merges: list[Merge | tuple[str, str]]


class Steps(TypedDict, total=False):
    """A pre-tokenizer, post-processor or decoder, or several of them."""

    pretokenizers: list[dict[str, Any]]
    processors: list[Steps]
    decoders: list[dict[str, Any]]
    single: list[dict[str, dict[str, Any]]]


class TokenizerSpec(TypedDict):
    """What is read of tokenizer.json."""

    model: ModelSpec
    added_tokens: NotRequired[list[NumberedSpec]]
    pre_tokenizer: NotRequired[Steps | None]
    post_processor: NotRequired[Steps | None]
    decoder: NotRequired[Steps | None]


class GgufTokens(TypedDict):
    """A GGUF file's vocabulary."""

    tokens: list[str]
    token_type: list[int]
    merges: list[Merge]


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """One id that stands outside the trained pieces."""

    text: str
    id: int
    special: bool  # dropped when decoding
    lstrip: bool = False  # swallows the whitespace before it
    rstrip: bool = False  # swallows the whitespace after it


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """Ids, bytes and the plain encoder of one tokenizer."""

    encode: Callable[[str], list[int]]  # plain text; never gives the id of an entry of `added`
    token_bytes: tuple[bytes, ...]  # by id; b"" for special tokens and holes
    holes: tuple[int, ...]  # ids below the last one that no token has, ascending
    added: tuple[AddedToken, ...]
    dummy_prefix: bool = False  # the encoder puts a space in front of every text (SentencePiece option)
    encode_after_token: Callable[[str], list[int]] | None = None  # of text that follows a token, if another one


PROBE = "Probe 0123, naïve “quotes”: x^{2} + 日本 🙂\n\n  tab\tend."


def well_formed(text: str) -> str:
    """Replace lone surrogates, which no encoding can carry, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def byte_of_char() -> dict[str, int]:
    """Invert the GPT-2 table that shows each byte as one printable character."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in printable}
    others = [b for b in range(256) if b not in set(printable)]
    return table | {chr(256 + i): b for i, b in enumerate(others)}


def from_tokenizer_json(spec: Mapping[str, Any], name: str, more_added: Sequence[AddedToken] = ()) -> Vocabulary:
    """Build the vocabulary from the content of a `tokenizer.json`.

    Args:
      spec: the parsed file, which is a TokenizerSpec.
      name: shown in errors.
      more_added: added tokens that only `tokenizer_config.json` knows.
    Raises:
      ValueError: what the library refuses, or a feature whose exact effect on pieces is not reproduced here.
    """
    _refuse_unsupported(spec, name)
    added = [
        AddedToken(t["content"], t["id"], t["special"], t["lstrip"], t["rstrip"]) for t in spec.get("added_tokens", [])
    ]
    known = {t.text for t in added}
    added += [t for t in more_added if t.text not in known]
    guarded = tuple(t for t in added if not _is_blank(t.text))
    names = {t.text for t in guarded}
    encode, encode_after_token = _encoder(spec, names, name), None
    if (pre_tokenizer := _pre_tokenizer_after_token(spec.get("pre_tokenizer") or {})) is not None:
        encode_after_token = _encoder({**spec, "pre_tokenizer": pre_tokenizer}, names, name)
    pieces = {i: text for text, i in spec["model"]["vocab"].items()} | {t.id: t.text for t in added}
    table = _token_table(spec, pieces, {t.id for t in added if t.special})
    holes, decoder = tuple(i for i in range(len(table)) if i not in pieces), spec.get("decoder") or {}
    strips = any(step.get("type") == "Strip" and step.get("start") for step in decoder.get("decoders", [decoder]))
    return Vocabulary(encode, table, holes, guarded, dummy_prefix=strips, encode_after_token=encode_after_token)


def _pre_tokenizer_after_token(whole: Mapping[str, Any]) -> dict[str, Any] | None:
    """The pre-tokenizer of text that follows a token, None where it is the same: Metaspace may mark the first text."""
    steps = whole.get("pretokenizers", [whole])
    others = [{**step, "prepend_scheme": "never"} if step.get("prepend_scheme") == "first" else step for step in steps]
    if others == steps:
        return None
    return {**whole, "pretokenizers": others} if "pretokenizers" in whole else others[0]


def _is_blank(text: str) -> bool:
    return not text.replace("▁", " ").strip()


def _refuse_unsupported(spec: Mapping[str, Any], name: str) -> None:
    for token in spec.get("added_tokens", []):
        if token.get("single_word"):
            raise ValueError(f"{name}: added token {token['content']!r} has single_word=true, which is not supported")
        if len(token["content"]) < 2 and not _is_blank(token["content"]):
            raise ValueError(f"{name}: added token {token['content']!r} is one character long, which is not supported")


def _encoder(spec: Mapping[str, Any], guarded: set[str], name: str) -> Callable[[str], list[int]]:
    """Build the encoder of plain text, which never gives a guarded token."""
    plain = {k: v for k, v in spec.items() if k not in ("model", "added_tokens")}
    plain |= {"truncation": None, "padding": None, "post_processor": None}
    plain["added_tokens"] = [t for t in spec.get("added_tokens", []) if t["content"] not in guarded]
    model = copy.copy(spec["model"])
    # An added token that no piece spells would take the next free id, which may be a guarded one's.
    kept = {t["content"]: t["id"] for t in plain["added_tokens"]}
    model["vocab"] = kept | {k: v for k, v in model["vocab"].items() if k not in guarded}
    pairs = [merge if isinstance(merge, list) else merge.split(" ", 1) for merge in model["merges"]]
    if any(a + b in guarded or a in guarded or b in guarded for a, b in pairs):
        model["merges"] = [[a, b] for a, b in pairs if not {a + b, a, b} & guarded]
    if model.get("unk_token") in guarded:
        model["unk_token"] = None  # characters without a piece or byte disappear instead of giving a control id
    plain["model"] = model
    try:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(plain))
        tokenizer.encode(PROBE)
    except BaseException as error:  # the library raises nothing narrower, and panics in Rust are no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{name}: this tokenizer.json cannot be used ({error}); download it again") from error
    return lambda text: tokenizer.encode(well_formed(text), add_special_tokens=False).ids


def _token_table(spec: Mapping[str, Any], pieces: Mapping[int, str], special: Set[int]) -> tuple[bytes, ...]:
    """Bytes by id, as the decoder named in the file would write them."""
    decoder = spec.get("decoder") or {}
    byte_level = any(d.get("type") == "ByteLevel" for d in decoder.get("decoders", [decoder]))
    chars = byte_of_char()
    table = [b""] * (max(pieces) + 1)
    for i, text in pieces.items():
        if i in special:
            continue
        if not byte_level:
            table[i] = sentencepiece_piece(text)
        elif all(c in chars for c in text):
            table[i] = bytes(chars[c] for c in text)
        else:  # an added token outside the alphabet stands for itself
            table[i] = text.encode("utf-8")
    return tuple(table)


def sentencepiece_piece(text: str) -> bytes:
    """Bytes of a SentencePiece piece: `▁` is a space, `<0xAB>` the byte AB."""
    if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
        return bytes([int(text[3:5], 16)])
    return text.replace("▁", " ").encode("utf-8")


def tokenizer_json_from_gguf(path: Path) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
    """Rebuild `tokenizer.json` and `tokenizer_config.json` from GGUF metadata, and the further ids that end a turn.

    Raises:
      ValueError: as gguf_reader, or a vocabulary that is not whole.
    """
    fields = gguf_reader(path).fields

    def get(key: str) -> Any:
        field = fields.get(f"tokenizer.{key}")
        try:
            return None if field is None else field.contents()
        except (ValueError, LookupError) as error:  # bytes that are no text
            raise ValueError(f"{path}: GGUF metadata tokenizer.{key}: {error}; download the file again") from error

    if (pre := get("ggml.pre")) is None or get("ggml.model") is None:
        raise ValueError(f"{path}: this GGUF file names no tokenizer; give the model's Hugging Face folder instead")
    rule = GGUF_TOKENIZERS[pre]
    lists = {name: get(f"ggml.{name}") for name in GgufTokens.__annotations__}
    checked(lists, GgufTokens, f"{path}: GGUF metadata tokenizer.ggml")
    tokens, types = lists["tokens"], lists["token_type"]
    names = ("bos", "eos", "unknown", "padding", "eot", "eom")
    ids = {name: i for name in names if (i := get(f"ggml.{name}_token_id")) is not None}
    if len(types) != len(tokens) or any(i not in range(len(tokens)) for i in ids.values()):
        raise ValueError(
            f"{path}: GGUF metadata tokenizer.ggml has {len(tokens)} tokens, but {len(types)} types and the ids {ids}; "
            "download the file again"
        )
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": i, "content": tokens[i], "special": kind == GGUF_CONTROL, **flags}
        for i, kind in enumerate(types)
        if kind in (GGUF_CONTROL, GGUF_USER_DEFINED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    bpe = {
        "type": "BPE",
        **dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix")),
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": rule.ignore_merges,
        "vocab": {token: i for i, token in enumerate(tokens) if types[i] != GGUF_UNUSED},
        "merges": [merge.split(" ", 1) for merge in lists["merges"]],
    }
    spec = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": rule.normalizer}
    spec |= {"pre_tokenizer": rule.pre_tokenizer, "post_processor": None, "decoder": byte_level, "model": bpe}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    ours = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    config |= {k: tokens[ids[n]] for k, n in ours.items() if n in ids}
    add_bos, template = get("ggml.add_bos_token"), get("chat_template")
    if not isinstance(template, str | None):
        raise ValueError(
            f"{path}: GGUF metadata tokenizer.chat_template={template!r:.100} is no text; download the file again"
        )
    config |= {"chat_template": template, "add_bos_token": rule.add_bos if add_bos is None else add_bos}
    ends = [ids[name] for name in ("eot", "eom") if name in ids]
    return spec, {k: v for k, v in config.items() if v is not None}, ends
