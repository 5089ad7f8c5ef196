"""Files of a run that may be killed at any time: replaced whole or not at all, or grown line by line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def replace_whole(path: Path, content: bytes | str) -> None:
    """Write beside `path`, then put it there: whoever reads finds the old file or the new one, never half of one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    partial.replace(path)


def read_lines(path: Path) -> list[Any]:
    """The JSON of all whole lines; a torn last line is cut off the file. A file that is not there has none."""
    if not path.exists():
        return []
    records, whole = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        records.append(json.loads(line))
        whole += len(line)
    with path.open("ab") as file:
        file.truncate(whole)  # or the next line would be glued to the torn one
    return records


def add_lines(path: Path, records: Iterable[object]) -> None:
    """Add one line of JSON each, and flush."""
    with path.open("ab") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
