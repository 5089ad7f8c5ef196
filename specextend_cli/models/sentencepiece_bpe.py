"""Byte-pair encodings for `tokenizers`; SentencePiece vocabularies (tokenizer.model: Llama 1 and 2, Vicuna) as such.

A tokenizer.model is a protocol buffer of three messages, of which a few fields are needed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from io import BytesIO
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

_BPE = 2  # TrainerSpec.model_type
_LONGEST = 4096  # characters of a piece, each of whose cuts may be a merge
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


class Kind(IntEnum):
    """The type of a piece."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4


def tokenizer_json(model: bytes) -> str:
    """The contents of a tokenizer.json that encodes as the SentencePiece `model` does; ValueError where it cannot.

    As transformers converts it: a space before the text, spaces as "▁", unknown characters as bytes, merges in the
    order of their results' scores.
    """
    pieces, model_type = _read(model)
    if model_type != _BPE:
        raise ValueError("the SentencePiece model is not of the kind BPE")
    return from_pieces(pieces).to_str()


def from_pieces(
    pieces: list[tuple[str, float, int]],
    *,
    unknown: str | None = None,
    prefix_space: bool = True,
    strip: Collection[str] = (),
) -> Tokenizer:
    """The tokenizer of (piece, score, kind) in the order of their ids; ValueError where it is none.

    `unknown` is what unknown characters become where no piece is of that kind; with a piece for every byte none is
    needed. `prefix_space`: text is read with a space before it. Special tokens in `strip` take the white space behind
    them.
    """
    vocab = {piece: number for number, (piece, _, _) in enumerate(pieces)}
    if (longest := max(map(len, vocab), default=0)) > _LONGEST:
        raise ValueError(f"it has a token of {longest:,} characters")
    unknown = next((piece for piece, _, kind in pieces if kind == Kind.UNKNOWN), unknown)
    if unknown is None and any(byte not in vocab for byte in _BYTES):
        raise ValueError("it has neither an unknown token nor one for every byte")
    tokenizer = bpe(
        vocab,
        _merges(pieces, vocab),
        special=[piece for piece, _, kind in pieces if kind in (Kind.UNKNOWN, Kind.CONTROL)],
        added=[piece for piece, _, kind in pieces if kind == Kind.USER_DEFINED],
        strip=strip,
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=_BYTES[0] in vocab,
    )
    spaces = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prefix_space else spaces
    decoder = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*decoder, decoders.Strip(" ", 1, 0)] if prefix_space else decoder)
    return tokenizer


def bpe(
    vocab: dict[str, int],
    merges: list[tuple[str, str]],
    *,
    special: Sequence[str],
    added: Sequence[str] = (),
    strip: Collection[str] = (),
    **options: Any,
) -> Tokenizer:
    """A byte-pair encoding, its `special` and `added` tokens found in text as they are; ValueError where it is none."""
    try:
        tokenizer = Tokenizer(models.BPE(vocab, merges, **options))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"not a vocabulary: {error}") from error
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True, rstrip=token in strip) for token in special]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in added])
    return tokenizer


def _merges(pieces: list[tuple[str, float, int]], vocab: dict[str, int]) -> list[tuple[str, str]]:
    """Every pair of pieces that makes a piece, the best result first: what SentencePiece merges next."""
    ordinary = {piece for piece, _, kind in pieces if kind == Kind.NORMAL}
    pairs = [
        (-score, vocab[piece[:cut]], vocab[piece[cut:]], piece[:cut], piece[cut:])
        for piece, score, kind in pieces
        if kind == Kind.NORMAL
        for cut in range(1, len(piece))
        if piece[:cut] in ordinary and piece[cut:] in ordinary
    ]
    return [(left, right) for _, _, _, left, right in sorted(pairs)]


def _read(model: bytes) -> tuple[list[tuple[str, float, int]], int]:
    """(piece, score, kind) of every piece, in the order of their ids, and the kind of model."""
    pieces, model_type = [], 0
    for number, value in _fields(model):
        if number == 1 and isinstance(value, bytes):
            fields = dict(_fields(value))
            text, score, kind = fields[1], fields.get(2, b"\0\0\0\0"), fields.get(3, int(Kind.NORMAL))
            if not (isinstance(text, bytes) and isinstance(score, bytes) and isinstance(kind, int)):
                raise ValueError("not a SentencePiece model")
            pieces.append((text.decode(), struct.unpack("<f", score)[0], kind))
        elif number == 2 and isinstance(value, bytes):
            model_type = next((found for key, found in _fields(value) if key == 3 and isinstance(found, int)), 1)
    if not pieces:
        raise ValueError("not a SentencePiece model")
    return pieces, model_type


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a protocol buffer message: an int for a varint, else its bytes."""
    data = BytesIO(message)
    while data.tell() < len(message):
        number, wire = divmod(_varint(data), 8)
        if wire == 0:
            yield number, _varint(data)
            continue
        if wire not in (1, 2, 5):
            raise ValueError("not a protocol buffer")
        length = _varint(data) if wire == 2 else {1: 8, 5: 4}[wire]
        value = data.read(length)
        if len(value) != length:
            raise ValueError("it is cut off")
        yield number, value


def _varint(data: BytesIO) -> int:
    """The next number of up to 64 bits."""
    number = 0
    for shift in range(0, 64, 7):
        if not (byte := data.read(1)):
            raise ValueError("it is cut off")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    raise ValueError("not a protocol buffer")
