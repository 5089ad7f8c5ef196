"""A model that runs as compiled programs wherever there is one, and as it is everywhere else.

The model stays transformers' own; its `forward` is replaced by one that looks at what it is given. A token, a tree, a
batch or a long piece of a prompt over a cache of ours goes from the model's embedding through a program for each layer
(see `program.py`) to its final norm and output head; other back ends and other callers go to the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, update_wrapper
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
from specextend_cli.engine.cpu.decoding_threads import on_threads, probing_threads
from specextend_cli.engine.cpu.layer_program import (
    MOST,
    Kind,
    Layer,
    Run,
    compile_program,
    key_of,
    layer_of,
    load_program,
)
from specextend_cli.engine.four_bit import FEW_OF_OURS
from specextend_cli.engine.lm import LanguageModel, ModelOutput
from specextend_cli.engine.native.compiler import CannotCompileError, compiler
from specextend_cli.engine.private_files import UntrustedError, discard, is_good
from specextend_cli.engine.tree import from_lists

_SHORTEST = 128  # tokens seen; with fewer, a step costs little anyhow. By our kernels, any number: rounding stays one
_PARTS = 4  # of the keys, at most
_NEAR = {torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}  # relative distance of the same logits


@dataclass(frozen=True)
class CompiledLayers:
    """What a model's layers need on this machine: the layers, and a file for each kind of program.

    A prompt's is compiled for `reading_threads`, with which the loops then read; all others for as many as torch had
    when the files were named.
    """

    layers: tuple[Layer, ...]
    scales: tuple[float, ...]
    parts: int
    files: Mapping[Kind, Path]
    reading_threads: int

    @property
    def by_kernel(self) -> bool:
        """Whether they attend by our own kernel."""
        return self.layers[0].by_kernel

    @property
    def missing(self) -> list[Kind]:
        """Kinds that nobody has compiled yet, or whose file is damaged."""
        return [kind for kind, file in self.files.items() if not is_good(file)]

    def make(self) -> Iterator[Kind]:
        """Compile what is missing, some ten seconds each; yields what comes next. CannotCompileError."""
        for kind in self.missing:
            compiler()
            yield kind
            self.files["token"].with_suffix(".checked").unlink(missing_ok=True)
            with on_threads(self.reading_threads if kind == "prompt" else torch.get_num_threads()):
                compile_program(self.layers[0], kind, self._parts(kind), self.files[kind])

    def use(self, lm: LanguageModel) -> None:
        """Let `lm`, whose layers these are, run the programs.

        CannotCompileError where one does not load, whose file is removed, or, the first time, they do not compute the
        same as the model.
        """
        runs = {kind: self._load(kind) for kind in self.files}
        checked = self.files["token"].with_suffix(".checked")
        before = None if checked.exists() else _trial(lm)
        lm.model.forward = _Forward(lm, self, runs)
        lm.reading_threads = self.reading_threads
        lm.exact_rows = MOST if self.by_kernel else None
        if before is None:
            return
        try:
            after = _trial(lm)
            same = float((after - before).norm() / before.norm()) <= _NEAR[lm.dtype]
        except RuntimeError:  # shapes that do not fit, for one
            same = False
        if not same:
            self.drop(lm)
            raise CannotCompileError("the compiled layers compute something else than the model")
        checked.touch()

    @staticmethod
    def drop(lm: LanguageModel) -> None:
        """The model as it was."""
        lm.model.__dict__.pop("forward", None)
        lm.reading_threads = lm.exact_rows = None

    def _load(self, kind: Kind) -> Run:
        try:
            return load_program(self.files[kind])
        except CannotCompileError as error:
            if not isinstance(error.__cause__, UntrustedError):  # whose it is not ours to remove
                discard(self.files[kind])  # damaged: the next run makes another, and checks it
                self.files["token"].with_suffix(".checked").unlink(missing_ok=True)
            raise

    def _parts(self, kind: Kind) -> int:
        return 1 if kind == "batch" else self.parts


def programs_for(lm: LanguageModel, directory: Path, *, reading_threads: int = 0) -> CompiledLayers:
    """The programs of a model on a processor, in `directory`. CannotCompileError where there can be none.

    Prompts may be read with other `reading_threads` than decoding has (0: as many).
    """
    if lm.device.type != "cpu" or not isinstance(lm.backend, SplitKV):
        raise CannotCompileError(f"there are none for {lm.device.type}, or for this attention")
    if not hasattr(torch._C, "_aoti"):
        raise CannotCompileError(f"torch {torch.__version__} has no AOTInductor packages")
    decoder: Any = lm.model.get_decoder()
    if not all(hasattr(decoder, part) for part in ("layers", "norm", "rotary_emb")):
        raise CannotCompileError(f"{type(decoder).__name__} has other parts than layers, a norm and RoPE")
    stock: Sequence[nn.Module] = decoder.layers
    with on_threads(probing_threads(lm.model)):
        given = _watch(lm, stock[0])
    states, positions = given.get("states"), given.get("position_embeddings")
    if not isinstance(states, Tensor) or not isinstance(positions, tuple) or len(positions) != 2:
        raise CannotCompileError(f"{type(stock[0]).__name__} takes other arguments than states and cos and sin")
    every = ForwardContext(lm.backend, record=frozenset(range(lm.layers)))
    two = torch.arange(2, device=lm.device)
    cache = lm.new_cache(2)
    with on_threads(probing_threads(lm.model)):
        out = lm.forward(two, two, cache, this_pass=every, features=(0, lm.layers))
        assert out.features is not None
        first, last = out.features.chunk(2, -1)
        is_plain = _is_plain(lm, two, first, last, out.logits)
    if not is_plain:
        raise CannotCompileError(f"{type(lm.model).__name__} computes something between its parts")
    _, _, kv_heads, _, head_dim = cache.buffer.shape
    sizes = {"width": states.shape[-1], "rotated": positions[0].shape[-1], "kv_heads": kv_heads, "head_dim": head_dim}
    layers = tuple(layer_of(module, dtype=lm.dtype, **sizes) for module in stock)
    shapes = {tuple((name, w.shape, w.dtype) for name, w in zip(one.names, one.weights, strict=True)) for one in layers}
    if any(type(weight.data) is not Tensor for layer in layers for weight in layer.weights):
        raise CannotCompileError("its weights are no plain tensors")
    if len(shapes) > 1 or len({type(module) for module in stock}) > 1:
        raise CannotCompileError("its layers differ from each other")
    threads = torch.get_num_threads()
    parts = 1 if layers[0].by_kernel else max(min(threads // gcd(kv_heads, threads), _PARTS), 1)
    config = {name: value for name, value in lm.config.to_dict().items() if not name.startswith("_")}
    reading_threads = reading_threads or threads
    files = {}
    for kind in layers[0].kinds:
        with on_threads(reading_threads if kind == "prompt" else threads):
            files[kind] = directory / f"{key_of(layers[0], config, kind, 1 if kind == 'batch' else parts)}.pt2"
    scales = tuple(every.queries[index][1] for index in range(lm.layers))
    return CompiledLayers(layers, scales, parts, files, reading_threads)


class _Step(NamedTuple):
    """What all layers are run with."""

    kind: Kind
    cache: KVCache | BatchedKVCache
    this_pass: ForwardContext
    seen: Tensor
    mask: Tensor
    hidden: Tensor | None
    """None: what hides nothing is as wide as states."""


class _Forward:
    """The model's `forward`, to be called as that is."""

    def __init__(self, lm: LanguageModel, programs: CompiledLayers, runs: Mapping[Kind, Run]) -> None:
        decoder: Any = lm.model.get_decoder()
        self._stock = lm.model.forward
        update_wrapper(self, self._stock)  # `generate` looks at its arguments
        self._embedding, self._head = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
        self._norm, self._rotation = decoder.norm, _Rotation(decoder)
        self._weights = [layer.weights for layer in programs.layers]
        self._scales, self._parts, self._runs = programs.scales, programs.parts, runs
        self._shortest = 1 if programs.by_kernel else _SHORTEST

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Tokens [b, n] at positions [b, n]."""
        tokens, positions = given.get("input_ids"), given.get("position_ids")
        cache, this_pass = given.get("past_key_values"), given.get("this_pass")
        if not args and tokens is not None and positions is not None and this_pass is not None:
            step = self._step_for(tokens, this_pass, cache)
            if step is not None:
                wanted = given.get("output_hidden_states", False)
                return self._run(step, tokens, positions, given.get("logits_to_keep", 0), all_states=wanted)
        return self._stock(*args, **given)

    def _run(self, step: _Step, tokens: Tensor, positions: Tensor, last: int, *, all_states: bool) -> ModelOutput:
        states = self._embedding(tokens)
        cos, sin = self._rotation(states, positions)
        hidden = states if step.hidden is None else step.hidden
        inputs, written, asked = [states], [], []
        run, cache, this_pass, seen, mask = self._runs[step.kind], step.cache, step.this_pass, step.seen, step.mask
        folded = this_pass.backend if isinstance(this_pass.backend, BatchedAttention) else None
        cached = cache.cached()
        for index, weights in enumerate(self._weights):
            states, own, queries = run([states, cos, sin, *cached[index], seen, mask, hidden, *weights])
            if all_states:
                inputs.append(states)
            if index in this_pass.record:
                kept = queries[0, :, -1:].clone() if this_pass.record_last else queries[0]  # the others can go
                this_pass.queries[index] = (kept, self._scales[index])
            if folded is not None:
                asked.append(queries)
            if isinstance(cache, KVCache) and step.kind == "prompt":
                cache.write([own], index)  # as they come: a piece's of all layers are large
            else:
                written.append(own)
        if written:
            cache.write(written)
        if folded is not None:
            for (keys, _), queries, scale in zip(cached, asked, self._scales, strict=True):
                folded.look(queries, keys[:, :, : len(seen) + 1], scale)
        inputs[-1] = states = self._norm(states)
        return ModelOutput(self._head(states[:, -last:]), inputs)

    def _step_for(self, tokens: Tensor, this_pass: ForwardContext, cache: object) -> _Step | None:
        """None where the model itself is to be run."""
        b, n = tokens.shape
        if isinstance(cache, KVCache) and isinstance(this_pass.backend, SplitKV) and cache.start == cache.length:
            tree, seen = this_pass.tree_mask, torch.empty(cache.length, 0)
            if tree is None and n > FEW_OF_OURS and "prompt" in self._runs:
                return _Step("prompt", cache, this_pass, seen, torch.zeros(1, 1), None)
            if not (1 <= n <= MOST and cache.length >= self._shortest) or (
                n > 1 and (tree is None or len(tree.T) != n)
            ):
                return None
            mask = beside(tree if n > 1 else None, cache.length, self._parts)
            return _Step("token" if n == 1 else "tree", cache, this_pass, seen, mask, None)
        if isinstance(cache, BatchedKVCache) and isinstance(this_pass.backend, BatchedAttention) and b <= MOST:
            seen = torch.empty(cache.longest, 0)
            if b > 1:
                hidden = cache.hidden(self._embedding.weight.dtype)
                return _Step("batch", cache, this_pass, seen, torch.zeros(1, 1), hidden)
            if cache.longest >= self._shortest:  # a batch's last one
                return _Step("token", cache, this_pass, seen, beside(None, cache.longest, self._parts), None)
        return None


class _Rotation:
    """RoPE of positions, as the model's own module makes it, looked up: it is a dozen operations on a few numbers."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._module: nn.Module | None = None
        self._cos = self._sin = torch.empty(0)

    def __call__(self, states: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines [b, n, d] of positions [b, n], in the number format of `states`."""
        last, module = int(positions.max()), self._decoder.rotary_emb  # which bench/rope.py exchanges
        if module is not self._module or last >= len(self._cos):
            every = torch.arange(1 << last.bit_length(), device=positions.device)
            (self._cos,), (self._sin,) = module(states, every[None])
            self._module = module
        return self._cos[positions], self._sin[positions]


@torch.inference_mode()
def _is_plain(lm: LanguageModel, tokens: Tensor, first: Tensor, last: Tensor, logits: Tensor) -> bool:
    """Whether layers read the embedding as it is, and the head what the norm makes: some models scale either."""
    embedding, head = lm.model.get_input_embeddings(), lm.model.get_output_embeddings()
    near = partial(torch.allclose, rtol=_NEAR[lm.dtype], atol=1e-5)
    return near(embedding(tokens), first) and near(head(last[None])[0], logits)


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
    """Logits of a short prompt in two pieces, and behind it of one token and of a small tree.

    Of tokens from the middle of the vocabulary: behind the first ones, which are special, bfloat16 alone makes logits
    differ by more than their size.
    """
    tokens = (torch.arange(_SHORTEST + 4) * 97 + lm.vocabulary // 3) % lm.vocabulary
    prompt, tree = tokens[:-3], from_lists(tokens[-3:].tolist(), [0, 0, 0], [1.0] * 3, "cpu")
    cache = lm.new_cache(len(prompt) + 3)
    read = []
    for piece in torch.arange(len(prompt)).tensor_split(2):
        read.append(lm.forward(prompt[piece], piece, cache, logits_to_keep=1).logits)
        cache.commit()
    one = lm.forward(tokens[-3:-2], torch.tensor([len(prompt)]), cache).logits
    cache.rollback()
    several = lm.forward(
        tree.tokens, len(prompt) + tree.depths, cache, this_pass=ForwardContext(lm.backend, tree.mask)
    ).logits
    return torch.cat((*read, one, several)).float()
