"""Forwards by the native library (`forward.h`): a token, a tree, a batch, or a prompt, of a language model or a head.

A whole forward is one call. What a model of another make would need is left to its own modules.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from specextend_cli.engine.attention.function import LayerQueries
from specextend_cli.engine.attention.reference import reference
from specextend_cli.engine.attention.softmax import SoftmaxOptions
from specextend_cli.engine.attention.split_kv import split_kv
from specextend_cli.engine.check import NotOursError, few_layers, results_of, use
from specextend_cli.engine.decoder import Decoder, DecoderLayer, Norm
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.kernels import FORMATS, use_threads
from specextend_cli.engine.native.shared_library import ForwardStep, Layer, Matrix, Model, library
from specextend_cli.engine.packed import MOST_ROWS, PackedEmbedding, PackedLinear, Tiles
from specextend_cli.engine.step import Output, Runner, Step
from specextend_cli.engine.threads import on_threads, probing_threads

_BFLOAT16, _FLOAT32 = 5, 6  # kinds of SxMatrix (`native/specextend.h`)
_COLUMNS = 32  # a multiple of which every matrix has
_NO_TOKEN = 1  # status of the library's forward
_WORTH_ROWS = 16  # of a tree or a batch; more cost as much as they bring


@torch.inference_mode()
def use_natively(model: LanguageModel | EagleHead, *, exact: bool = True) -> None:
    """Let `model` run by the library, if it computes what the model does; NotOursError where not.

    For `exact` see `NativeRunner`. A language model is compared on few layers.
    """
    model.runner = model.stock  # what is expected is what its own modules give
    make = partial(NativeRunner, model, exact=exact)
    whole, rounds = make(), None if exact else torch.bfloat16
    if isinstance(model, EagleHead):
        with on_threads(probing_threads(model)):
            expected = list(results_of(model, reference))
            use(model, lambda: whole, partial(results_of, model), split_kv, expected, rounds)
        return
    results = partial(results_of, model, batches=(2,))
    with on_threads(probing_threads(model.model)), few_layers(model):
        use(model, make, results, model.backend, list(results(reference)), rounds)
    model.runner, model.exact_rows = whole, _WORTH_ROWS


class NativeRunner(Runner):
    """Runs a model on a processor by the library, which is loaded. NotOursError where it cannot.

    In float32, `exact` says that what meets packed weights is not rounded to eight bits, as it is in bfloat16.
    """

    most_rows = MOST_ROWS

    def __init__(self, model: LanguageModel | EagleHead, *, exact: bool) -> None:
        self.decoder = decoder = Decoder.of(model)
        self._stock, self._is_head = model.stock, isinstance(model, EagleHead)
        self._states_of = model.states_of if isinstance(model, EagleHead) else None
        self._structures = structures = _Structures(decoder)
        if not isinstance(model, EagleHead) and model.backend is not split_kv:
            raise NotOursError("there is no native forward for another attention than the library's")
        if decoder.dtype not in FORMATS or decoder.head_dim % 32:
            raise NotOursError(f"there is no native forward for {decoder.dtype} or heads of {decoder.head_dim} numbers")
        if decoder.head.bias is not None:
            raise NotOursError("its output layer has a bias")
        self._rotation: Rotation = Rotation(decoder.rope, decoder.dtype, decoder.kinds)
        self._softmaxes: list[SoftmaxOptions] = [SoftmaxOptions(layer.cap or None) for layer in decoder.layers]
        self._layers: Any = (Layer * len(decoder.layers))(*map(structures.layer, decoder.layers))
        self._model: Model = Model(
            bf16=int(decoder.dtype == torch.bfloat16),
            exact=int(exact and decoder.dtype == torch.float32),
            layers=len(decoder.layers),
            hidden=decoder.hidden,
            heads=decoder.heads,
            kv_heads=decoder.kv_heads,
            head_dim=decoder.head_dim,
            rotated=self._rotation.dimensions,
            epsilon=structures.epsilon,
            embedding_multiplier=decoder.embedding_multiplier,
            residual_multiplier=decoder.residual_multiplier,
            logits_divisor=decoder.logits_divisor,
            layer=ctypes.addressof(self._layers),
            vocabulary=decoder.embedding.num_embeddings,
            embedding=structures.embedding(decoder.embedding),
            final_norm=structures.norm(decoder.norm),
            feeds_normed=int(decoder.feeds_normed),
            head=structures.matrix(decoder.head),
            logits_cap=decoder.logits_cap or 0,
        )
        if decoder.joined is not None:
            self._model.joined = structures.matrix(decoder.joined)
        if decoder.fused is not None:
            self._model.fused = structures.matrix(decoder.fused)

    def run(self, step: Step) -> Output:
        """See `Runner`. Trees of many rows, long working sets and other attention are left to the model's modules."""
        step.upload()
        cache, b, tree = step.cache, step.sequences, step.tree_mask
        n, is_batch = len(step) // b, cache.is_batch
        is_wide = n > MOST_ROWS and (self._is_head or tree is not None or step.key_positions is not None)
        earlier = 0 if is_batch else tree.shape[1] - n if tree is not None else cache.start - cache.length
        is_odd = self._is_head and (cache.length == 0 or earlier + n != cache.end - cache.length)
        if is_wide or is_odd or b > MOST_ROWS or step.backend is not split_kv:
            return self._stock.run(step)
        decoder, buffer, layers = self.decoder, cache.buffers[0], step.feature_layers
        keep = n if b > 1 else min(step.logits_to_keep or n, n)
        logits = torch.empty(b * keep, decoder.head.out_features)
        features = torch.empty(b * n, len(layers) * decoder.hidden, dtype=decoder.dtype) if layers else None
        after = torch.empty(n, decoder.hidden, dtype=decoder.dtype) if self._is_head else None
        wanted = sorted(step.record)
        recorded = [torch.empty(b, decoder.heads, n, decoder.head_dim, dtype=decoder.dtype) for _ in wanted]
        queries = (ctypes.c_void_p * len(self._layers))()
        for layer, some in zip(wanted, recorded, strict=True):
            queries[layer] = some.data_ptr()
        if self._states_of is not None and decoder.fused is None:
            step.states, step.features = self._states_of(step), None
        read = {
            "tokens": step.tokens.contiguous(),
            "positions": step.positions.contiguous(),
            "tree": None if tree is None else tree.contiguous(),
            "states": None if step.states is None else step.states.contiguous(),
            "features": None if step.features is None else step.features.contiguous(),
            "places": None if step.key_positions is None else step.key_positions.contiguous(),
            "seen": cache.lengths if is_batch else torch.tensor([cache.start - earlier]),
            "leader": cache.leader if is_batch else None,
            "common": cache.common if is_batch else None,
            "logits": logits,
            "features_given": features,
            "feature_layers": torch.tensor(layers, dtype=torch.long),
            "after": after,
        }
        strides = buffer.stride()
        forward = ForwardStep(
            rows=n,
            sequences=b,
            is_prompt=int(n > MOST_ROWS),
            keys=buffer.data_ptr(),
            values=buffer.data_ptr() + strides[0] * buffer.element_size(),
            by_layer=strides[1],
            by_sequence=strides[2],
            by_head=strides[3],
            earlier=earlier,
            keep=keep,
            feature_count=len(layers),
            queries=ctypes.addressof(queries),
            placed=0 if step.key_positions is None else len(step.key_positions),
            **{name: tensor.data_ptr() for name, tensor in read.items() if tensor is not None},
        )
        self._compute(forward, step)
        for layer, some in zip(wanted, recorded, strict=True):
            own = decoder.layers[layer]
            kept = some[0, :, -1:].clone() if step.record_last else some[0]  # a clone frees the others
            step.queries[layer] = LayerQueries(kept, own.scale, own.window, self._softmaxes[layer])
        return Output(logits, features, after, step.queries)

    def _compute(self, forward: ForwardStep, step: Step) -> None:
        """The forward. IndexError, as torch raises, for tokens that do not exist."""
        cos, sin = self._rotation.up_to(0)
        use_threads()
        while True:
            forward.cos, forward.sin, forward.turns = cos.data_ptr(), sin.data_ptr(), cos.shape[1]
            status = library().sx_forward(ctypes.byref(self._model), ctypes.byref(forward))
            if status == 0:
                return
            if status == _NO_TOKEN:
                raise IndexError(f"tokens {step.tokens.tolist()} of a vocabulary of {self._model.vocabulary}")
            cos, sin = self._rotation.up_to(int(step.positions.max()))


