"""An EAGLE head whose forward of few rows is a compiled program, with our own kernels on CPUs.

A head is one layer, but its forward is two hundred operations from RoPE to the output layer, and calling them took two
thirds of its time. Prompts, training and other machines run the head's own modules.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from specextend_cli.engine import native
from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.native import additive, attend, fits
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cpu.layer_program import Written
from specextend_cli.engine.cpu.programs import MOST, Programs, Run, build, check_packages, digest, install
from specextend_cli.engine.forward import ForwardInput, HeadOutput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.native.compiler import CannotCompileError, processor

Kind: TypeAlias = Literal["row", "rows"]
"""A program of one row, or of 2 to `MOST`.

Arguments: embeddings [n, hidden], states [n, hidden], positions [n], an empty tensor with as many rows as are
committed, `additive` mask [n, m], keys of every layer, values of every layer [1, H_kv, capacity, d], weights...
Results: logits [n, draft vocabulary], states [n, hidden], own keys and values [2, layers, 1, H_kv, n, d]."""

KINDS: tuple[Kind, ...] = ("row", "rows")
_EXAMPLE = 300  # committed rows while tracing


@dataclass(frozen=True)
class CompiledHead(Programs):
    """The programs of a head."""

    head: EagleHead

    def _compile(self, kind: Kind) -> None:
        build(_Traced(self.head, kind), self.files[kind])

    def use(self) -> None:
        """Let the head run the programs.

        CannotCompileError where one does not load, or where they do not compute what the head does.
        """
        runner = _Runner(self.head, self.load())
        install(self.head, runner, partial(_trial, self.head), self.head.fc.weight.dtype)

    def drop(self) -> None:
        """Let the head run itself again."""
        self.head.forward_backend = None


def programs_for(head: EagleHead, directory: Path) -> CompiledHead:
    """The programs of a head on a CPU, in `directory`. CannotCompileError where there can be none."""
    weight = head.fc.weight
    if not fits(head.config.head_dim, weight.dtype, weight.device):
        raise CannotCompileError("heads are compiled with our own kernels, which this one cannot use")
    check_packages()
    facts = {
        "machine": (*processor(), torch.get_num_threads()),
        "kernels": native.version(),
        "weights": [(name, list(w.shape), str(w.dtype)) for name, w in _weights(head).items()],
        "config": asdict(head.config),
    }
    return CompiledHead({kind: directory / f"head-{kind}-{digest(facts)}.pt2" for kind in KINDS}, head)


class _Runner:
    """A head's `ForwardBackend`."""

    def __init__(self, head: EagleHead, runs: dict[str, Run]) -> None:
        self._embedding, self._runs = head.embedding, runs
        self._weights = list(_weights(head).values())

    def run(self, inputs: ForwardInput) -> HeadOutput | None:
        """See `ForwardBackend`. The rows are a tree's, over at least one committed row."""
        cache, states, mask, n = inputs.cache, inputs.states, inputs.context.tree_mask, len(inputs.tokens)
        if not isinstance(cache, KVCache) or not isinstance(inputs.context.backend, SplitKV) or states is None:
            return None
        rows = cache.end - cache.length  # of the tree so far, these included
        if cache.length == 0 or n > MOST or (rows != 1 if mask is None else mask.shape != (n, rows)):
            return None
        keys, values = cache.buffer[:, :, None]
        seen = torch.empty(cache.length, 0)
        embeddings = self._embedding(inputs.tokens).to(states.dtype)
        tensors = (embeddings, states, inputs.positions, seen, additive(mask), *keys.unbind(), *values.unbind())
        logits, after, own = self._runs["row" if n == 1 else "rows"]([*tensors, *self._weights])
        cache.write(own.unbind(1))
        return HeadOutput(logits[-inputs.logits_to_keep :], after)


