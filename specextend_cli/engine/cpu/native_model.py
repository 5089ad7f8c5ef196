"""A language model whose forward runs natively (`native/forward.h`): a token, a tree, a batch, or a prompt.

The whole forward is one call. What a model of another make would need is left to the model itself: its layers have to
be attention and a gated MLP behind RMS norms, or each between two (Llama, SmolLM, Qwen2, Qwen3, Mistral, Granite; Gemma
1 to 3).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from specextend_cli.engine.attention.batched import batched
from specextend_cli.engine.attention.function import ForwardContext, LayerQueries
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cpu.native_weights import Weights, epsilon_of
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, ModelOutput
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.engine.native.kernels import FORMATS, use_threads
from specextend_cli.engine.native.shared_library import CannotCompileError, Layer, Model, Step, first_line, library
from specextend_cli.engine.packed import MOST_ROWS
from specextend_cli.engine.threads import on_threads, probing_threads
from specextend_cli.engine.tree import DraftTree

_ROUNDED, _EXACT = 0.1, 1e-3  # relative distance up to which logits count as the model's own
_OF_ANOTHER_MAKE = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)  # what models of one raise
_NO_TOKEN = 1  # status of the library's forward
_WORTH_ROWS = 16  # of a tree or a batch; more cost as much as they bring


def run_natively(lm: LanguageModel, *, exact: bool = True) -> None:
    """Let `lm`, a model on a CPU, run by the native library, which is loaded.

    In float32, `exact` says that what meets four-bit weights is not rounded to eight bits, as it is in bfloat16.
    CannotCompileError where it cannot, or where it does not compute what the model does.
    """
    if lm.device.type != "cpu" or not isinstance(lm.backend, SplitKV) or lm.dtype not in FORMATS:
        raise CannotCompileError(f"there is no native forward for {lm.device.type}, {lm.dtype} or this attention")
    exact = exact and lm.dtype == torch.float32
    with on_threads(probing_threads(lm.model)):
        install(lm, partial(NativeModel, lm, exact=exact), partial(_trial, lm), rounds=not exact)
    lm.exact_rows = _WORTH_ROWS


def install(model: Any, make: Callable[[], ForwardBackend[Any]], trial: Callable[[], Tensor], *, rounds: bool) -> None:
    """Let `model` run by what `make` makes of it. CannotCompileError where it cannot be made, or does not run.

    Nor may the logits [rows, vocabulary] of a `trial` change by more than rounding; `rounds`: to less than float32.
    What all logits of a row have in common does not count.
    """
    try:
        backend, before = make(), trial()
        model.forward_backend = backend
        distance = float(_centred(trial() - before).norm() / _centred(before).norm())
        if not distance <= (_ROUNDED if rounds else _EXACT):
            raise CannotCompileError("the native forward computes something else than the model")
    except BaseException as error:
        model.forward_backend = None
        if isinstance(error, _OF_ANOTHER_MAKE) and not isinstance(error, torch.OutOfMemoryError):
            raise CannotCompileError(first_line(error)) from error
        raise


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(-1, keepdim=True)


class NativeModel(ForwardBackend[ModelOutput]):
    """A language model's `ForwardBackend`."""

    def __init__(self, lm: LanguageModel, *, exact: bool) -> None:
        decoder: Any = lm.model.get_decoder()
        if lm.state_bytes:
            raise CannotCompileError("some of its layers are recurrent, and run by torch's kernels")
        if not all(hasattr(decoder, part) for part in ("layers", "norm", "rotary_emb")):
            raise CannotCompileError(f"{type(decoder).__name__} has other parts than layers, a norm and RoPE")
        if any(softmax.sinks is not None for softmax in lm.softmaxes):
            raise CannotCompileError("some of its layers attend with sinks")
        self._embedding: Any = lm.model.get_input_embeddings()
        self._head: nn.Linear = lm.model.get_output_embeddings()
        self._dtype = lm.dtype
        kinds = tuple(getattr(decoder.rotary_emb, "layer_types", ()))  # of layers, where each has its own RoPE
        self._rotation = Rotation(lambda: decoder.rotary_emb, self._dtype, kinds)
        if len(buffers := lm.new_cache(1).buffers) > 1:
            raise CannotCompileError("its layers have heads of several sizes")
        *_, self._kv_heads, _, self._head_dim = buffers[0].shape
        self._width, self._vocabulary = self._embedding.embedding_dim, self._head.out_features
        if self._head_dim % 32:
            raise CannotCompileError(f"its heads have {self._head_dim} numbers, no multiple of 32")
        self._heads = decoder.layers[0].self_attn.q_proj.out_features // self._head_dim
        weights = Weights(lm.dtype)
        epsilon = epsilon_of(decoder.layers[0].input_layernorm)
        layers = (Layer * lm.layers)()
        for index, module in enumerate(decoder.layers):
            layers[index] = weights.layer(
                module, hidden=self._width, head_dim=self._head_dim, epsilon=epsilon, scale=lm.scales[index]
            )
            layers[index].rotates = int(getattr(module.self_attn, "use_rope", True))
            layers[index].cap = lm.softmaxes[index].softcap or 0
            layers[index].window = lm.windows[index] or 0
            layers[index].table = kinds.index(lm.config.layer_types[index]) if kinds else 0

        self._attends = tuple(zip(lm.scales, lm.windows, lm.softmaxes, strict=True))  # as in `LayerQueries`
        scale = getattr(self._embedding, "embed_scale", torch.ones(()))  # a tensor, rounded to the model's format
        self._c_layers, self._weights = layers, weights
        self._model = Model(
            bf16=int(lm.dtype == torch.bfloat16),
            exact=int(exact),
            layers=len(layers),
            hidden=self._width,
            heads=self._heads,
            kv_heads=self._kv_heads,
            head_dim=self._head_dim,
            rotated=self._rotation.dimensions,
            epsilon=epsilon,
            embedding_multiplier=lm.multipliers.embedding * float(scale.to(self._dtype)),
            residual_multiplier=lm.multipliers.residual,
            logits_divisor=lm.multipliers.logits,
            layer=ctypes.addressof(layers),
            vocabulary=self._embedding.num_embeddings,
            embedding=weights.embedding(self._embedding),
            final_norm=weights.norm(decoder.norm, epsilon, self._width),
            head=weights.matrix(self._head),
            logits_cap=getattr(lm.config, "final_logit_softcapping", None) or 0,
        )
        if self._head.bias is not None:
            raise CannotCompileError("its output layer has a bias")
        weights.check_complete(lm.model)
        if getattr(lm.config, "logit_scale", None) not in (None, 1):
            raise CannotCompileError(f"{type(lm.model).__name__} has logit_scale")

    def run(self, inputs: ForwardInput) -> ModelOutput | None:
        """See `ForwardBackend`."""
        (b, n), cache, context = inputs.tokens.shape, inputs.cache, inputs.context
        if isinstance(cache, KVCache) and context.backend is batched and b <= MOST_ROWS:
            return self._run(inputs, cache, 0)
        if not isinstance(cache, KVCache) or not isinstance(context.backend, SplitKV):
            return None
        tree, earlier = context.tree_mask, cache.start - cache.length
        if n > MOST_ROWS and (tree is not None or context.positions is not None):
            return None
        if tree is not None:
            earlier = tree.shape[1] - n
        return self._run(inputs, cache, earlier)

    def _run(self, inputs: ForwardInput, cache: KVCache, earlier: int) -> ModelOutput:
        (b, n), context = inputs.tokens.shape, inputs.context
        tokens, positions = inputs.tokens.contiguous(), inputs.positions.contiguous()
        tree = None if context.tree_mask is None else context.tree_mask.contiguous()
        dtype, buffer = self._dtype, cache.buffers[0]
        keep = n if b > 1 else min(inputs.logits_to_keep or n, n)
        logits = torch.empty(b, keep, self._vocabulary)
        layers = inputs.feature_layers
        numbers = (ctypes.c_int64 * len(layers))(*layers)
        features = torch.empty(b, n, len(layers) * self._width, dtype=dtype) if layers else None
        slots = cache if cache.is_batch else None
        wanted = sorted(context.record)
        asked = [torch.empty(b, self._heads, n, self._head_dim, dtype=dtype) for _ in wanted]
        queries = (ctypes.c_void_p * len(self._c_layers))()
        for layer, some in zip(wanted, asked, strict=True):
            queries[layer] = some.data_ptr()
        keys, strides = buffer.data_ptr(), buffer.stride()
        seen = ctypes.c_int64(cache.start - earlier)
        places = None if context.positions is None else context.positions.contiguous()
        step = Step(
            rows=n,
            sequences=b,
            is_prompt=int(n > MOST_ROWS),
            tokens=tokens.data_ptr(),
            positions=positions.data_ptr(),
            keys=keys,
            values=keys + strides[0] * buffer.element_size(),
            by_layer=strides[1],
            by_sequence=strides[2],
            by_head=strides[3],
            seen=slots.lengths.data_ptr() if slots else ctypes.addressof(seen),
            leader=slots.leader.data_ptr() if slots else None,
            common=slots.common.data_ptr() if slots else None,
            earlier=earlier,
            tree=None if tree is None else tree.data_ptr(),
            keep=keep,
            logits=logits.data_ptr(),
            features_given=None if features is None else features.data_ptr(),
            feature_layers=ctypes.addressof(numbers),
            feature_count=len(layers),
            queries=ctypes.addressof(queries),
            places=None if places is None else places.data_ptr(),
            placed=0 if places is None else len(places),
        )
        run_step(self._model, step, self._rotation, tokens, positions)
        for layer, some in zip(wanted, asked, strict=True):
            kept = some[0, :, -1:].clone() if context.record_last else some[0]  # a clone frees the others
            context.queries[layer] = LayerQueries(kept, *self._attends[layer])
        return ModelOutput(logits, features)


