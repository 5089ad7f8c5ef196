"""JSON that came with a checkpoint: an object of bounded size and depth, or a ValueError that says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_LARGEST = 1 << 28  # bytes; the largest published vocabularies have 40 MB
_DEEPEST = 64  # tables within tables; transformers copies configurations recursively


def read_object(file: Path) -> dict[str, Any]:
    """The object in that file. OSError; ValueError where it is no object, too large or nested too deeply."""
    if (size := file.stat().st_size) > _LARGEST:
        raise ValueError(f"{file.name} has {size:,} bytes, more than {_LARGEST:,}")
    return parse_object(file.read_text(encoding="utf-8"))


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The object that a text spells; ValueError as `read_object`."""
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    level: list[Any] = [data]
    for _ in range(_DEEPEST):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [value for values in inner for value in values if isinstance(value, (dict, list))]
        if not level:
            return data
    raise ValueError(_TOO_DEEP)


_TOO_DEEP = f"it is nested more than {_DEEPEST} levels deep"
