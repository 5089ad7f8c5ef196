"""A target that reads a prompt once for all methods, and reports the time of the real reading to each.

A prompt's rows stay in the buffer, since decoding writes behind them. A prompt that was read before is restored by
setting the committed length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from specextend_cli.engine.attention import Queries
from specextend_cli.engine.drafters import Drafter
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.step import Output
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the prompt: its tokens, the output of reading them, and its seconds."""

    tokens: tuple[int, ...]
    features: tuple[int, ...]
    out: Output
    queries: Queries
    seconds: float


class Prefilled(Target):
    """After a prefill, `read_seconds` is the time of the prompt's real reading, `spent_seconds` that of this call."""

    def __init__(self, lm: LanguageModel, *, score_layers: Sequence[int] = (-1,)) -> None:
        super().__init__(lm, score_layers=score_layers)
        self.read_seconds = self.spent_seconds = 0.0
        self._pieces: dict[int, _Piece] = {}  # by where they begin

    def begin(self, capacity: int) -> None:
        """A new sequence. Pieces are kept in case it begins with them."""
        if self.cache.capacity < capacity:
            self._pieces = {}
        super().begin(capacity)
        self.read_seconds = self.spent_seconds = 0.0

    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """Read a piece, or restore it; it is read again if features are wanted that were not kept."""
        at, wanted, began = self.length, tuple(features), perf_counter()
        piece = self._pieces.get(at)
        if piece and piece.tokens == tuple(tokens.tolist()) and wanted in ((), piece.features):
            self.cache.reserve(len(tokens))
            self.cache.commit()
            self._queries = piece.queries
        else:
            # Rows from here on are overwritten.
            self._pieces = {start: kept for start, kept in self._pieces.items() if start < at}
            out = super().prefill(tokens, features=features)
            wait(self.lm.device)
            piece = _Piece(tuple(tokens.tolist()), wanted, out, self._queries, perf_counter() - began)
            self._pieces[at] = piece
        self.read_seconds += piece.seconds
        self.spent_seconds += perf_counter() - began
        return piece.out if wanted else Output(piece.out.logits)

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """Verify; pieces whose rows are overwritten are forgotten."""
        end = self.length
        if any(start + len(piece.tokens) > end for start, piece in self._pieces.items()):
            self._pieces = {start: kept for start, kept in self._pieces.items() if start + len(kept.tokens) <= end}
        return super().verify(tree, features=features, record=record)


def read(target: Target, prompt: Sequence[int], chunk: int, *, room: int, drafter: Drafter | None = None) -> Tensor:
    """Begin a sequence with `room` rows after the prompt, and read the prompt in pieces; the last logits."""
    target.begin(len(prompt) + room)
    if drafter is not None:
        drafter.begin(len(prompt) + room)
    for at in range(0, len(prompt), chunk):
        piece = prompt[at : at + chunk]
        features = () if drafter is None else drafter.feature_layers
        out = target.prefill(torch.tensor(piece, device=target.lm.device), features=features)
        if drafter is not None:
            drafter.observe(piece, out.features)
    return out.logits


def wait(device: torch.device) -> None:
    """Wait for the device: CUDA calls return before their work is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
