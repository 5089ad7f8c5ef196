"""A model whose decoder layers run as compiled programs (see `layer_program.py`).

A token, a tree, a batch or a prefill chunk over one of our caches goes through the model's embedding, a program for
each layer, the final norm and the output head. Everything else runs on the model itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.prefix import beside
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.batched_cache import BatchedAttention, BatchedKVCache
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cpu.layer_program import Kind, Layer, compile_layer, key_of
from specextend_cli.engine.cpu.programs import MOST, TOLERANCE, Programs, Run, check_packages, install
from specextend_cli.engine.forward import ForwardInput, ModelOutput
from specextend_cli.engine.four_bit import MOST_ROWS
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.compiler import CannotCompileError
from specextend_cli.engine.thread_governor import on_threads, probing_threads
from specextend_cli.engine.tree import from_lists

_SHORTEST = 128  # committed tokens; with fewer a step costs little anyway. Our kernels take any number
_PARTS = 4  # of the keys, at most


@dataclass(frozen=True)
class CompiledLayers(Programs):
    """The programs of a model's layers.

    A prompt's is compiled for `prefill_threads`, which then also run the model's other prefill; the others for the
    number of threads that torch had when the files were named. `scales` are the layers' attention scales; `parts` is
    how many parts torch's attention cuts the keys into.
    """

    layers: tuple[Layer, ...]
    scales: tuple[float, ...]
    parts: int
    prefill_threads: int

    @property
    def by_kernel(self) -> bool:
        """Whether they attend by our own kernels."""
        return self.layers[0].by_kernel

    def _compile(self, kind: Kind) -> None:
        with on_threads(self.prefill_threads if kind == "prompt" else torch.get_num_threads()):
            compile_layer(self.layers[0], kind, 1 if kind == "batch" else self.parts, self.files[kind])

    def use(self, lm: LanguageModel) -> None:
        """Let `lm`, whose layers these are, run the programs.

        CannotCompileError where one does not load, or where, the first time, they do not compute what the model does.
        """
        runner = _Runner(lm, self, self.load())
        if self.compared.exists():
            lm.forward_backend = runner
        else:
            install(lm, runner, partial(_trial, lm), lm.dtype)
            self.compared.touch()
        lm.prefill_threads = self.prefill_threads
        lm.exact_rows = MOST if self.by_kernel else None

    @staticmethod
    def drop(lm: LanguageModel) -> None:
        """Let the model run itself again."""
        lm.forward_backend = lm.prefill_threads = lm.exact_rows = None


def programs_for(lm: LanguageModel, directory: Path, *, prefill_threads: int = 0) -> CompiledLayers:
    """The programs of a model on a CPU, in `directory`. CannotCompileError where there can be none.

    Prefill may run on other `prefill_threads` than decoding does (0: the same number).
    """
    if lm.device.type != "cpu" or not isinstance(lm.backend, SplitKV):
        raise CannotCompileError(f"there are no programs for {lm.device.type}, or for this attention")
    check_packages()
    decoder: Any = lm.model.get_decoder()
    if not all(hasattr(decoder, part) for part in ("layers", "norm", "rotary_emb")):
        raise CannotCompileError(f"{type(decoder).__name__} has other parts than layers, a norm and RoPE")
    modules = list(decoder.layers)
    scales, given, kv_heads, head_dim = _probe(lm, modules[0])
    states, positions = given.get("states"), given.get("position_embeddings")
    if not isinstance(states, Tensor) or not isinstance(positions, tuple) or len(positions) != 2:
        raise CannotCompileError(f"{type(modules[0]).__name__} takes other arguments than states and cos and sin")
    width, rotated = states.shape[-1], positions[0].shape[-1]
    layers = tuple(Layer(module, width, kv_heads, head_dim, rotated, lm.dtype) for module in modules)
    shapes = {tuple((name, w.shape, w.dtype) for name, w in layer.weights.items()) for layer in layers}
    if any(type(weight.data) is not Tensor for layer in layers for weight in layer.weights.values()):
        raise CannotCompileError("its weights are not plain tensors")
    if len(shapes) > 1 or len({type(module) for module in modules}) > 1:
        raise CannotCompileError("its layers differ from each other")
    threads = torch.get_num_threads()
    prefill_threads = prefill_threads or threads
    parts = 1 if layers[0].by_kernel else max(min(threads // gcd(kv_heads, threads), _PARTS), 1)
    config = {name: value for name, value in lm.config.to_dict().items() if not name.startswith("_")}
    files: dict[str, Path] = {}
    for kind in layers[0].kinds:
        with on_threads(prefill_threads if kind == "prompt" else threads):
            files[kind] = directory / f"{key_of(layers[0], config, kind, 1 if kind == 'batch' else parts)}.pt2"
    return CompiledLayers(files, layers, scales, parts, prefill_threads)


@torch.inference_mode()
def _probe(lm: LanguageModel, layer: nn.Module) -> tuple[tuple[float, ...], dict[str, Any], int, int]:
    """The layers' attention scales, a layer's arguments, the number of key heads and their size, by one forward.

    CannotCompileError where the layers do not read the embedding as it is, or the output head the final norm: some
    models scale either.
    """
    given: dict[str, Any] = {}

    def note(_: object, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        given.update(named, states=args[0] if args else named.get("hidden_states"))

    every = ForwardContext(lm.backend, record=frozenset(range(lm.layers)))
    two, cache = torch.arange(2, device=lm.device), lm.new_cache(2)
    embedding, head = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
    near = partial(torch.allclose, rtol=TOLERANCE[lm.dtype], atol=1e-5)
    handle = layer.register_forward_pre_hook(note, with_kwargs=True)
    try:
        with on_threads(probing_threads(lm.model)):
            out = lm.forward(two, two, cache, context=every, features=(0, lm.layers))
            assert out.features is not None
            first, last = out.features.chunk(2, -1)
            is_plain = near(embedding(two), first) and near(head(last[None])[0], out.logits)
    finally:
        handle.remove()
    if not is_plain:
        raise CannotCompileError(f"{type(lm.model).__name__} computes something between its parts")
    _, _, kv_heads, _, head_dim = cache.buffer.shape
    return tuple(every.queries[index][1] for index in range(lm.layers)), given, kv_heads, head_dim


class _Step(NamedTuple):
    """One forward's program and what all layers share; `hidden` None stands for a tensor that hides nothing."""

    kind: Kind
    cache: KVCache | BatchedKVCache
    seen: Tensor
    mask: Tensor
    hidden: Tensor | None = None