class Rotation:
    """RoPE's cosines and sines, float32 tables [kinds, positions, dimensions], by the model's own module."""

    def __init__(self, module: Callable[[], nn.Module], dtype: torch.dtype, kinds: Sequence[str] = ()) -> None:
        """`module` gives the present one: the benchmark exchanges it for prompts past the trained window.

        `kinds` of layers have a table each, in that order (Gemma 3); none: all share one.
        """
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


def run_step(model: Model, step: Step, rotation: Rotation, tokens: Tensor, positions: Tensor) -> None:
    """The forward of few rows, at `positions` from 0 on. IndexError, as torch raises, for tokens that do not exist."""
    cos, sin = rotation.up_to(0)
    use_threads()
    while True:
        step.cos, step.sin, step.turns = cos.data_ptr(), sin.data_ptr(), cos.shape[1]
        status = library().sx_forward(ctypes.byref(model), ctypes.byref(step))
        if status == 0:
            return
        if status == _NO_TOKEN:
            raise IndexError(f"tokens {tokens.flatten().tolist()} of a vocabulary of {model.vocabulary}")
        cos, sin = rotation.up_to(int(positions.max()))


def _trial(lm: LanguageModel) -> Tensor:
    """Logits of few rows of a prompt, at its end, then of one token and of a small tree.

    The library reads many rows at once after the few; the model itself goes on in few, which need not be unpacked.

    Tokens come from the middle of the vocabulary: the first ones are special, and after them rounding to bfloat16 alone
    changes logits by more than their size.
    """
    tokens = (torch.arange(3 * MOST_ROWS + 4) * 97 + lm.vocabulary // 3) % lm.vocabulary
    prompt, nodes = tokens[:-3], DraftTree(tokens[-3:].tolist(), [0, 0, 0], [1.0] * 3).on("cpu")
    cache = lm.new_cache(len(prompt) + 3)
    few, *rest = torch.arange(len(prompt)).split(MOST_ROWS)
    read = []
    for chunk in (few, torch.cat(rest)) if lm.forward_backend else (few, *rest):
        read.append(lm.forward(prompt[chunk], chunk, cache, logits_to_keep=1).logits)
        cache.commit()
    one = lm.forward(tokens[-3:-2], torch.tensor([len(prompt)]), cache).logits
    cache.rollback()
    context = ForwardContext(lm.backend, nodes.mask)
    several = lm.forward(nodes.tokens, len(prompt) + nodes.depths, cache, context=context).logits
    return torch.cat((read[0], read[-1], one, several)).float()
