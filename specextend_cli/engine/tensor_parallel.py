"""Tensor parallelism (Megatron-LM, arXiv 1909.08053): one target over several processes, each with some of the heads.

There is one process per GPU. The first drafts, chooses tokens and measures time. It broadcasts every call of its
target, and the others repeat the call on their part of the model, so that no two processes can disagree.
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
from specextend_cli.engine.tree import DraftTree

_END = "end"


class ProcessGroup:
    """The processes of torch's default group. Calls are broadcast through host memory on every device."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._calls = dist.new_group(backend="gloo")

    def broadcast(self, *call: Any) -> None:
        """Send a call from the first process to all others."""
        dist.broadcast_object_list([call], src=0, group=self._calls)

    def receive(self) -> tuple[Any, ...]:
        """The first process's next call."""
        box: list[Any] = [None]
        dist.broadcast_object_list(box, src=0, group=self._calls)
        call: tuple[Any, ...] = box[0]
        return call

    def dismiss(self) -> None:
        """Let the other processes end."""
        self.broadcast(_END)

    def sum(self, own: Tensor) -> Tensor:
        """Sum of every process's tensor, also in `own`. All processes call it in the same order."""
        dist.all_reduce(own)
        return own

    def mean(self, own: Tensor) -> Tensor:
        """Mean of every process's tensor, as `sum`."""
        return self.sum(own) / self.size

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Let one process after the other run the block, which needs much host memory."""
        for _ in range(self.rank):
            dist.barrier(self._calls)
        yield
        for _ in range(self.rank, self.size):
            dist.barrier(self._calls)


class LeadingTarget(Target):
    """The first process's target: the other processes repeat its calls."""

    def __init__(self, lm: LanguageModel, group: ProcessGroup, **settings: Any) -> None:
        super().__init__(lm, **settings)
        self._group = group

    def begin(self, capacity: int) -> None:
        """See `Target`."""
        self._group.broadcast("begin", capacity)
        super().begin(capacity)

    def prefill(self, tokens: Tensor, *, features: Sequence[int] = ()) -> Output:
        """See `Target`."""
        self._group.broadcast("prefill", tokens.tolist())
        return super().prefill(tokens, features=features)

    def verify(self, tree: DraftTree, *, features: Sequence[int] = (), record: bool = False) -> Output:
        """See `Target`."""
        self._group.broadcast("verify", tree.tokens, tree.parents, record)
        return super().verify(tree, features=features, record=record)

    def keep(self, path: Sequence[int]) -> slice | Tensor:
        """See `Target`."""
        self._group.broadcast("keep", list(path))
        return super().keep(path)

    @torch.inference_mode()
    def attention_from(self, node: int) -> Tensor:
        """See `Target`."""
        self._group.broadcast("attention_from", node)
        return self._group.mean(super().attention_from(node))


@torch.inference_mode()
def follow(target: Target, group: ProcessGroup) -> tuple[Any, ...]:
    """Repeat the first process's calls on `target`; returns the first call that is not for a target."""
    device = target.lm.device
    while True:
        match group.receive():
            case ("begin", capacity):
                target.begin(capacity)
            case ("prefill", tokens):
                target.prefill(torch.tensor(tokens, device=device))
            case ("verify", tokens, parents, record):
                target.verify(DraftTree(tokens, parents, [1.0] * len(tokens)), record=record)
            case ("keep", path):
                target.keep(path)
            case ("attention_from", node):
                group.mean(target.attention_from(node))
            case other:
                return other