class _Traced(nn.Module):
    """The head as a function of tensors alone."""

    def __init__(self, head: EagleHead, kind: Kind) -> None:
        super().__init__()
        self._body = (_Body(head),)  # not a submodule: its weights are arguments
        self._head, self.kind = (head,), kind

    def forward(
        self,
        embeddings: Tensor,
        states: Tensor,
        positions: Tensor,
        seen: Tensor,
        mask: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
        weights: list[Tensor],
    ) -> tuple[Tensor, ...]:
        names = (f"head.{name}" for name in _weights(self._head[0]))
        given = (embeddings, states, positions, seen.shape[0], mask, keys, values)
        out: tuple[Tensor, ...] = functional_call(
            self._body[0], dict(zip(names, weights, strict=True)), given, tie_weights=False
        )
        return out

    def example(self) -> tuple[Any, ...]:
        """See `Traceable`."""
        (head,) = self._head
        config, n = head.config, 1 if self.kind == "row" else 3

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=head.fc.weight.dtype)

        cached = [random(1, config.kv_heads, 2 * _EXAMPLE, config.head_dim) for _ in range(2 * config.layers)]
        return (
            *(random(n, config.hidden) for _ in range(2)),
            torch.arange(n),
            torch.empty(_EXAMPLE, 0),
            torch.zeros(n, 2 + n),
            cached[: config.layers],
            cached[config.layers :],
            list(_weights(head).values()),
        )

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """See `Traceable`."""
        any_size, (head,) = torch.export.Dim.DYNAMIC, self._head
        rows = {} if self.kind == "row" else {0: any_size}
        cached = [{2: any_size} for _ in range(head.config.layers)]
        return (rows, rows, rows, {0: any_size}, {**rows, 1: any_size}, cached, cached, [{} for _ in _weights(head)])


class _Body(nn.Module):
    """What a program computes: everything but the embedding, of which only some rows are read."""

    def __init__(self, head: EagleHead) -> None:
        super().__init__()
        self.head = head

    def forward(
        self,
        embeddings: Tensor,
        states: Tensor,
        positions: Tensor,
        seen: int,
        mask: Tensor,
        keys: list[Tensor],
        values: list[Tensor],
    ) -> tuple[Tensor, ...]:
        own: Any = Written()
        cached = iter(zip(keys, values, strict=True))

        def backend(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
            earlier = mask.shape[1] - q.shape[2]  # rows of the same tree after the committed ones
            every = next(cached)
            beside = [torch.cat((c[:, :, seen : seen + earlier], o), 2) for c, o in zip(every, (k, v), strict=True)]
            before = [c[:, :, :seen] for c in every]
            return attend(q, (beside[0], beside[1]), (before[0], before[1]), scale, mask)

        normed, after = self.head.advance(embeddings, states, positions, own, ForwardContext(backend))
        return self.head.lm_head(normed), after, torch.stack((torch.stack(own.keys), torch.stack(own.values)))


def _weights(head: EagleHead) -> dict[str, Tensor]:
    """Parameters and buffers by name. The output layer may hold the embedding's, which is named once."""
    every = dict(head.named_parameters()) | dict(head.named_buffers()) | {"lm_head.weight": head.lm_head.weight}
    return {name: tensor for name, tensor in every.items() if not name.startswith("embedding.")}


@torch.inference_mode()
def _trial(head: EagleHead) -> Tensor:
    """Logits of one row after some committed ones, then of three rows of a tree beside it."""
    config, dtype, rows = head.config, head.fc.weight.dtype, 40
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    tokens, states = torch.arange(4) % config.vocabulary, random(4, config.hidden)
    cache, found = head.new_cache(rows + 4), []
    cache.append(random(2, config.layers, config.kv_heads, rows, config.head_dim))
    tree = torch.tensor([[True, True, False, False], [False, False, True, False], [True, False, False, True]])
    for at, mask in ((torch.arange(1), None), (torch.arange(1, 4), tree)):
        cache.reserve(len(at))
        context = ForwardContext(SplitKV(), mask)
        found.append(head(tokens[at], states[at], rows + at, cache, context).logits.float())
    return torch.cat(found)
