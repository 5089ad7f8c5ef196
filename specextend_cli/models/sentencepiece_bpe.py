"""A SentencePiece BPE vocabulary (tokenizer.model: Llama 1 and 2, Vicuna) as the tokenizer.json that is missing.

The file is a protocol buffer of three messages; reading the few fields that matter needs no library.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from enum import IntEnum

_BPE = 2  # TrainerSpec.model_type


class _Kind(IntEnum):
    """SentencePiece.type"""

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
    vocab = {piece: number for number, (piece, _, _) in enumerate(pieces)}
    unknown = next(piece for piece, _, kind in pieces if kind == _Kind.UNKNOWN)
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": vocab[piece], "content": piece, **flags, "special": kind != _Kind.USER_DEFINED}
            for piece, _, kind in pieces
            if kind in (_Kind.UNKNOWN, _Kind.CONTROL, _Kind.USER_DEFINED)
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": unknown,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": "<0x00>" in vocab,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": _merges(pieces, vocab),
        },
    }
    return json.dumps(tokenizer, ensure_ascii=False)


def _merges(pieces: list[tuple[str, float, int]], vocab: dict[str, int]) -> list[tuple[str, str]]:
    """Every pair of pieces that makes a piece, the best result first: what SentencePiece merges next."""
    ordinary = {piece for piece, _, kind in pieces if kind == _Kind.NORMAL}
    pairs = [
        (-score, vocab[piece[:cut]], vocab[piece[cut:]], piece[:cut], piece[cut:])
        for piece, score, kind in pieces
        if kind == _Kind.NORMAL
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
            text, score, kind = fields[1], fields.get(2, b"\0\0\0\0"), fields.get(3, int(_Kind.NORMAL))
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
    position = 0

    def varint() -> int:
        nonlocal position
        result = shift = 0
        while True:
            byte = message[position]
            position += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    while position < len(message):
        key = varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, varint()
            continue
        if wire not in (1, 2, 5):
            raise ValueError("not a protocol buffer")
        length = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        if position + length > len(message):
            raise ValueError("it is cut off")
        yield number, message[position : position + length]
        position += length
