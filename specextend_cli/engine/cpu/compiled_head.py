"""An EAGLE head whose forward is a compiled program where few rows ask: for our own kernels on processors.

A head is one layer, but its forward is two hundred operations, from the rotation of positions to the output layer, and
calling them took two thirds of its time. As with the target's layers (see `program.py`) weights are arguments, and the
head stays what it is for prompts, training and other machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from specextend_cli.engine.cpu.layer_program import MOST, Run, Written, build, digest, load_program
from specextend_cli.engine.head import EagleHead, HeadOutput
from specextend_cli.engine.native.compiler import CannotCompileError, compiler, processor
from specextend_cli.engine.private_files import UntrustedError, discard, is_good

Kind: TypeAlias = Literal["row", "rows"]
"""A program of one row, or of 2 to `MOST`: (embeddings [n, hidden], states [n, hidden], positions [n], an empty tensor
of as many rows as are committed, `additive` mask [n, m], keys of every layer, values of every layer [1, H_kv, capacity,
d], weights...) -> logits [n, draft vocabulary], states [n, hidden], own keys and values [2, layers, 1, H_kv, n, d]."""

KINDS: tuple[Kind, ...] = ("row", "rows")
_EXAMPLE = 300  # rows committed, while tracing
_NEAR = {torch.float32: 1e-3, torch.bfloat16: 0.1}  # relative distance of the same logits


@dataclass(frozen=True)
class CompiledHead:
    """What a head needs on this machine: a file for each kind of program."""

    head: EagleHead
    files: Mapping[Kind, Path]

    @property
    def missing(self) -> list[Kind]:
        """Kinds that nobody has compiled yet, or whose file is damaged."""
        return [kind for kind, file in self.files.items() if not is_good(file)]

    def make(self) -> Iterator[Kind]:
        """Compile what is missing, some ten seconds each; yields what comes next. CannotCompileError."""
        for kind in self.missing:
            compiler()
            yield kind
            build(_Traced(self.head, kind), self.files[kind])

    def use(self) -> None:
        """Let the head run the programs.

        CannotCompileError where one does not load, whose file is removed, or does not compute the same as the head.
        """
        runs = {kind: self._load(kind) for kind in self.files}
        stock = self.head.forward
        forward = partial(_forward, self.head, stock, runs, list(_weights(self.head).values()))
        try:
            same = _same(self.head, forward)
        except RuntimeError:  # shapes that do not fit, for one
            same = False
        if not same:
            raise CannotCompileError("the compiled head computes something else than the head")
        self.head.forward = forward  # type: ignore[method-assign]

    def drop(self) -> None:
        """The head as it was."""
        self.head.__dict__.pop("forward", None)

    def _load(self, kind: Kind) -> Run:
        try:
            return load_program(self.files[kind])
        except CannotCompileError as error:
            if not isinstance(error.__cause__, UntrustedError):  # whose it is not ours to remove
                discard(self.files[kind])  # damaged: the next run makes another
            raise


def programs_for(head: EagleHead, directory: Path) -> CompiledHead:
    """The programs of a head on a processor, in `directory`. CannotCompileError where there can be none."""
    weight = head.fc.weight
    if not fits(head.config.head_dim, weight.dtype, weight.device):
        raise CannotCompileError("heads are compiled around our own kernels, which are not for this one")
    if not hasattr(torch._C, "_aoti"):
        raise CannotCompileError(f"torch {torch.__version__} has no AOTInductor packages")
    facts = {
        "machine": (*processor(), torch.get_num_threads()),
        "kernels": native.version(),
        "weights": [(name, list(w.shape), str(w.dtype)) for name, w in _weights(head).items()],
        "config": asdict(head.config),
    }
    return CompiledHead(head, {kind: directory / f"head-{kind}-{digest(facts)}.pt2" for kind in KINDS})


def _forward(
    head: EagleHead,
    stock: Any,
    runs: Mapping[Kind, Run],
    weights: list[Tensor],
    tokens: Tensor,
    states: Tensor,
    positions: Tensor,
    cache: KVCache,
    this_pass: ForwardContext,
    *,
    logits_to_keep: int = 0,
) -> HeadOutput:
    """`EagleHead.forward`."""
    n, mask = len(tokens), this_pass.tree_mask
    behind = cache.end - cache.length  # rows of the tree so far, these among them
    if not (
        isinstance(this_pass.backend, SplitKV)
        and cache.length > 0
        and n <= MOST
        and (behind == 1 if mask is None else mask.shape == (n, behind))
    ):
        out: HeadOutput = stock(tokens, states, positions, cache, this_pass, logits_to_keep=logits_to_keep)
        return out
    keys, values = cache.buffer[:, :, None]
    seen = torch.empty(cache.length, 0)
    embeddings = head.embedding(tokens).to(states.dtype)
    given = (embeddings, states, positions, seen, additive(mask), *keys.unbind(), *values.unbind(), *weights)
    logits, after, own = runs["row" if n == 1 else "rows"](list(given))
    cache.write(own.unbind(1))
    return HeadOutput(logits[-logits_to_keep:], after)


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
        """Inputs to trace with."""
        (head,) = self._head
        config, n = head.config, 1 if self.kind == "row" else 3

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=head.fc.weight.dtype)

        cached = [random(1, config.kv_heads, 2 * _EXAMPLE, config.head_dim) for _ in range(2 * config.layers)]
        return (
            random(n, config.hidden),
            random(n, config.hidden),
            torch.arange(n),
            torch.empty(_EXAMPLE, 0),
            torch.zeros(n, 2 + n),
            cached[: config.layers],
            cached[config.layers :],
            list(_weights(head).values()),
        )

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """What may differ from the example."""
        any_size, (head,) = torch.export.Dim.DYNAMIC, self._head
        rows = {} if self.kind == "row" else {0: any_size}
        cached = [{2: any_size} for _ in range(head.config.layers)]
        return (rows, rows, rows, {0: any_size}, {**rows, 1: any_size}, cached, cached, [{} for _ in _weights(head)])


class _Body(nn.Module):
    """What a program computes: all but the embedding, which is read in rows."""

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
            earlier = mask.shape[1] - q.shape[2]  # of the same tree, behind what is committed
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


def _same(head: EagleHead, forward: Any) -> bool:
    """Whether `forward` has the head's logits: of a row behind some others, then of three of a tree beside it."""
    config, dtype = head.config, head.fc.weight.dtype
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    tokens, states, rows = torch.arange(4) % config.vocabulary, random(4, config.hidden), 40
    cached = random(2, config.layers, config.kv_heads, rows, config.head_dim)

    def logits(forward: Any) -> Tensor:
        cache, found = head.new_cache(rows + 4), []
        cache.append(cached)
        for at, mask in (
            (slice(0, 1), None),
            (slice(1, 4), [[True, True, False, False], [False, False, True, False], [True, False, False, True]]),
        ):
            some = torch.arange(4)[at]
            cache.reserve(len(some))
            this_pass = ForwardContext(SplitKV(), None if mask is None else torch.tensor(mask))
            found.append(forward(tokens[at], states[at], rows + some, cache, this_pass).logits.float())
        return torch.cat(found)

    with torch.inference_mode():
        theirs, ours = logits(head.forward), logits(forward)
    return float((ours - theirs).norm() / theirs.norm()) <= _NEAR[dtype]
