"""Drafting by what the target usually writes: a table of continuations, counted in its answers to other prompts.

A static n-gram model, as the static lookup caches of llama.cpp and the datastore of REST (arXiv 2311.08252). It knows
the target's phrases, and nothing of the prompt: in a blend it stands beside copies of the prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.drafters.base import Drafter, best_first
from specextend_cli.engine.tree import DraftTree

CONTEXT = 3
"""The most tokens that a continuation is looked up by."""
TOKEN_BITS = 21
"""Of a token in a key: vocabularies of up to two millions."""


class NgramTable(NamedTuple):
    """`rows` by the keys of contexts; of each row, the `tokens` that followed and their `shares`, 0 behind the last."""

    rows: Mapping[int, int]
    tokens: Sequence[Sequence[int]]
    shares: Sequence[Sequence[float]]


def key_of(context: Sequence[int]) -> int:
    """The key of at most `CONTEXT` tokens; no context of another length has it."""
    key = 0
    for token in context:
        key = key << TOKEN_BITS | token + 1
    return key


class NgramTableDrafter(Drafter):
    """Proposes what followed the longest context that the table has, and what followed that, likeliest paths first."""

    name = "table"

    def __init__(self, table: NgramTable) -> None:
        self.table = table
        self._context: list[int] = []

    def begin(self, capacity: int) -> None:
        """See `Drafter`."""
        self._context = []

    def observe(self, tokens: Sequence[int], features: Tensor | None, ids: Tensor | None = None) -> None:
        """See `Drafter`."""
        self._context = [*self._context, *tokens[-CONTEXT:]][-CONTEXT:]

    def propose(self, shape: TreeShape) -> DraftTree:
        """See `Drafter`."""
        return best_first(self._context[-1], self._context, self._following, shape).best(shape.nodes)

    def _following(self, node: int, context: list[int]) -> Iterator[tuple[int, float, list[int]]]:
        """Continuations of the longest suffix that the table has."""
        for start in range(len(context)):
            if (row := self.table.rows.get(key_of(context[start:]))) is not None:
                for token, share in zip(self.table.tokens[row], self.table.shares[row], strict=True):
                    yield token, share, [*context, token][-CONTEXT:]
                return
