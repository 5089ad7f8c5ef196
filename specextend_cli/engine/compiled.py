"""A model whose decoder layers run as compiled programs where few rows ask, and as they are everywhere else.

The model stays transformers' own: embedding, positions, final norm and output head are its code, and each layer's
`forward` is replaced by one that looks at what it is given. A token, a tree or a batch over a cache of ours goes to the
program (see `program.py`); prompts, other back ends and other callers go to the layer itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specextend_cli.engine.attention.function import Pass
from specextend_cli.engine.attention.prefix import beside
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.compiler import CannotCompileError, compiler
from specextend_cli.engine.program import (
    MOST,
    Kind,
    Layer,
    Run,
    compile_program,
    key_of,
    layer_of,
    load_program,
)
from specextend_cli.engine.slots import Folded, Slots
from specextend_cli.engine.tree import from_lists

KINDS: tuple[Kind, ...] = ("token", "tree", "batch")
_SHORTEST = 128  # tokens seen; with fewer, a step costs little anyhow
_PARTS = 4  # of the keys, at most
_NEAR = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}  # relative distance of the same logits


@dataclass(frozen=True)
class Programs:
    """What a model's layers need on this machine: the layers, and a file for each kind of program."""

    layers: tuple[Layer, ...]
    scales: tuple[float, ...]
    parts: int
    files: Mapping[Kind, Path]

    @property
    def missing(self) -> list[Kind]:
        """Kinds that nobody has compiled yet."""
        return [kind for kind, file in self.files.items() if not file.exists()]

    def make(self) -> Iterator[Kind]:
        """Compile what is missing, some ten seconds each; yields what comes next. CannotCompileError."""
        for kind in self.missing:
            compiler()
            yield kind
            compile_program(self.layers[0], kind, self._parts(kind), self.files[kind])

    def use(self, lm: LanguageModel) -> None:
        """Let `lm`, whose layers these are, run the programs.

        CannotCompileError where one does not load, whose file is removed, or, the first time, they do not compute the
        same as the layers.
        """
        runs = {kind: self._load(kind) for kind in self.files}
        checked = self.files["token"].with_suffix(".checked")
        if checked.exists():
            self._run(runs)
            return
        before = _trial(lm)
        self._run(runs)
        try:
            after = _trial(lm)
            same = float((after - before).norm() / before.norm()) <= _NEAR[lm.dtype]
        except RuntimeError:  # shapes that do not fit, for one
            same = False
        if not same:
            self.drop()
            raise CannotCompileError("the compiled layers compute something else than the layers")
        checked.touch()

    def _run(self, runs: Mapping[Kind, Run]) -> None:
        dispatch = _Dispatch(runs, self.parts)
        for index, (layer, scale) in enumerate(zip(self.layers, self.scales, strict=True)):
            forward = partial(dispatch.forward, index, layer.module.forward, layer.weights, scale)
            layer.module.forward = forward

    def drop(self) -> None:
        """The layers as they were."""
        for layer in self.layers:
            layer.module.__dict__.pop("forward", None)

    def _load(self, kind: Kind) -> Run:
        try:
            return load_program(self.files[kind])
        except CannotCompileError:
            self.files[kind].unlink(missing_ok=True)  # damaged: the next run makes another, and checks it
            self.files["token"].with_suffix(".checked").unlink(missing_ok=True)
            raise

    def _parts(self, kind: Kind) -> int:
        return 1 if kind == "batch" else self.parts


