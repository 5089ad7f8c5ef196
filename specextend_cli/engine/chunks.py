"""Where a sequence is cut into the chunks that retrieval chooses from."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import Retrieval


class Chunks:
    """Cuts a growing sequence every `chunk` tokens, or, with `breaks`, behind the first of them in its second half.

    No chunk is longer than `chunk`. They are cut from the start, so that a position stays in the same chunk as the
    sequence grows.
    """

    def __init__(self, config: Retrieval) -> None:
        self._longest, self._breaks = config.chunk, config.breaks
        self._starts = [0]
        self._length = 0

    def add(self, tokens: Sequence[int]) -> None:
        """The next tokens of the sequence."""
        if not self._breaks:
            return
        for at, token in enumerate(tokens, self._length + 1):
            size = at - self._starts[-1]
            if size == self._longest or (2 * size >= self._longest and token in self._breaks):
                self._starts.append(at)
        self._length += len(tokens)

    def starts(self, length: int, device: torch.device | str = "cpu") -> Tensor:
        """Ascending first positions [c] of the chunks of the first `length` tokens."""
        if not self._breaks:
            return torch.arange(0, length, self._longest, device=device)
        starts = torch.tensor(self._starts, device=device)
        return starts[starts < length]
