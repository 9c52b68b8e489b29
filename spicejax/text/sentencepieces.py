"""SentencePiece models: loading a `tokenizer.model`, and training a small one for our own nano models."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers

from spicejax.text import vocabulary
from spicejax.text.vocabulary import Vocabulary, sentencepiece_piece, well_formed

CHAT_SYMBOLS = ("<|im_start|>", "<|im_end|>")


def load_sentencepiece(path: Path, text_pieces: Collection[str] = ()) -> Vocabulary:
    """Read a SentencePiece model. Control and user-defined pieces become added tokens that text never produces.

    `text_pieces` are user-defined pieces that are ordinary text all the same.
    """
    try:
        if not (content := path.read_bytes()):
            raise RuntimeError("it is empty")
        model = _without_user_defined(content, text_pieces).SerializeToString()
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, TypeError) as error:  # the latter for a piece that is no UTF-8
        raise ValueError(f"{path} is no SentencePiece model ({error}); download the tokenizer again") from error
    size = processor.get_piece_size()
    control = {i for i in range(size) if processor.is_control(i) or processor.is_unknown(i)}
    table = tuple(b"" if i in control else sentencepiece_piece(processor.id_to_piece(i)) for i in range(size))
    added = tuple(vocabulary.AddedToken(processor.id_to_piece(i), i, special=True) for i in sorted(control))

    unknown = processor.unk_id()

    def encode(text: str) -> list[int]:
        return [i for i in processor.encode(well_formed(text)) if i != unknown]

    probe = processor.encode("a")
    dummy_prefix = bool(probe) and processor.id_to_piece(probe[0]).startswith("▁")
    holes = tuple(i for i in range(size) if processor.is_unused(i))
    return Vocabulary(encode, table, holes, added, dummy_prefix)


def train_sentencepiece(
    texts: Iterable[str],
    vocab_size: int,
    path: str | os.PathLike[str],
    *,
    text_pieces: Sequence[str] = (),
    chat_template: str = "",
) -> Path:
    """Train a byte-pair tokenizer with byte fallback and single digits, and write it with a chat template.

    The same texts give the same file: one thread, no sampling. Lossless but for `▁` (U+2581), SentencePiece's space.

    Args:
      texts: documents.
      vocab_size: ids in all; at least 300 (256 bytes, 4 control pieces and the characters seen).
      path: folder for `tokenizer.model` and `tokenizer_config.json`.
      text_pieces: strings that always are one piece each, wherever they stand in a text; ▁ for a space: one with a
        plain space never occurs.
    Returns:
      The folder, ready for `tokens.load`.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_lines(texts),
            model_writer=model,
            vocab_size=vocab_size,
            model_type="bpe",
            byte_fallback=True,
            split_digits=True,
            control_symbols=list(CHAT_SYMBOLS),
            user_defined_symbols=list(text_pieces),
            unk_id=0,
            pad_id=1,
            bos_id=-1,
            eos_id=-1,
            normalization_rule_name="identity",
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            character_coverage=0.9995,
            max_sentence_length=1 << 16,
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"training a tokenizer with vocab_size={vocab_size} failed: {error}") from error
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    config = {"eos_token": "<|im_end|>", "pad_token": "<pad>", "unk_token": "<unk>"}
    config |= {"chat_template": chat_template, "text_pieces": list(text_pieces)}
    config |= {"add_bos_token": False, "add_eos_token": False, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return folder


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Cut texts into training sentences: lines, which SentencePiece wants short and without NUL."""
    for text in texts:
        for line in well_formed(text).replace("\0", " ").split("\n"):
            for start in range(0, len(line), 8192):
                yield line[start : start + 8192]


def _without_user_defined(data: bytes, text_pieces: Collection[str]) -> Any:
    """Parse a model and make its user-defined pieces control pieces: text must not write a token such as a turn start.

    User-defined runs of whitespace and `text_pieces` stay; they are ordinary text.
    Returns: the ModelProto.
    """
    from google.protobuf import message  # grain brings it along
    from sentencepiece import sentencepiece_model_pb2

    proto: Any = sentencepiece_model_pb2  # its classes are made at import
    model = proto.ModelProto()
    try:
        model.ParseFromString(data)
    except message.DecodeError as error:
        raise RuntimeError(str(error)) from error
    for piece in model.pieces:
        text = piece.piece.replace("▁", " ")
        if piece.type == piece.USER_DEFINED and text.strip() and not {text, piece.piece} & set(text_pieces):
            piece.type = piece.CONTROL
    return model


def as_tokenizer_json(path: Path, text_pieces: Collection[str]) -> str:
    """Write a byte-pair `tokenizer.model` with `text_pieces`, which other tools do not know, as tokenizer.json.

    Raises: ValueError where a text of some piece would get other ids than from the model.
    """
    model = _without_user_defined(path.read_bytes(), text_pieces)
    vocab = {piece.piece: i for i, piece in enumerate(model.pieces)}
    plain = [piece.piece for piece in model.pieces if piece.type == piece.NORMAL]
    defined = [piece.piece for piece in model.pieces if piece.type == piece.USER_DEFINED]
    control = [piece.piece for piece in model.pieces if piece.type == piece.CONTROL]
    unknown = model.pieces[model.trainer_spec.unk_id].piece
    halves = [(text[:k], text[k:]) for text in plain for k in range(1, len(text))]
    merges = [(left, right) for left, right in halves if left in vocab and right in vocab]
    # Best score first, as SentencePiece merges
    merges.sort(key=lambda pair: (-model.pieces[vocab["".join(pair)]].score, vocab[pair[0]]))
    written = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    written.normalizer = normalizers.Replace(" ", "▁")
    written.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    written.add_special_tokens([AddedToken(text, normalized=False) for text in (unknown, *control)])
    # One with a plain space never occurs
    written.add_tokens([AddedToken(text, normalized=True) for text in defined if " " not in text])
    texts = [text.replace("▁", " ") for text in (*plain, *defined)]
    texts += [" ".join(texts), "".join(texts), "".join(texts[::-1]), vocabulary.PROBE]
    encode = load_sentencepiece(path, text_pieces).encode
    for text in texts:
        if written.encode(text, add_special_tokens=False).ids != encode(text):
            raise ValueError(
                f"{path}: as tokenizer.json it would give other ids for {text[:80]!r}; nothing was written"
            )
    return written.to_str()
