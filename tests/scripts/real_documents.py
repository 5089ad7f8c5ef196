"""Shared by the long scripts: documents from a JSONL file, and a target that prefills each prompt once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel, Output
from specextend_cli.engine.target import Target


class OncePrefilled(Target):
    """Prefills a prompt once and restores it for every further method: the same keys, computed once."""

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__(lm)
        self.prompt: list[int] = []
        self._rows: list[list[Tensor]] = []
        self._outs: list[tuple[Output, dict[int, Tensor]]] = []

    def prefill(self, tokens: Tensor, *, features=()) -> Output:
        at = sum(rows[0].shape[4] for rows in self._rows[: self._chunk])
        if self._chunk < len(self._rows):
            self.cache.append(self._rows[self._chunk])
            out, self._queries = self._outs[self._chunk]
        else:
            out = super().prefill(tokens, features=features)
            self._rows.append([rows.clone() for rows in self.cache.rows(at, at + len(tokens))])
            self._outs.append((out, self._queries))
        self._chunk += 1
        return out

    def begin(self, capacity: int) -> None:
        super().begin(capacity)
        self._chunk = 0

    def forget(self) -> None:
        self._rows, self._outs = [], []


def framed(tokenizer: Tokenizer, document: list[int], length: int) -> list[int]:
    """A chat prompt of exactly `length` tokens that asks for a summary of the document's beginning."""
    before = tokenizer.encode("<|im_start|>user\nSummarize this text:\n\n").ids
    after = tokenizer.encode("<|im_end|>\n<|im_start|>assistant\n").ids
    return before + document[: length - len(before) - len(after)] + after


def read(path: Path) -> Iterator[str]:
    """The `text` of every line."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for line in data.splitlines():
        yield json.loads(line)["text"]
