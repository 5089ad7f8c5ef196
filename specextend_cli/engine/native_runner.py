"""Forwards by the native library (`forward.h`): a token, a tree, a batch, or a prompt, of a language model or a head.

A whole forward is one call. What a model of another make would need is left to its own modules.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention.split_kv import split_kv
from specextend_cli.engine.check import NotOursError, results_of, use
from specextend_cli.engine.decoder import Decoder, DecoderLayer, Norm
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.kernels import FORMATS, on_torch_threads
from specextend_cli.engine.native.shared_library import ForwardStep, Layer, Matrix, Model
from specextend_cli.engine.packed import MOST_ROWS, PackedEmbedding, PackedLinear
from specextend_cli.engine.step import Output, Runner, Step
from specextend_cli.engine.temporary import few_threads

_BFLOAT16, _FLOAT32 = 5, 6  # kinds of SxMatrix (`native/specextend.h`)
_COLUMNS = 32  # a multiple of which every matrix has


@torch.inference_mode()
def use_natively(model: LanguageModel | EagleHead, *, exact: bool = True) -> None:
    """Let `model` run by the library, if it computes what the model does; NotOursError where not.

    For `exact` see `NativeRunner`. A language model is compared on few layers.
    """
    model.runner = model.stock  # what is expected is what its own modules give
    decoder, rounds = Decoder.of(model), None if exact else torch.bfloat16
    whole = NativeRunner(model, decoder, exact=exact)
    if isinstance(model, EagleHead):
        with few_threads(model):
            expected = list(results_of(model, reference))
            use(model, lambda: whole, partial(results_of, model), split_kv, expected, rounds)
        return
    results = partial(results_of, model, batches=(4,))
    with few_threads(model.model), model.few_layers() as chosen:
        few = replace(decoder, layers=tuple(decoder.layers[index] for index in chosen))
        make = partial(NativeRunner, model, few, exact=exact)
        use(model, make, results, model.backend, list(results(reference)), rounds)
    model.runner = whole


class NativeRunner(Runner):
    """Runs a model on a processor by the library, which is loaded. NotOursError where it cannot.

    In float32, `exact` says that what meets packed weights is not rounded to eight bits, as it is in bfloat16.
    """

    most_rows = MOST_ROWS
    exact_rows = 16  # more cost as much as they bring

    def __init__(self, model: LanguageModel | EagleHead, decoder: Decoder, *, exact: bool) -> None:
        super().__init__(model)
        self.decoder = decoder
        self._head = model if isinstance(model, EagleHead) else None
        if not isinstance(model, EagleHead) and model.backend is not split_kv:
            raise NotOursError("there is no native forward for another attention than the library's")
        if decoder.dtype not in FORMATS or decoder.head_dim % 32:
            raise NotOursError(f"there is no native forward for {decoder.dtype} or heads of {decoder.head_dim} numbers")
        if decoder.head.bias is not None:
            raise NotOursError("its output layer has a bias")
        self._rotation: Rotation = Rotation(decoder)
        self._structures = structures = _Structures(decoder.dtype)
        self._layers: Any = (Layer * len(decoder.layers))(*(structures.of(Layer, each) for each in decoder.layers))
        self._native: Any = structures.of(
            Model,
            decoder,
            bf16=decoder.dtype == torch.bfloat16,
            exact=exact and decoder.dtype == torch.float32,
            layers=len(decoder.layers),
            rotated=self._rotation.dimensions,
            layer=ctypes.addressof(self._layers),
            vocabulary=decoder.embedding.num_embeddings,
        )
        self._native.epsilon = structures.epsilon

    def run(self, step: Step) -> Output:
        """See `Runner`. Trees of many rows, long working sets and other attention are left to the model's modules."""
        step.upload()
        cache, b, tree = step.cache, step.sequences, step.tree_mask
        n, is_batch = len(step) // b, cache.is_batch
        is_prompt = tree is None and self._head is None
        if b > MOST_ROWS or (n > MOST_ROWS and not is_prompt) or step.backend is not split_kv:
            return super().run(step)
        earlier = 0 if is_batch else tree.shape[1] - n if tree is not None else cache.start - cache.length
        decoder, buffer, layers = self.decoder, cache.buffers[0], step.feature_layers
        keep = n if b > 1 else min(step.logits_to_keep or n, n)
        logits = torch.empty(b * keep, decoder.head.out_features)
        features = torch.empty(b * n, len(layers) * decoder.hidden, dtype=decoder.dtype) if layers else None
        after = torch.empty(n, decoder.hidden, dtype=decoder.dtype) if self._head is not None else None
        wanted = sorted(step.record)
        recorded = [torch.empty(b, decoder.heads, n, decoder.head_dim, dtype=decoder.dtype) for _ in wanted]
        queries = (ctypes.c_void_p * len(self._layers))()
        for layer, some in zip(wanted, recorded, strict=True):
            queries[layer] = some.data_ptr()
        if self._head is not None and decoder.fused is None:
            step.states, step.features = self._head.states_of(step), None
        read = {
            "tokens": step.tokens.contiguous(),
            "positions": step.positions.contiguous(),
            "tree": None if tree is None else tree.contiguous(),
            "states": None if step.states is None else step.states.contiguous(),
            "features": None if step.features is None else step.features.contiguous(),
            "seen": cache.lengths if is_batch else torch.tensor([cache.start - earlier]),
            "logits": logits,
            "features_given": features,
            "feature_layers": torch.tensor(layers, dtype=torch.long),
            "after": after,
        }
        strides = buffer.stride()
        forward = ForwardStep(
            rows=n,
            sequences=b,
            is_prompt=n > MOST_ROWS,
            keys=buffer.data_ptr(),
            values=buffer.data_ptr() + strides[0] * buffer.element_size(),
            by_layer=strides[1],
            by_sequence=strides[2],
            by_head=strides[3],
            earlier=earlier,
            keep=keep,
            feature_count=len(layers),
            queries=ctypes.addressof(queries),
            **{name: tensor.data_ptr() for name, tensor in read.items() if tensor is not None},
        )
        cos, sin = self._rotation.up_to(int(step.positions.max()))
        forward.cos, forward.sin, forward.turns = cos.data_ptr(), sin.data_ptr(), cos.shape[1]
        if on_torch_threads().sx_forward(ctypes.byref(self._native), ctypes.byref(forward)):  # as torch raises
            raise IndexError(f"tokens {step.tokens.tolist()} of a vocabulary of {self._native.vocabulary}")
        for layer, some in zip(wanted, recorded, strict=True):
            own = decoder.layers[layer]
            kept = some[0, :, -1:].clone() if step.record_last else some[0]  # a clone frees the others
            step.queries[layer] = LayerQueries(kept, own.scale, own.window, SoftmaxOptions(own.cap))
        return Output(logits, features, after, step.queries)


