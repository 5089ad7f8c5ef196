from __future__ import annotations

import struct
from pathlib import Path

import pytest

from specextend_cli.errors import ModelError
from specextend_cli.models.tokens import TextEncoder, load_tokenizer


def field(number: int, value: bytes | int) -> bytes:
    """One field of a protocol buffer message; values below 128 only, or short byte strings."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    length = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 0x7F | 0x80, len(value) >> 7])
    return bytes([number << 3 | 2]) + length + value


def piece(text: str, score: float = 0.0, kind: int = 1) -> bytes:
    return field(1, field(1, text.encode()) + bytes([2 << 3 | 5]) + struct.pack("<f", score) + field(3, kind))


def model(kind: int = 2) -> bytes:
    """A vocabulary in which "▁ab" can be made in two ways, and the better one goes first."""
    head = [piece("<unk>", kind=2), piece("<s>", kind=3), piece("</s>", kind=3)]
    parts = [piece(f"<0x{byte:02X}>", kind=6) for byte in range(256)]
    merged = [piece("ab", -0.0), piece("▁a", -1.0), piece("▁ab", -2.0), piece("▁▁", -3.0)]
    letters = [piece(text, -4.0 - n) for n, text in enumerate("▁abc")] + [piece("a" * 200, -9.0)]
    return b"".join([*head, *parts, *merged, *letters]) + field(2, field(3, kind))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tokenizer.model").write_bytes(model())
    return tmp_path


def test_merges_follow_the_scores(directory: Path) -> None:
    tokenizer = load_tokenizer(directory)
    assert tokenizer.encode("ab cab  a").tokens == ["▁ab", "▁", "c", "ab", "▁", "▁a"]


def test_unknown_characters_become_bytes_and_come_back(directory: Path) -> None:
    encoder = TextEncoder.of(directory)
    assert encoder.fast is None
    for text in ("ab", "a é 中 🙂", "  spaces  ", "line\n\tbreak"):
        assert encoder.decode(encoder.encode(text)) == text


def test_special_tokens(directory: Path) -> None:
    encoder = TextEncoder.of(directory)
    assert encoder.encode_prompt("<s>ab</s>")[::2] == [1, 2]
    assert not {1, 2} & set(encoder.encode("<s>ab</s>"))


NONE = [b"", b"\x07", b"garbage", b"\xff" * 1000, b"\x0a\x80\x80\x80\x80\x10", model()[:300], model(kind=1)]


@pytest.mark.parametrize("content", NONE)
def test_what_is_no_bpe_model(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelError, match="cannot read the tokenizer"):
        TextEncoder.of(tmp_path)
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(ModelError, match="cannot read the tokenizer"):
        TextEncoder.of(tmp_path)
