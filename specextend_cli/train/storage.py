"""What a run keeps on disk, so that it can be killed at any time: JSON lines, the target's answers and its states."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from specextend_cli.train.samples import Sample


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


def read_answers(path: Path) -> list[Sample]:
    """The answers that `add_answers` wrote; a line that a killed run left incomplete is dropped."""
    return [Sample(record["tokens"], record["start"], output=record["start"] + 2) for record in read_lines(path)]


def add_answers(path: Path, samples: Iterable[Sample]) -> None:
    """Append answers, a line of JSON each, so that an interrupted run keeps what it has."""
    add_lines(path, ({"tokens": sample.tokens, "start": sample.start} for sample in samples))


class StateFiles:
    """The target's hidden states, so that it reads each text once however often the head trains on it.

    A text's states are a file in `directory`, named by its tokens; all of them have at most `limit` bytes. The states
    behind a prompt are a file of their own, so that several answers share the prompt's.
    """

    def __init__(self, directory: Path, *, limit: int) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.limit = directory, limit
        self._bytes = sum(file.stat().st_size for file in directory.iterdir())

    def has(self, tokens: Sequence[int]) -> bool:
        """True if `keep` has stored something under these tokens."""
        return self._path(tokens).exists()

    def keep(self, tokens: Sequence[int], states: Tensor) -> None:
        """Store states [n, width] at the last n of these tokens, while there is room."""
        if not self.has(tokens) and self._bytes + states.nbytes <= self.limit:
            replace_whole(self._path(tokens), save({"states": states.cpu().contiguous()}))
            self._bytes += states.nbytes

    def keep_all(self, sample: Sample, states: Tensor) -> None:
        """Store the states [n, width] at all of the sample's tokens."""
        parts = _parts(sample)
        for tokens, part in zip(parts, states.tensor_split(list(map(len, parts[:-1]))), strict=True):
            self.keep(tokens, part)

    def find(self, sample: Sample) -> Tensor | None:
        """The states [n, width] at all of the sample's tokens, None unless all are stored."""
        paths = list(map(self._path, _parts(sample)))
        if not all(path.exists() for path in paths):
            return None
        return torch.cat([load_file(path)["states"] for path in paths])

    def remove(self) -> None:
        """Delete everything."""
        shutil.rmtree(self.directory)

    def _path(self, tokens: Sequence[int]) -> Path:
        return self.directory / sha256(np.asarray(tokens, dtype="<i8").tobytes()).hexdigest()[:32]


def _parts(sample: Sample) -> list[list[int]]:
    """The tokens of a sample's prompt, and all of them where there are more."""
    ends = {sample.output or len(sample.tokens), len(sample.tokens)}
    return [sample.tokens[:end] for end in sorted(ends)]
