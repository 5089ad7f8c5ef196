"""The uncommitted rows of a cache, as recurrent layers see them: which node of a tree goes on from which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Level(NamedTuple):
    """Nodes of one depth: `rows` [w] of the forward, `parents` [w] among the level before, on the device.

    `above` [w] are the parents' numbers in the tree, counted from 1; 0 is the state before the tree.
    """

    rows: Tensor
    parents: Tensor
    above: Tensor


class Rows:
    """The uncommitted rows of a cache, which all of its layers share: blocks that continue, then a tree."""

    def __init__(self) -> None:
        self.block = 0
        """Rows that follow the committed ones in order."""
        self.tree = 0
        """Rows of the tree behind them."""
        self.count = 0
        """Rows of the present forward."""
        self.levels: list[Level] = []
        """Of the present forward; none for a block."""
        self.layer: Any = None
        """The `RecurrentLayer` that is computed."""
        self._places: list[tuple[int, int]] = []  # of the tree's rows: depth from 1, place in its level
        self._windows: dict[int, Tensor] = {}

    def add(self, rows: int, parents: Sequence[int] | Tensor | None, device: torch.device) -> None:
        """A forward of `rows` tokens: without `parents` in order, else nodes of a tree. RuntimeError: not in order.

        A tensor [rows]: one level, `parents` among the level before (or all 0: the root's). A sequence: numbers of rows
        in the tree, -1 for what continues the sequence before it.
        """
        self.count = rows
        if parents is None:
            if self.tree:
                raise RuntimeError("a block of tokens cannot follow an uncommitted tree")
            self.block, self.levels = self.block + rows, []
            return
        start, depth = self.tree, self.depth
        if isinstance(parents, Tensor):
            first = next((row for row, (at, _) in enumerate(self._places) if at == depth), None)
            above = torch.zeros_like(parents) if first is None else parents + first + 1
            self.levels = [Level(torch.arange(rows, device=device), parents, above)]
            self._places += [(depth + 1, place) for place in range(rows)]
        else:
            found: dict[int, list[tuple[int, int, int]]] = {}
            for row, parent in enumerate(parents):
                at, place = self._places[parent] if parent >= 0 else (0, 0)
                level = found.setdefault(at + 1, [])
                self._places.append((at + 1, len(level)))
                level.append((row, place, parent + 1))
            if start and min(found) <= depth:
                raise RuntimeError("nodes of a tree's earlier levels cannot follow its later ones")
            depths = sorted(found)
            packed = torch.tensor([entry for each in depths for entry in found[each]]).T.contiguous()
            parts = packed.to(device, non_blocking=True).split([len(found[each]) for each in depths], 1)
            self.levels = [Level(*part) for part in parts]
        self.tree += rows

    def windows(self, size: int) -> Tensor:
        """Of every row of the present forward, the columns [rows, size] that its convolution sees.

        Columns 0 to size - 1 are those before the tree, column size + i is row i of the tree.
        """
        start = self.tree - self.count
        known = self._windows.get(size)
        if known is None:
            device = self.levels[0].rows.device
            known = torch.arange(size, device=device)[None]
        if len(known) == start + 1:
            own = torch.arange(self.count, device=known.device)
            known = torch.cat((known, known.new_zeros(self.count, size)))
            for level in self.levels:
                new = torch.cat((known[level.above, 1:], (own[level.rows] + size + start)[:, None]), 1)
                known[level.rows + start + 1] = new
            self._windows[size] = known
        return known[start + 1 :]

    def window(self, row: int, size: int) -> Tensor:
        """That of one row of the tree, [size]."""
        return self._windows[size][row + 1]

    @property
    def device(self) -> torch.device:
        """Where the tree's numbers are."""
        return self.levels[0].rows.device

    @property
    def depth(self) -> int:
        """Levels of the tree."""
        return max((depth for depth, _ in self._places), default=0)

    def place(self, row: int) -> tuple[int, int]:
        """Depth from 1 and place in its level of a row of the tree."""
        return self._places[row]

    def clear(self) -> None:
        """They are committed or dropped."""
        self.block = self.tree = self.count = 0
        self.levels, self._places, self._windows, self.layer = [], [], {}, None


RUNNING: ContextVar[Any] = ContextVar("recurrent rows", default=None)
"""In a forward over a tree of several rows, or a captured one, its `layer` is the recurrent layer that is computed."""


@contextmanager
def computing(rows: Any) -> Iterator[None]:
    """While a forward runs that has `rows` to tell, or None."""
    token = RUNNING.set(rows)
    try:
        yield
    finally:
        RUNNING.reset(token)
