"""Files of a run that may be killed at any time: replaced atomically, or appended line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def replace_whole(path: Path, content: bytes | str) -> None:
    """Replace `path` atomically: a reader finds the old file or the new one, never a part."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)


def read_lines(path: Path) -> list[Any]:
    """The JSON of all complete lines; an incomplete last line is cut off the file. A missing file has none."""
    if not path.exists():
        return []
    records, whole = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        records.append(json.loads(line))
        whole += len(line)
    with path.open("ab") as file:
        file.truncate(whole)  # else the next line would be appended to the incomplete one
    return records


def add_lines(path: Path, records: Iterable[object]) -> None:
    """Append one line of JSON each."""
    with path.open("ab") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