def programs_for(lm: LanguageModel, directory: Path) -> Programs:
    """The programs of a model on a processor, in `directory`. CannotCompileError where there can be none."""
    if lm.device.type != "cpu" or not isinstance(lm.backend, SplitKV):
        raise CannotCompileError(f"there are none for {lm.device.type}, or for this attention")
    if not hasattr(torch._inductor, "aoti_compile_and_package"):
        raise CannotCompileError(f"torch {torch.__version__} has no AOTInductor packages")
    decoder: Any = lm.model.get_decoder()
    stock: Sequence[nn.Module] = decoder.layers
    given = _watch(lm, stock[0])
    states, positions = given.get("states"), given.get("position_embeddings")
    if not isinstance(states, Tensor) or not isinstance(positions, tuple) or len(positions) != 2:
        raise CannotCompileError(f"{type(stock[0]).__name__} takes other arguments than states and cos and sin")
    every = Pass(lm.backend, record=frozenset(range(lm.layers)))
    two = torch.arange(2, device=lm.device)
    cache = lm.new_cache(2)
    lm.forward(two, two, cache, this_pass=every)
    _, _, kv_heads, _, head_dim = cache.buffer.shape
    sizes = {"width": states.shape[-1], "rotated": positions[0].shape[-1], "kv_heads": kv_heads, "head_dim": head_dim}
    layers = tuple(layer_of(module, dtype=lm.dtype, **sizes) for module in stock)
    shapes = {tuple((name, w.shape, w.dtype) for name, w in zip(one.names, one.weights, strict=True)) for one in layers}
    if len(shapes) > 1 or len({type(module) for module in stock}) > 1:
        raise CannotCompileError("its layers differ from each other")
    threads = torch.get_num_threads()
    parts = 1 if layers[0].by_kernel else max(min(threads // gcd(kv_heads, threads), _PARTS), 1)
    config = {name: value for name, value in lm.config.to_dict().items() if not name.startswith("_")}
    files = {
        kind: directory / f"{key_of(layers[0], config, kind, 1 if kind == 'batch' else parts)}.pt2" for kind in KINDS
    }
    return Programs(layers, tuple(every.queries[index][1] for index in range(lm.layers)), parts, files)


@dataclass(frozen=True)
class _Step:
    """What one forward has in common for all layers."""

    run: Run
    seen: Tensor
    mask: Tensor
    hidden: Tensor
    cache: KVCache | Slots
    own: list[Tensor] = field(default_factory=list)
    """Keys and values of the layers so far. Written together: it is calling that takes the time, not copying."""


class _Dispatch:
    """Every layer's `forward`. It remembers how the pass it is in is run, which all layers share."""

    def __init__(self, runs: Mapping[Kind, Run], parts: int) -> None:
        self.runs, self.parts = runs, parts
        self._pass: Pass | None = None
        self._step: _Step | None = None

    def forward(
        self,
        index: int,
        stock: Callable[..., Tensor],
        weights: list[Tensor],
        scale: float,
        hidden_states: Tensor,
        *args: Any,
        **given: Any,
    ) -> Tensor:
        this_pass: Pass | None = given.get("this_pass")
        if this_pass is None or this_pass is not self._pass:
            self._pass, self._step = this_pass, self._step_for(hidden_states, this_pass, given.get("past_key_values"))
        step = self._step
        if step is None or this_pass is None or args:
            return stock(hidden_states, *args, **given)
        cos, sin = given["position_embeddings"]
        keys, values = step.cache.cached(index)
        out, own, queries = step.run(
            [hidden_states, cos, sin, keys, values, step.seen, step.mask, step.hidden, *weights]
        )
        if isinstance(step.cache, Slots):
            step.cache.write(index, own)
        else:
            step.own.append(own)
            if len(step.own) == len(step.cache.layers):
                step.cache.write(step.own)
        if index in this_pass.record:
            this_pass.queries[index] = (queries[0], scale)
        if isinstance(this_pass.backend, Folded):
            this_pass.backend.look(queries, keys[:, :, : len(step.seen) + 1], scale)
        return out

    def _step_for(self, states: Tensor, this_pass: Pass | None, cache: object) -> _Step | None:
        """None where the layers themselves are to be run."""
        if this_pass is None:
            return None
        b, n, _ = states.shape
        if isinstance(cache, KVCache) and isinstance(this_pass.backend, SplitKV) and cache.start == cache.length:
            tree = this_pass.tree_mask
            if not (1 <= n <= MOST and cache.length >= _SHORTEST) or (n > 1 and (tree is None or len(tree.T) != n)):
                return None
            run, parts, hidden = self.runs["token" if n == 1 else "tree"], self.parts, states
            rows, mask = cache.length, beside(tree if n > 1 else None, cache.length, parts)
        elif isinstance(cache, Slots) and isinstance(this_pass.backend, Folded) and 2 <= b <= MOST:
            run, rows, hidden = self.runs["batch"], cache.longest, cache.hidden(states.dtype)
            mask = torch.zeros(1, 1, dtype=torch.float32)
        else:
            return None
        return _Step(run, torch.empty(rows, 0), mask, hidden, cache)


def _watch(lm: LanguageModel, module: nn.Module) -> dict[str, Any]:
    """What a layer is called with."""
    seen: dict[str, Any] = {}

    def note(_: object, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        seen.update(given, states=args[0] if args else given.get("hidden_states"))

    handle = module.register_forward_pre_hook(note, with_kwargs=True)
    try:
        lm.forward(torch.arange(2), torch.arange(2), lm.new_cache(2))
    finally:
        handle.remove()
    return seen


def _trial(lm: LanguageModel) -> Tensor:
    """Logits of a token and of a small tree behind a short prompt."""
    tokens = torch.arange(_SHORTEST + 1) % lm.vocabulary
    cache = lm.new_cache(len(tokens) + 3)
    lm.forward(tokens, torch.arange(len(tokens)), cache, logits_to_keep=1)
    cache.commit()
    one = lm.forward(tokens[:1], torch.tensor([len(tokens)]), cache).logits
    cache.rollback()
    tree = from_lists([1, 2, 3], [0, 0, 0], [1.0] * 3, "cpu")
    several = lm.forward(tree.tokens, len(tokens) + tree.depths, cache, this_pass=Pass(lm.backend, tree.mask)).logits
    return torch.cat((one, several)).float()
