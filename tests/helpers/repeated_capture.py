"""CUDA graphs without a GPU: what was captured is computed again by the host, and goes where the first result lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from specextend_cli.engine.check import NotOursError
from specextend_cli.engine.cuda import graph_check


@dataclass
class Repeated:
    """A `Capture` without CUDA. `rows` has the numbers of rows or sequences of the forwards that were replayed.

    All graphs share their memory, so a replay leaves nothing that any of them has computed before: it becomes NaN.
    `begin` is called with what is to be captured, and may raise; `end` after each replay, with that and its result.
    """

    begin: Callable[[Callable[[], Any]], object] = lambda body: None
    end: Callable[[Callable[[], Any], Any], object] = lambda body, result: None

    captures: int = 0
    replays: int = 0
    rows: list[int] = field(default_factory=list)
    _last: list[Tensor] = field(default_factory=list)
    """The only results that are not NaN."""

    def __call__(self, body: Callable[[], Any], device: torch.device) -> tuple[Any, Callable[[], None]]:
        self.captures += 1
        self.begin(body)
        first = body()
        results = tensors(first)

        def replay() -> None:
            self.replays += 1
            again = tensors(body())
            for tensor in self._last:
                tensor.fill_(torch.nan)
            self._last = results
            for old, new in zip(results, again, strict=True):
                old.copy_(new)
            if results:
                self.rows.append(len(results[0]))
            self.end(body, first)

        for tensor in results:
            tensor.fill_(torch.nan)  # a graph computes nothing while it is captured
        return first, replay


def tensors(captured: Any) -> list[Tensor]:
    """All tensors that a captured function computes and returns; a layer's sinks are its weights."""
    leaves = tree_leaves(captured)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, nn.Parameter)]


def only_stock_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no model be fused, so that transformers' layers are captured."""

    def refuse(model: object) -> None:
        raise NotOursError("not in this test")

    monkeypatch.setattr(graph_check, "FusedBody", refuse)
