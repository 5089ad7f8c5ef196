"""A decoder layer as a compiled program: stock modelling code in, machine code out.

Between its matrix products a decoder layer does some fifty small operations. On a few rows, calling them takes longer
than computing them; on a prompt's, each writes to memory what the next one reads. torch.export traces the stock layer
once with our attention, and AOTInductor writes, compiles and packs C++ for it. Weights are arguments, so that one
program serves every layer; keys and values come from the cache, and the new ones go back to the caller, so that a
program changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, cast

import torch
import transformers
from torch import Tensor, nn
from torch.func import functional_call

from specextend_cli.engine import native
from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.native import attend, attend_causal, fits
from specextend_cli.engine.attention.prefix import attend_beside
from specextend_cli.engine.cpu.unpacked_files import remove_unpacked
from specextend_cli.engine.four_bit import full_weights
from specextend_cli.engine.native.compiler import CannotCompileError, first_line, processor
from specextend_cli.engine.private_files import UntrustedError, checked, make_private, publish

MOST = 16
"""Rows of a program; a prompt's has any number, because larger matrix products serve it."""
Kind: TypeAlias = Literal["token", "tree", "batch", "prompt"]
"""What a program reads: one token; the 2 to `MOST` nodes of a tree; one token of each of 2 to `MOST` sequences; a piece
of a prompt."""
Run: TypeAlias = Callable[[list[Tensor]], list[Tensor]]
"""(states [b, n, width], cos, sin, keys, values [b, H_kv, capacity, d], an empty tensor of as many rows as are seen,
`beside`'s mask, `attend_beside`'s hidden, weights...); a prompt's program looks at neither mask nor hidden
-> states, own keys and values [2, b, H_kv, n, d], queries [b, H, n, d]."""

_VERSION = 5  # of what is written here: programs of another are not read
_EXAMPLE = 300  # tokens seen, while tracing
_READ = {"token": 1, "tree": 3, "batch": 1, "prompt": 256}  # rows, while tracing: the compiler reckons with as many


@dataclass(frozen=True)
class Layer:
    """A stock decoder layer to be traced, with what its attention needs to know."""

    module: nn.Module
    names: tuple[str, ...]
    width: int
    kv_heads: int
    head_dim: int
    rotated: int
    dtype: torch.dtype

    @property
    def by_kernel(self) -> bool:
        """Whether its programs attend by our own kernel, or by torch's operations."""
        return fits(self.head_dim, self.dtype, torch.device("cpu"))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The programs it can have: of torch's operations, no compiler makes a prompt's attention."""
        few: tuple[Kind, ...] = ("token", "tree", "batch")
        return (*few, "prompt") if self.by_kernel else few

    @property
    def weights(self) -> list[Tensor]:
        """Parameters and buffers, in the order of `names`."""
        return [_tensor(self.module, name) for name in self.names]


def layer_of(module: nn.Module, *, width: int, kv_heads: int, head_dim: int, rotated: int, dtype: torch.dtype) -> Layer:
    """`module` as a `Layer`: states of `width`, `rotated` dimensions of cos and sin."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return Layer(module, tuple(tensors), width, kv_heads, head_dim, rotated, dtype)


def key_of(layer: Layer, config: dict[str, Any], kind: Kind, parts: int) -> str:
    """A name for the program of such a layer on this machine: equal where it is the same program."""
    facts = {
        "machine": (*processor(), torch.get_num_threads(), parts),
        "kernels": (layer.by_kernel, native.version()),
        "layer": (type(layer.module).__name__, layer.width, layer.kv_heads, layer.head_dim, layer.rotated),
        "weights": [(name, list(w.shape), str(w.dtype)) for name, w in zip(layer.names, layer.weights, strict=True)],
        "config": config,
    }
    return f"{kind}-{digest(facts)}"


def digest(facts: dict[str, Any]) -> str:
    """Of what a program depends on, the versions of what makes it among it."""
    known = {"versions": (_VERSION, torch.__version__, transformers.__version__), **facts}
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Traceable(Protocol):
    """What is traced: a module of tensors alone, with inputs to trace it with, and what may differ from them."""

    def example(self) -> tuple[Any, ...]:
        """Inputs."""

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """As torch.export takes them."""


def compile_program(layer: Layer, kind: Kind, parts: int, file: Path) -> None:
    """Trace and compile; takes some ten seconds. CannotCompileError, with nothing left in `file`."""
    with full_weights(layer.module) if kind == "prompt" else nullcontext():
        build(_Traced(layer, kind, parts), file)


def build(traced: Traceable, file: Path) -> None:
    """A program of `traced`, a module, in `file`. CannotCompileError, with nothing left there."""
    try:
        make_private(file.parent)
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as scratch, _own_cache():
            warnings.simplefilter("ignore")
            with torch.no_grad():
                exported = torch.export.export(
                    cast(nn.Module, traced), traced.example(), dynamic_shapes=traced.dynamic_shapes(), strict=False
                )
            package = Path(scratch) / file.name
            torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
            whole = file.with_name(f"{file.name}.{os.getpid()}")
            try:
                whole.write_bytes(package.read_bytes())
                publish(whole, file)
            finally:
                whole.unlink(missing_ok=True)
    except Exception as error:  # whatever a tracer, a code generator or a C++ compiler may raise: we go without
        raise CannotCompileError(first_line(error)) from error


