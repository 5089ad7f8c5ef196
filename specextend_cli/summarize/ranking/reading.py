"""What the target knows of a document's sentences: the mean of its hidden states over the tokens of each.

Each chunk is read behind the beginning of the preset's prompt, and nothing is generated.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from specextend_cli.engine.events import Prefilled
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.ranker import Array

if TYPE_CHECKING:
    from specextend_cli.engine.reader import Reader


class ReadingPlan:
    """A document's tokens in chunks of whole sentences.

    `chunks` are the ranges of sentences, of at most `size` tokens where no sentence has more: such a one is a chunk by
    itself. `tokens` are each sentence's, with what stands before the next one.
    """

    def __init__(self, text: str, found: Sequence[Candidate], encoder: TextEncoder, size: int) -> None:
        self.size = size
        # What stands before the first sentence belongs to it.
        starts = [0, *(one.start for one in found[1:]), len(text)]
        self.tokens = [encoder.encode(text[start:end]) for start, end in pairwise(starts)]
        self.chunks: list[range] = []
        first = filled = 0
        for i, piece in enumerate(self.tokens):
            if i > first and filled + len(piece) > size:
                self.chunks.append(range(first, i))
                first, filled = i, 0
            filled += len(piece)
        self.chunks.append(range(first, len(self.tokens)))

    def sizes(self) -> tuple[int, ...]:
        """Tokens of each chunk."""
        return tuple(sum(len(self.tokens[i]) for i in chunk) for chunk in self.chunks)


def read_states(
    reader: Reader, plan: ReadingPlan, chunk: range, prefix: Sequence[int]
) -> Generator[Prefilled, None, Array]:
    """Read one chunk behind the tokens `prefix`; returns each sentence's mean state, [sentences, hidden size].

    A sentence that has more tokens than a chunk is read in pieces, and its mean is over all of them.
    """
    tokens = [token for i in chunk for token in plan.tokens[i]]
    counts = np.array([len(plan.tokens[i]) for i in chunk])
    owner = np.repeat(np.arange(len(chunk)), counts)
    total: Array | None = None
    for start in range(0, max(len(tokens), 1), plan.size):
        began = perf_counter()
        piece = [*prefix, *tokens[start : start + plan.size]]
        states: Array = reader.states(piece)[len(prefix) :].float().cpu().numpy()
        total = np.zeros((len(chunk), states.shape[1]), np.float32) if total is None else total
        np.add.at(total, owner[start : start + plan.size], states)
        yield Prefilled(len(piece), perf_counter() - began)
    assert total is not None
    total /= np.maximum(counts, 1)[:, None]
    return total
