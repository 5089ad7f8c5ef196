"""GGUF files, read without trusting them.

Every count, length and offset is bounded before anything is allocated; the gguf package's own reader
follows them wherever they lead. Tensors are read, not mapped: a file that is cut short meanwhile is then an error, not
the end of the process.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGUF_DEFAULT_ALIGNMENT, GGMLQuantizationType, GGUFReader, GGUFValueType

from specextend_cli.models.gguf.source import parts

_VERSIONS = (2, 3)
_MOST_FIELDS = 1 << 12
_MOST_ITEMS = 1 << 22  # of an array; the largest published vocabularies have half a million merges
_LONGEST = 1 << 24  # bytes of a string
_MOST_TENSORS = 1 << 16
_MOST_NUMBERS = 1 << 40  # of a tensor
_NUMBERS = GGUFReader.gguf_scalar_to_np


@dataclass(frozen=True)
class GgufTensor:
    """A tensor in a file: `shape` with rows before columns, `kind` the type of its blocks."""

    kind: GGMLQuantizationType
    shape: tuple[int, ...]
    file: Path
    offset: int

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        """Rows, 1 of a vector."""
        return prod(self.shape[:-1])

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, which is a whole number of blocks."""
        numbers, size = GGML_QUANT_SIZES[self.kind]
        return self.columns // numbers * size

    def blocks(self, first: int = 0, count: int | None = None) -> npt.NDArray[np.uint8]:
        """`count` rows, or all, from `first` on: [count, row_bytes]. OSError; ValueError: the file became shorter."""
        count = min(self.rows - first, self.rows if count is None else count)
        found = np.fromfile(self.file, np.uint8, count * self.row_bytes, offset=self.offset + first * self.row_bytes)
        if found.nbytes != count * self.row_bytes:
            raise ValueError("the file became shorter while it was read")
        return found.reshape(count, self.row_bytes)


@dataclass(frozen=True)
class Gguf:
    """The metadata by their keys, and the tensors by their names."""

    facts: dict[str, Any]
    tensors: dict[str, GgufTensor]

    @classmethod
    def read(cls, file: Path) -> Gguf:
        """From a file, or from the first of several into which it was split. OSError; ValueError: it is damaged."""
        facts: dict[str, Any] = {}
        tensors: dict[str, GgufTensor] = {}
        for part in parts(file):
            with part.open("rb") as opened:
                header = _Header(opened, part.stat().st_size)
                found = header.read()
                facts = facts or found
                for name, tensor in header.tensors(part, found):
                    if name in tensors:
                        raise ValueError(f"it has two tensors {name}")
                    tensors[name] = tensor
        if (said := facts.get("split.tensors.count", len(tensors))) != len(tensors):
            raise ValueError(f"it has {len(tensors)} tensors instead of {said}")
        return cls(facts, tensors)


class _Header:
    """Reads from the start of a file; ValueError where it ends or says what cannot be."""

    def __init__(self, data: BinaryIO, size: int) -> None:
        self._data, self._size = data, size

    def read(self) -> dict[str, Any]:
        """The metadata."""
        if not self._size:
            raise ValueError("the file is empty")
        if self._take(4) != b"GGUF":
            raise ValueError("it does not begin with GGUF")
        version = self._number("I")
        if version not in _VERSIONS:
            raise ValueError(f"its version is {version}, not {' or '.join(map(str, _VERSIONS))}")
        self._tensors = self._count("tensors", _MOST_TENSORS)
        facts: dict[str, Any] = {}
        for _ in range(self._count("fields", _MOST_FIELDS)):
            key = self._string()
            if key in facts:
                raise ValueError(f"it says {key} twice")
            facts[key] = self._value(GGUFValueType(self._number("I")))
        return facts

    def tensors(self, file: Path, facts: dict[str, Any]) -> Iterator[tuple[str, GgufTensor]]:
        """Names and tensors, behind the metadata."""
        found = [self._tensor() for _ in range(self._tensors)]
        alignment = facts.get("general.alignment", GGUF_DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 16:
            raise ValueError(f"its alignment is {alignment!r:.20}")
        start = -(-self._data.tell() // alignment) * alignment
        for name, kind, shape, offset in found:
            tensor = GgufTensor(kind, shape, file, start + offset)
            if tensor.columns % GGML_QUANT_SIZES[kind][0]:
                raise ValueError(f"its {name} has {tensor.columns} columns, which {kind.name} does not divide")
            if tensor.offset + tensor.rows * tensor.row_bytes > self._size:
                raise ValueError(f"the file ends before its tensor {name} does: it is cut off")
            yield name, tensor

    def _tensor(self) -> tuple[str, GGMLQuantizationType, tuple[int, ...], int]:
        name, dimensions = self._string(), self._number("I")
        if not 1 <= dimensions <= 4:
            raise ValueError(f"its {name!r:.60} has {dimensions} dimensions")
        shape = tuple(self._number("Q") for _ in range(dimensions))[::-1]
        if not 0 < prod(shape) <= _MOST_NUMBERS:
            raise ValueError(f"its {name!r:.60} has the shape {shape}")
        return name, GGMLQuantizationType(self._number("I")), shape, self._number("Q")

    def _value(self, kind: GGUFValueType) -> Any:
        if kind == GGUFValueType.STRING:
            return self._string()
        if kind != GGUFValueType.ARRAY:
            return self._numbers(kind, 1)[0]
        item = GGUFValueType(self._number("I"))
        if item == GGUFValueType.ARRAY:
            raise ValueError("it has arrays of arrays")
        count = self._count("items", _MOST_ITEMS)
        if item == GGUFValueType.STRING:
            return [self._string() for _ in range(count)]
        return self._numbers(item, count)

    def _numbers(self, kind: GGUFValueType, count: int) -> list[Any]:
        form = np.dtype(_NUMBERS[kind]).newbyteorder("<")
        found: list[Any] = np.frombuffer(self._take(count * form.itemsize), form).tolist()
        return found

    def _string(self) -> str:
        length = self._number("Q")
        if length > _LONGEST:
            raise ValueError(f"it has a text of {length:,} bytes")
        return self._take(length).decode("utf-8", "replace")

    def _count(self, what: str, most: int) -> int:
        count: int = self._number("Q")
        if count > most:
            raise ValueError(f"it says that it has {count:,} {what}")
        return count

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(form)))[0]

    def _take(self, length: int) -> bytes:
        taken = self._data.read(length)
        if len(taken) != length:
            raise ValueError("it is cut off")
        return taken