def load_program(file: Path) -> Run:
    """CannotCompileError where the file is damaged or of another machine, or others could have written it."""
    try:
        run: Run = _loader(str(checked(file))).run
        remove_unpacked()
        return run
    except UntrustedError as error:
        raise CannotCompileError(str(error)) from error
    except Exception as error:  # a torn archive, a library that does not link: all of them RuntimeErrors and OSErrors
        raise CannotCompileError(first_line(error)) from error


def _loader(file: str) -> Any:
    """torch's, without the compiler around it, whose import takes longer than all the rest of loading a model."""
    try:
        return torch._C._aoti.AOTIModelPackageLoader(file, "model", False, 1, -1)
    except (AttributeError, TypeError):  # other versions have it elsewhere, or with other arguments
        return torch._inductor.aoti_load_package(file).loader


class _Traced(nn.Module):
    """The layer as a function of tensors alone."""

    def __init__(self, layer: Layer, kind: Kind, parts: int) -> None:
        super().__init__()
        self._layer = (layer,)  # not a submodule: its weights are arguments
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
        hides = hidden if self.kind == "batch" else None
        attention = _Attention(self.kind, (keys, values), seen.shape[0], mask, hides, self.parts, layer.by_kernel)
        written = Written()
        out = functional_call(
            layer.module,
            dict(zip(layer.names, weights, strict=True)),
            (states,),
            {
                "position_embeddings": (cos, sin),
                "attention_mask": None,
                "past_key_values": written,
                "this_pass": ForwardContext(attention),
            },
            tie_weights=False,  # a module that several others hold would be swapped, and put back, more than once
        )
        if not isinstance(out, Tensor) or len(written.keys) != 1 or attention.queries is None:
            raise CannotCompileError("it is no layer of states alone, or does not attend once")
        return out, torch.stack((*written.keys, *written.values)), attention.queries

    def example(self) -> tuple[Any, ...]:
        """Inputs to trace with."""
        (layer,) = self._layer
        b, n = (3 if self.kind == "batch" else 1), _READ[self.kind]
        capacity = 2 * _EXAMPLE

        def random(*shape: int) -> Tensor:
            return torch.randn(shape, dtype=layer.dtype)

        return (
            random(b, n, layer.width),
            random(b, n, layer.rotated),
            random(b, n, layer.rotated),
            random(b, layer.kv_heads, capacity, layer.head_dim),
            random(b, layer.kv_heads, capacity, layer.head_dim),
            torch.empty(_EXAMPLE, 0),
            torch.zeros(1, 1) if self.kind == "prompt" else torch.zeros(n, self.parts - 1 + n),
            random(b, 1, 1, _EXAMPLE),
            layer.weights,
        )

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """What may differ from the example."""
        any_size = torch.export.Dim.DYNAMIC
        rows = {1: any_size} if self.kind in ("tree", "prompt") else {0: any_size} if self.kind == "batch" else {}
        cached = {2: any_size} | ({0: any_size} if self.kind == "batch" else {})
        mask = {0: any_size, 1: any_size} if self.kind == "tree" else {}
        hidden = {3: any_size} | ({0: any_size} if self.kind == "batch" else {})
        (layer,) = self._layer
        return (rows, rows, rows, cached, cached, {0: any_size}, mask, hidden, [{} for _ in layer.names])


class Written:
    """A cache that keeps what layers write, one after the other."""

    def __init__(self) -> None:
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """As transformers' caches."""
        self.keys.append(keys)
        self.values.append(values)
        return keys, values


class _Attention:
    """A `Backend` over cached keys and the layer's own, as inputs of the program."""

    def __init__(
        self,
        kind: Kind,
        cached: tuple[Tensor, Tensor],
        seen: int,
        mask: Tensor,
        hidden: Tensor | None,
        parts: int,
        by_kernel: bool,
    ) -> None:
        self.kind, self.cached, self.seen, self.mask = kind, cached, seen, mask
        self.hidden, self.parts, self.by_kernel = hidden, parts, by_kernel
        self.queries: Tensor | None = None

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, scale: float, tree_mask: Tensor | None) -> Tensor:
        self.queries = q
        if not self.by_kernel:
            looped = self.kind != "tree"
            return attend_beside(
                q, (k, v), self.cached, self.seen, scale, self.mask, self.parts, self.hidden, looped=looped
            )
        keys, values = (x[:, :, : self.seen] for x in self.cached)
        if self.kind == "prompt":
            return attend_causal(q, (k, v), (keys, values), scale)
        return attend(q, (k, v), (keys, values), scale, self.mask, self.hidden)


def _tensor(module: nn.Module, name: str) -> Tensor:
    *path, last = name.split(".")
    tensor: Tensor = getattr(module.get_submodule(".".join(path)), last)
    return tensor


def _own_cache() -> Any:
    """Inductor's scratch files apart from others', and removed."""
    from torch._inductor import utils

    fresh = getattr(utils, "fresh_cache", None) or getattr(utils, "fresh_inductor_cache", None)
    return fresh() if fresh else nullcontext()