class Rotation:
    """RoPE's cosines and sines, float32 tables [kinds, positions, dimensions], by the model's own module."""

    def __init__(self, module: Callable[[], nn.Module], dtype: torch.dtype, kinds: Sequence[str] = ()) -> None:
        """See `Decoder.rope` and `Decoder.kinds`."""
        self._present, self._dtype, self._kinds = module, dtype, kinds
        self._module: nn.Module | None = None
        self._cos = self._sin = torch.empty(1, 0, 0)
        self.up_to(1)

    @property
    def dimensions(self) -> int:
        """Numbers of a head that are rotated."""
        return self._cos.shape[2]

    @torch.inference_mode()
    def up_to(self, last: int) -> tuple[Tensor, Tensor]:
        """Tables that include position `last`. Their values are rounded as the model rounds them."""
        module = self._present()
        if module is not self._module or last >= self._cos.shape[1]:
            x, every = torch.empty(1, dtype=self._dtype), torch.arange(1 << last.bit_length())[None]
            tables = [module(x, every, kind) for kind in self._kinds] or [module(x, every)]
            self._cos, self._sin = (torch.cat(parts).float().contiguous() for parts in zip(*tables, strict=True))
            self._module = module
        return self._cos, self._sin


class _Structures:
    """The library's structures of a decoder's parts, which point to tensors that have to live, and may not move.

    Its methods raise NotOursError for what the library cannot compute.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._kept: list[object] = []
        norms = [norm.epsilon for norm in (decoder.layers[0].mlp_norm, decoder.norm) if norm is not None]
        self.epsilon = norms[0] if norms else 0.0

    def layer(self, layer: DecoderLayer) -> Layer:
        """SxLayer."""
        names = ("q", "k", "v", "o", "gate", "up", "down")
        norms = ("attention_norm", "mlp_norm", "q_norm", "k_norm", "state_norm")
        return Layer(
            **{name: self.matrix(getattr(layer, name)) for name in names},
            **{name: self.norm(getattr(layer, name)) for name in norms},
            residual_is_normed=int(layer.residual_is_normed),
            rotates=int(layer.rotates),
            scale=layer.scale,
            cap=layer.cap or 0,
            attention_out_norm=self.norm(layer.attention_out),
            mlp_out_norm=self.norm(layer.mlp_out),
            window=layer.window or 0,
            table=self._decoder.kinds.index(layer.kind) if layer.kind else 0,
            is_gelu=int(layer.is_gelu),
        )

    def norm(self, norm: Norm | None) -> int | None:
        """What it multiplies by, in float32."""
        if norm is None:
            return None
        if norm.epsilon != self.epsilon:
            raise NotOursError(f"a norm has epsilon {norm.epsilon}, another {self.epsilon}")
        factor = norm.weight.float() + norm.adds_one
        self._kept.append(factor)
        return factor.data_ptr()

    def matrix(self, module: Any) -> Matrix:
        """A linear layer's weights: packed ones if it has them."""
        if module.in_features % _COLUMNS:
            raise NotOursError(f"{type(module).__name__} is no linear layer of a multiple of {_COLUMNS} columns")
        bias = None if module.bias is None else self._at(module.bias)
        if isinstance(module, PackedLinear):
            return self._packed(module.packed, bias)
        return self._dense(module.weight, bias)

    def embedding(self, module: Any) -> Matrix:
        """A row for each token."""
        return self._packed(module.packed) if isinstance(module, PackedEmbedding) else self._dense(module.weight)

    def _packed(self, tiles: Tiles, bias: int | None = None) -> Matrix:
        codes, scales = tiles.codes, tiles.scales
        self._kept += (codes, scales)
        return Matrix(tiles.kind.number, tiles.rows, tiles.columns, codes.data_ptr(), scales.data_ptr(), bias)

    def _dense(self, weight: Tensor, bias: int | None = None) -> Matrix:
        kind = _BFLOAT16 if self._decoder.dtype == torch.bfloat16 else _FLOAT32
        return Matrix(kind, *weight.shape, self._at(weight), None, bias)

    def _at(self, tensor: Tensor) -> int:
        """The address of a tensor in the model's format."""
        if type(tensor.data) is not Tensor or tensor.dtype != self._decoder.dtype or tensor.device.type != "cpu":
            raise NotOursError("its weights are not plain tensors of one number format")
        tensor = tensor.detach().contiguous()
        self._kept.append(tensor)
        return tensor.data_ptr()