class _Runner:
    """A language model's `ForwardBackend`."""

    def __init__(self, lm: LanguageModel, programs: CompiledLayers, runs: dict[str, Run]) -> None:
        decoder: Any = lm.model.get_decoder()
        self._embedding, self._head = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
        self._norm, self._rotation = decoder.norm, _Rotation(decoder)
        self._weights = [list(layer.weights.values()) for layer in programs.layers]
        self._scales, self._parts, self._runs = programs.scales, programs.parts, runs
        self._shortest = 1 if programs.by_kernel else _SHORTEST

    def run(self, inputs: ForwardInput) -> ModelOutput | None:
        """See `ForwardBackend`."""
        step = self._step_for(inputs)
        if step is None:
            return None
        cache, context = step.cache, inputs.context
        states = self._embedding(inputs.tokens)
        cos, sin = self._rotation(states, inputs.positions)
        hidden = states if step.hidden is None else step.hidden
        every, written, asked = [states], [], []
        run, cached = self._runs[step.kind], cache.cached()
        batched = context.backend if isinstance(context.backend, BatchedAttention) else None
        for index, weights in enumerate(self._weights):
            states, own, queries = run([states, cos, sin, *cached[index], step.seen, step.mask, hidden, *weights])
            if inputs.hidden_states:
                every.append(states)
            if index in context.record:
                kept = queries[0, :, -1:].clone() if context.record_last else queries[0]  # a clone frees the others
                context.queries[index] = (kept, self._scales[index])
            if batched is not None:
                asked.append(queries)
            if isinstance(cache, KVCache) and step.kind == "prompt":
                cache.write([own], index)  # at once: a chunk's of all layers are large
            else:
                written.append(own)
        if written:
            cache.write(written)
        if batched is not None:
            for (keys, _), queries, scale in zip(cached, asked, self._scales, strict=True):
                batched.record(queries, keys[:, :, : len(step.seen) + 1], scale)
        every[-1] = states = self._norm(states)
        return ModelOutput(self._head(states[:, -inputs.logits_to_keep :]), every)

    def _step_for(self, inputs: ForwardInput) -> _Step | None:
        """None where the model itself has to run."""
        (b, n), cache, context = inputs.tokens.shape, inputs.cache, inputs.context
        nothing = torch.zeros(1, 1)
        if isinstance(cache, KVCache) and isinstance(context.backend, SplitKV) and cache.start == cache.length:
            tree, seen = context.tree_mask, torch.empty(cache.length, 0)
            if tree is None and n > MOST_ROWS and "prompt" in self._runs:
                return _Step("prompt", cache, seen, nothing)
            fits = 1 <= n <= MOST and cache.length >= self._shortest
            if not fits or (n > 1 and (tree is None or len(tree.T) != n)):
                return None
            mask = beside(tree if n > 1 else None, cache.length, self._parts)
            return _Step("token" if n == 1 else "tree", cache, seen, mask)
        if isinstance(cache, BatchedKVCache) and isinstance(context.backend, BatchedAttention) and b <= MOST:
            seen = torch.empty(cache.longest, 0)
            if b > 1:
                return _Step("batch", cache, seen, nothing, cache.hidden(self._embedding.weight.dtype))
            if cache.longest >= self._shortest:  # a batch's last sequence
                return _Step("token", cache, seen, beside(None, cache.longest, self._parts))
        return None


