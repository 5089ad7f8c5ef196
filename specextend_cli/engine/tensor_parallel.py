"""One target over several processes, each with a part of every layer's heads: the first leads, the others follow.

Tensor parallelism (Megatron-LM, arXiv 1909.08053), one process a GPU. Everything but the target's own forwards happens
in the first process alone: it drafts, chooses tokens, keeps the clock and tells the others which forward is next, so
that no two of them can disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from specextend_cli.engine.lm import LanguageModel, Output
from specextend_cli.engine.target import Target
from specextend_cli.engine.tree import DraftTree, from_lists

_END = "end"


class ProcessGroup:
    """The processes of torch's default group. Orders travel by host memory, whatever device the model is on."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._orders = dist.new_group(backend="gloo")

    def tell(self, *order: Any) -> None:
        """From the first process to all others."""
        dist.broadcast_object_list([order], src=0, group=self._orders)

    def hear(self) -> tuple[Any, ...]:
        """What the first process tells next."""
        box: list[Any] = [None]
        dist.broadcast_object_list(box, src=0, group=self._orders)
        order: tuple[Any, ...] = box[0]
        return order

    def dismiss(self) -> None:
        """There is nothing more to compute along with."""
        self.tell(_END)

    def sum(self, own: Tensor) -> Tensor:
        """Of every process's tensor; all of them take part, in the same order of calls. `own` becomes it."""
        dist.all_reduce(own)
        return own

    def mean(self, own: Tensor) -> Tensor:
        """Likewise."""
        return self.sum(own) / self.size

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """One process after the other: what each does takes the host's memory for a while."""
        for _ in range(self.rank):
            dist.barrier(self._orders)
        yield
        for _ in range(self.rank, self.size):
            dist.barrier(self._orders)


class LeadingTarget(Target):
    """The first process's target: what it does, the others do with their heads."""

    def __init__(self, lm: LanguageModel, crew: ProcessGroup, **settings: Any) -> None:
        super().__init__(lm, **settings)
        self._crew = crew

    def begin(self, capacity: int) -> None:
        """See `Target`."""
        self._crew.tell("begin", capacity)
        super().begin(capacity)

    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """See `Target`."""
        self._crew.tell("prefill", tokens.tolist())
        return super().prefill(tokens, features=features)

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """See `Target`."""
        self._crew.tell("verify", tree.tokens.tolist(), tree.parents.tolist(), record)
        return super().verify(tree, features=features, record=record)

    def keep(self, path: Sequence[int]) -> None:
        """See `Target`."""
        self._crew.tell("keep", list(path))
        super().keep(path)

    @torch.inference_mode()
    def attention_from(self, path: Sequence[int]) -> Tensor:
        """See `Target`."""
        self._crew.tell("attention_from", list(path))
        return self._crew.mean(super().attention_from(path))

    @torch.inference_mode()
    def looks(self, path: Sequence[int], marks: Tensor) -> Tensor:
        """See `Target`."""
        self._crew.tell("looks", list(path), marks.tolist())
        return self._crew.mean(super().looks(path, marks))


@torch.inference_mode()
def follow(target: Target, crew: ProcessGroup) -> tuple[Any, ...]:
    """Compute along, until an order is none for a target: that is returned."""
    device = target.lm.device
    while True:
        match crew.hear():
            case ("begin", capacity):
                target.begin(capacity)
            case ("prefill", tokens):
                target.prefill(torch.tensor(tokens, device=device))
            case ("verify", tokens, parents, record):
                target.verify(from_lists(tokens, parents, [1.0] * len(tokens), device), record=record)
            case ("keep", path):
                target.keep(path)
            case ("attention_from", path):
                crew.mean(target.attention_from(path))
            case ("looks", path, marks):
                crew.mean(target.looks(path, torch.tensor(marks, device=device)))
            case order:
                return order
