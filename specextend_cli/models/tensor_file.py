"""Writing safetensors a few rows at a time.

The library's own writer needs all tensors in memory, and its interface for numpy has no bfloat16.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

_ITEM_BYTES = {"U8": 1, "BF16": 2}


class TensorFile:
    """A file of `tensors`: name -> type ("U8", or "BF16" as bit patterns) and shape. A context manager.

    Rows are appended to each tensor, in any order of the tensors; ValueError at the end where some are missing.
    """

    def __init__(self, file: Path, tensors: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
        self.size = 0
        """Bytes of all tensors."""
        for name, (kind, shape) in tensors.items():
            start, self.size = self.size, self.size + _ITEM_BYTES[kind] * int(np.prod(shape))
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, self.size]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self._open = {name: entry["data_offsets"] for name, entry in header.items() if name in tensors}
        self._start = 8 + len(text)
        self._out = file.open("wb")
        self._out.write(len(text).to_bytes(8, "little") + text)

    def append(self, name: str, rows: npt.NDArray[Any]) -> None:
        """Write the next rows of that tensor."""
        left, data = self._open[name], rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes()
        if left[0] + len(data) > left[1]:
            raise ValueError(f"{name} has more rows than were announced")
        self._out.seek(self._start + left[0])
        self._out.write(data)
        left[0] += len(data)

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._out.close()
        if kind is None and (missing := [name for name, (done, end) in self._open.items() if done != end]):
            raise ValueError(f"{missing[0]} lacks rows")
