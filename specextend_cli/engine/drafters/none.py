"""No drafting: plain decoding, through the very same loop."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.tree import DraftTree, root


class NoDrafter:
    """Every tree is its root."""

    name = "none"
    feature_layers: tuple[int, ...] = ()
    retrieves = False
    failure: str | None = None

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device
        self._last = 0

    def begin(self, capacity: int) -> None:
        """Nothing to forget."""

    def observe(self, tokens: Sequence[int], features: Tensor | None) -> None:
        """Remember the root."""
        self._last = tokens[-1]

    def propose(self, shape: TreeShape) -> DraftTree:
        """The root alone."""
        return root(self._last, self.device)

    def retrieve(self, scores: Tensor) -> None:
        """Nothing to choose."""

    def visible(self) -> Tensor:
        """Nothing is seen."""
        return torch.arange(0, device=self.device)
