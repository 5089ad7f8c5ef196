"""A decoder layer as a compiled program: transformers' modelling code in, machine code out.

Between its matrix products a decoder layer runs some fifty small operations. On few rows, calling them takes longer
than computing them; on a prompt's rows, each writes to memory what the next one reads. The layer is traced once with
our attention and compiled (see `programs.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call

from specextend_cli.engine import native
from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.native import attend, attend_causal, fits
from specextend_cli.engine.attention.prefix import attend_beside
from specextend_cli.engine.cpu.programs import build, digest
from specextend_cli.engine.four_bit import full_weights
from specextend_cli.engine.native.compiler import CannotCompileError, processor

Kind: TypeAlias = Literal["token", "tree", "batch", "prompt"]
"""What a program reads: one token, 2 to `MOST` tree nodes, one token of 2 to `MOST` sequences each, a prefill chunk.

Arguments: states [b, n, width], cos, sin, keys, values [b, H_kv, capacity, d], an empty tensor with as many rows as
there are committed tokens, `beside`'s mask, `attend_beside`'s hidden, weights... A prompt's program ignores mask and
hidden. Results: states, own keys and values [2, b, H_kv, n, d], queries [b, H, n, d]."""

_EXAMPLE = 300  # committed tokens while tracing
_READ = {"token": 1, "tree": 3, "batch": 1, "prompt": 256}  # rows while tracing, for which the compiler optimizes


@dataclass(frozen=True)
class Layer:
    """A stock decoder layer with what its attention needs to know; `rotated` dimensions have cos and sin."""

    module: nn.Module
    width: int
    kv_heads: int
    head_dim: int
    rotated: int
    dtype: torch.dtype

    @property
    def by_kernel(self) -> bool:
        """Whether its programs attend by our own kernels instead of torch's operations."""
        return fits(self.head_dim, self.dtype, torch.device("cpu"))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Its programs. A prompt's needs our kernels: no compiler makes its attention of torch's operations."""
        few: tuple[Kind, ...] = ("token", "tree", "batch")
        return (*few, "prompt") if self.by_kernel else few

    @property
    def weights(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        return dict(self.module.named_parameters()) | dict(self.module.named_buffers())


def key_of(layer: Layer, config: dict[str, Any], kind: Kind, parts: int) -> str:
    """A name for such a layer's program on this machine: equal names mean equal programs."""
    facts = {
        "machine": (*processor(), torch.get_num_threads(), parts),
        "kernels": (layer.by_kernel, native.version()),
        "layer": (type(layer.module).__name__, layer.width, layer.kv_heads, layer.head_dim, layer.rotated),
        "weights": [(name, list(weight.shape), str(weight.dtype)) for name, weight in layer.weights.items()],
        "config": config,
    }
    return f"{kind}-{digest(facts)}"


def compile_layer(layer: Layer, kind: Kind, parts: int, file: Path) -> None:
    """Trace and compile, about ten seconds. CannotCompileError, with no file left."""
    with full_weights(layer.module) if kind == "prompt" else nullcontext():
        build(_Traced(layer, kind, parts), file)


class _Traced(nn.Module):
    """The layer as a function of tensors alone."""

    def __init__(self, layer: Layer, kind: Kind, parts: int) -> None:
        super().__init__()
        self._layer = (layer,)  # not a submodule: its weights are arguments
        self.names = tuple(layer.weights)
        self.kind, self.parts = kind, parts

    def forward(
        self,
        states: Tensor,
        cos: Tensor,
        sin: Tensor,
        keys: Tensor,
        values: Tensor,
        seen: Tensor,
        mask: Tensor,
        hidden: Tensor,
        weights: Sequence[Tensor],
    ) -> tuple[Tensor, ...]:
        (layer,) = self._layer
        asked: list[Tensor] = []
        cached = (keys, values)

        def backend(q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
            asked.append(q)
            hides = hidden if self.kind == "batch" else None
            if not layer.by_kernel:
                looped = self.kind != "tree"
                return attend_beside(q, (k, v), cached, seen.shape[0], scale, mask, self.parts, hides, looped=looped)
            committed = (keys[:, :, : seen.shape[0]], values[:, :, : seen.shape[0]])
            if self.kind == "prompt":
                return attend_causal(q, (k, v), committed, scale)
            return attend(q, (k, v), committed, scale, mask, hides)

        written = Written()
        out = functional_call(
            layer.module,
            dict(zip(self.names, weights, strict=True)),
            (states,),
            {
                "position_embeddings": (cos, sin),
                "attention_mask": None,
                "past_key_values": written,
                "context": ForwardContext(backend),
            },
            tie_weights=False,  # a module that several others hold would be swapped, and put back, more than once
        )
        if not isinstance(out, Tensor) or len(written.keys) != 1 or len(asked) != 1:
            raise CannotCompileError("it is not a layer of states alone, or does not attend once")
        return out, torch.stack((*written.keys, *written.values)), asked[0]

    def example(self) -> tuple[Any, ...]:
        """See `Traceable`."""
        (layer,) = self._layer
        b, n = (3 if self.kind == "batch" else 1), _READ[self.kind]

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=layer.dtype)

        return (
            random(b, n, layer.width),
            *(random(b, n, layer.rotated) for _ in range(2)),
            *(random(b, layer.kv_heads, 2 * _EXAMPLE, layer.head_dim) for _ in range(2)),
            torch.empty(_EXAMPLE, 0),
            torch.zeros(1, 1) if self.kind == "prompt" else torch.zeros(n, self.parts - 1 + n),
            random(b, 1, 1, _EXAMPLE),
            list(layer.weights.values()),
        )

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """See `Traceable`."""
        any_size = torch.export.Dim.DYNAMIC
        sequences = {0: any_size} if self.kind == "batch" else {}
        rows = {1: any_size} if self.kind in ("tree", "prompt") else sequences
        cached = {2: any_size, **sequences}
        mask = {0: any_size, 1: any_size} if self.kind == "tree" else {}
        hidden = {3: any_size, **sequences}
        return (rows, rows, rows, cached, cached, {0: any_size}, mask, hidden, [{} for _ in self.names])


class Written:
    """A cache that collects the keys and values of the layers in order."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """As transformers' caches do."""
        self.keys.append(keys)
        self.values.append(values)
        return keys, values