class _Rotation:
    """RoPE's cosines and sines, computed by the model's own module and kept in a table: it runs a dozen operations."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._module: nn.Module | None = None
        self._cos = self._sin = torch.empty(0)

    def __call__(self, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [b, n, d] of positions [b, n], in the number format of `states`."""
        last, module = int(positions.max()), self._decoder.rotary_emb  # bench/rope.py exchanges it
        if module is not self._module or last >= len(self._cos):
            every = torch.arange(1 << last.bit_length(), device=positions.device)
            (self._cos,), (self._sin,) = module(states, every[None])
            self._module = module
        return self._cos[positions], self._sin[positions]


def _trial(lm: LanguageModel) -> Tensor:
    """Logits of a short prompt in two chunks, then of one token and of a small tree after it.

    Tokens come from the middle of the vocabulary: the first ones are special, and after them rounding to bfloat16 alone
    changes logits by more than their size.
    """
    tokens = (torch.arange(_SHORTEST + 4) * 97 + lm.vocabulary // 3) % lm.vocabulary
    prompt, tree = tokens[:-3], from_lists(tokens[-3:].tolist(), [0, 0, 0], [1.0] * 3, "cpu")
    cache = lm.new_cache(len(prompt) + 3)
    read = []
    for chunk in torch.arange(len(prompt)).tensor_split(2):
        read.append(lm.forward(prompt[chunk], chunk, cache, logits_to_keep=1).logits)
        cache.commit()
    one = lm.forward(tokens[-3:-2], torch.tensor([len(prompt)]), cache).logits
    cache.rollback()
    context = ForwardContext(lm.backend, tree.mask)
    several = lm.forward(tree.tokens, len(prompt) + tree.depths, cache, context=context).logits
    return torch.cat((*read, one, several)).float()