class Rotation:
    """RoPE's cosines and sines, float32 tables [kinds, positions, dimensions], by the model's own module."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._module: nn.Module | None = None
        self._cos = self._sin = torch.empty(1, 0, 0)
        self.dimensions = self.up_to(0)[0].shape[2]
        """Numbers of a head that are rotated."""

    @torch.inference_mode()
    def up_to(self, last: int) -> tuple[Tensor, Tensor]:
        """Tables that include position `last`. Their values are rounded as the model rounds them."""
        module = self._decoder.rope()
        if module is not self._module or last >= self._cos.shape[1]:
            x, every = torch.empty(1, dtype=self._decoder.dtype), torch.arange(1 << last.bit_length())[None]
            tables = [module(x, every, kind) for kind in self._decoder.kinds] or [module(x, every)]
            self._cos, self._sin = (torch.cat(parts).float().contiguous() for parts in zip(*tables, strict=True))
            self._module = module
        return self._cos, self._sin


class _Structures:
    """The library's structures of a decoder's parts, which point to tensors that have to live, and may not move.

    NotOursError for what the library cannot compute.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._kept: list[Tensor] = []
        self.epsilon = 0.0
        """Of all norms."""

    def of(self, kind: Any, part: Decoder | DecoderLayer, **known: Any) -> Any:
        """A structure whose fields are `known`, or have the part's name; what the part has not is 0."""
        rest = ((name, getattr(part, name, None)) for name, _ in kind._fields_ if name not in known)
        return kind(**known, **{name: self._converted(value) for name, value in rest if value is not None})

    def _converted(self, value: Any) -> Any:
        """Matrices, addresses of norms, and numbers as they are."""
        if isinstance(value, Norm):
            return self._norm(value)
        return self._matrix(value) if isinstance(value, nn.Module) else value

    def _norm(self, norm: Norm) -> int:
        """What it multiplies by, in float32."""
        self.epsilon = self.epsilon or norm.epsilon
        if norm.epsilon != self.epsilon:
            raise NotOursError(f"a norm has epsilon {norm.epsilon}, another {self.epsilon}")
        return self._at(norm.weight.float() + norm.adds_one)

    def _matrix(self, module: Any) -> Any:
        """The weights of a linear layer or an embedding: packed ones if it has them."""
        if isinstance(module, PackedLinear | PackedEmbedding):
            matrix = module.packed.matrix
            self._kept += module.packed.buffers()
        else:
            kind = _BFLOAT16 if self._dtype == torch.bfloat16 else _FLOAT32
            matrix = Matrix(kind, *module.weight.shape, self._at(self._plain(module.weight)))
        if matrix.columns % _COLUMNS:
            raise NotOursError(f"{type(module).__name__} is no layer of a multiple of {_COLUMNS} columns")
        if (bias := getattr(module, "bias", None)) is not None:
            matrix.bias = self._at(self._plain(bias))
        return matrix

    def _plain(self, tensor: Tensor) -> Tensor:
        if type(tensor.data) is not Tensor or tensor.dtype != self._dtype or tensor.device.type != "cpu":
            raise NotOursError("its weights are not plain tensors of one number format")
        return tensor.detach().contiguous()

    def _at(self, tensor: Tensor) -> int:
        self._kept.append(tensor)
        return tensor.data_ptr()
