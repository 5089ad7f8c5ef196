"""Where a sequence is cut into the chunks that retrieval chooses from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval


class Chunks:
    """Cuts a growing sequence every `chunk` tokens, or, with `breaks`, where sentences end.

    That is behind the first of `breaks` in a chunk's second half, else behind the last one in its first; a sentence
    that is longer than `chunk` is cut there. Chunks are cut from the start, so that a position stays in the same one
    as the sequence grows, but for those of the last, which is not full yet.
    """

    def __init__(self, config: Retrieval) -> None:
        self._longest, self._breaks = config.chunk, config.breaks
        self._starts = [0]
        self._length = self._break = 0

    def add(self, tokens: Sequence[int]) -> None:
        """The next tokens of the sequence."""
        if not self._breaks:
            return
        for at, token in enumerate(tokens, self._length + 1):
            if token in self._breaks:
                self._break = at
            size = at - self._starts[-1]
            if size == self._longest or (2 * size >= self._longest and self._break == at):
                self._starts.append(self._break if self._break > self._starts[-1] else at)
        self._length += len(tokens)

    def starts(self, length: int, device: torch.device | str = "cpu") -> Tensor:
        """Ascending first positions [c] of the chunks of the first `length` tokens."""
        if not self._breaks:
            return torch.arange(0, length, self._longest, device=device)
        starts = torch.tensor(self._starts, device=device)
        return starts[starts < length]
