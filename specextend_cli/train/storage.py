"""What a run keeps on disk, so that it can be killed at any time: JSON lines, the target's answers and its states."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from specextend_cli.train.samples import Sample

Span: TypeAlias = tuple[int, int]
"""First row and number of rows."""


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


class StateFile:
    """The target's hidden states, so that it reads each text once however often the head trains on it.

    Rows [width] of one dtype, appended up to `limit` bytes; an incomplete last row of a killed run is dropped.

    Callers of `append` keep the span that it returns; texts given to `keep` are indexed in a file beside it.
    """

    def __init__(self, path: Path, width: int, dtype: torch.dtype, *, limit: int) -> None:
        self.path = path
        self.width, self.dtype, self.limit = width, dtype, limit
        self.row_bytes = width * dtype.itemsize
        path.touch()
        self.rows = path.stat().st_size // self.row_bytes
        with path.open("ab") as file:
            file.truncate(self.rows * self.row_bytes)
        self._texts_path = path.with_suffix(".texts.jsonl")
        lines = read_lines(self._texts_path)
        whole = [line for line in lines if self.holds([line[1:]])]
        if len(whole) < len(lines):  # else later rows would be taken for the lost ones
            self._texts_path.unlink()
            add_lines(self._texts_path, whole)
        self._texts: dict[str, Span] = {text: (first, count) for text, first, count in whole}

    def has_room(self, rows: int) -> bool:
        """True if so many rows more may be kept."""
        return (self.rows + rows) * self.row_bytes <= self.limit

    def holds(self, spans: Sequence[Span]) -> bool:
        """True if the rows of all spans are there; a finished run has removed them."""
        return all(first + count <= self.rows for first, count in spans)

    def find(self, tokens: Sequence[int]) -> Span | None:
        """The span of this text's states, None if `keep` did not store them."""
        span = self._texts.get(_name(tokens))
        return span if span is not None and self.holds([span]) else None

    def keep(self, tokens: Sequence[int], states: Tensor) -> None:
        """Store the states of a text while there is room; `find` finds them by its tokens."""
        if self.has_room(len(states)):
            span = self.append(states)
            self._texts[_name(tokens)] = span
            add_lines(self._texts_path, [[_name(tokens), *span]])

    def remove(self) -> None:
        """Delete the files."""
        self.path.unlink(missing_ok=True)
        self._texts_path.unlink(missing_ok=True)
        self._texts = {}
        self.rows = 0

    def append(self, states: Tensor) -> Span:
        """Append states [n, width]; returns their span."""
        raw = states.to(self.dtype).cpu().contiguous().view(torch.uint8).numpy()
        with self.path.open("ab") as file:
            file.write(raw.tobytes())
        span = (self.rows, len(states))
        self.rows += len(states)
        return span

    def read(self, spans: Sequence[Span]) -> Tensor:
        """The rows of all spans in order, [sum, width]."""
        parts = []
        for first, count in spans:
            raw = np.fromfile(self.path, np.uint8, count * self.row_bytes, offset=first * self.row_bytes)
            parts.append(torch.from_numpy(raw).view(self.dtype).view(count, self.width))
        return torch.cat(parts)


def _name(tokens: Sequence[int]) -> str:
    return sha256(np.asarray(tokens, dtype="<i8").tobytes()).hexdigest()[:32]


class AnswerFile:
    """Answers on disk, one JSON line each, so that an interrupted run keeps what it has."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Sample]:
        """All whole lines; the torn last line of a killed run is dropped."""
        return [
            answer_of(record["tokens"], record["start"], tuple((first, count) for first, count in record["states"]))
            for record in read_lines(self.path)
        ]

    def append(self, samples: Sequence[Sample]) -> None:
        """Add and flush."""
        add_lines(self.path, map(_record, samples))

    def drop_missing_states(self, states: StateFile) -> None:
        """Rewrite the file without spans of states that `states` no longer holds: other rows may take their place."""
        samples = self.read()
        if not all(states.holds(sample.states) for sample in samples):
            kept = [sample if states.holds(sample.states) else replace(sample, states=()) for sample in samples]
            replace_whole(self.path, "".join(json.dumps(_record(sample)) + "\n" for sample in kept))


def _record(sample: Sample) -> dict[str, Any]:
    return {"tokens": sample.tokens, "start": sample.start, "states": sample.states}


def answer_of(tokens: list[int], start: int, states: tuple[Span, ...]) -> Sample:
    """An answer as a sample: the loss counts from the row that predicts its first token."""
    return Sample(tokens, start, states, output=start + 2)
