"""An EAGLE head whose forward of few rows is one call of the native library.

Prompts, training and other machines run the head's own modules.
"""

from __future__ import annotations

import ctypes
from functools import partial

import torch
from torch import Tensor

from specextend_cli.engine.attention.function import ForwardContext
from specextend_cli.engine.attention.split_kv import SplitKV
from specextend_cli.engine.cache import KVCache
from specextend_cli.engine.cpu.native_model import Rotation, install, run_step
from specextend_cli.engine.cpu.native_weights import Weights
from specextend_cli.engine.forward import ForwardBackend, ForwardInput, HeadOutput
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.mtp import MtpHead
from specextend_cli.engine.native import CannotCompileError
from specextend_cli.engine.native.kernels import FORMATS
from specextend_cli.engine.native.shared_library import Layer, Model, Step
from specextend_cli.engine.packed import MOST_ROWS


def run_natively(head: EagleHead, *, exact: bool = False) -> None:
    """Let `head`, on a CPU, run by the native library, which is loaded. `exact`: see `native_model.run_natively`.

    CannotCompileError where it cannot, or where it does not compute what the head does.
    """
    if isinstance(head, MtpHead):
        raise CannotCompileError("a multi-token prediction layer runs by torch's kernels")
    weight = head.fc.weight
    if weight.device.type != "cpu" or weight.dtype not in FORMATS or head.config.head_dim % 32:
        raise CannotCompileError(f"there is no native forward for {weight.device.type}, {weight.dtype} or its heads")
    exact = exact and weight.dtype == torch.float32
    install(head, partial(NativeHead, head, exact=exact), partial(_trial, head), rounds=not exact)


class NativeHead(ForwardBackend[HeadOutput]):
    """A head's `ForwardBackend`."""

    most_rows = MOST_ROWS

    def __init__(self, head: EagleHead, *, exact: bool) -> None:
        config, self._dtype = head.config, head.fc.weight.dtype
        self._embedding, self._draft_vocabulary = head.embedding, head.lm_head.out_features
        self._rotation = Rotation(lambda: head.rotary, self._dtype)
        weights = Weights(self._dtype)
        layers = (Layer * config.layers)()
        for index, module in enumerate(head.layers):
            layers[index] = weights.layer(
                module,
                hidden=config.hidden,
                head_dim=config.head_dim,
                epsilon=config.eps,
                scale=config.head_dim**-0.5,
            )
            layers[index].residual_is_normed = int(config.norm_before_residual)
        if head.embedding.embedding_dim != config.hidden:
            raise CannotCompileError("its embedding has another width than its states")
        self._layers, self._weights = layers, weights
        self._model = Model(
            bf16=int(self._dtype == torch.bfloat16),
            exact=int(exact),
            layers=config.layers,
            hidden=config.hidden,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            rotated=self._rotation.dimensions,
            epsilon=config.eps,
            embedding_multiplier=1,
            residual_multiplier=1,
            logits_divisor=1,
            layer=ctypes.addressof(layers),
            vocabulary=head.embedding.num_embeddings,
            embedding=weights.embedding(head.embedding),
            final_norm=weights.norm(head.norm, config.eps, config.hidden),
            feeds_normed=int(config.feeds_normed),
            head=weights.matrix(head.lm_head),
        )
        if config.generation == 1:
            self._model.joined = weights.matrix(head.fc)
        self.takes_features = config.generation == 3 and not (config.norm_before_fc or config.fc_norm)
        if self.takes_features:
            self._model.fused = weights.matrix(head.fc)
        norms = [part for name, part in head.named_children() if name in ("input_norm", "fc_norm")]
        weights.check_complete(head, head.embedding, head.fc, *norms)  # these make the states that it reads

    def run(self, inputs: ForwardInput) -> HeadOutput | None:
        """See `ForwardBackend`. The rows are a tree's, over at least one committed row."""
        cache, mask, n = inputs.cache, inputs.context.tree_mask, len(inputs.tokens)
        read = inputs.states if inputs.features is None else inputs.features
        if not isinstance(cache, KVCache) or not isinstance(inputs.context.backend, SplitKV) or read is None:
            return None
        rows = cache.end - cache.length  # of the tree so far, these included
        if cache.length == 0 or n > MOST_ROWS or (rows != n if mask is None else mask.shape != (n, rows)):
            return None
        tokens, positions, read = inputs.tokens.contiguous(), inputs.positions.contiguous(), read.contiguous()
        tree, seen = None if mask is None else mask.contiguous(), ctypes.c_int64(cache.length)
        keep = min(inputs.logits_to_keep or n, n)
        logits = torch.empty(keep, self._draft_vocabulary)
        after = torch.empty(n, self._model.hidden, dtype=self._dtype)
        keys, values = cache.buffers[0]
        step = Step(
            rows=n,
            sequences=1,
            tokens=tokens.data_ptr(),
            positions=positions.data_ptr(),
            states=read.data_ptr() if inputs.features is None else None,
            features=None if inputs.features is None else read.data_ptr(),
            keys=keys.data_ptr(),
            values=values.data_ptr(),
            by_layer=keys.stride(0),
            by_head=keys.stride(2),
            seen=ctypes.addressof(seen),
            earlier=rows - n,
            tree=None if tree is None else tree.data_ptr(),
            keep=keep,
            logits=logits.data_ptr(),
            after=after.data_ptr(),
        )
        run_step(self._model, step, self._rotation, tokens, positions)
        return HeadOutput(logits, after)


@torch.inference_mode()
def _trial(head: EagleHead) -> Tensor:
    """Logits of one row after some committed ones, then of three rows of a tree beside it."""
    config, dtype, rows = head.config, head.fc.weight.dtype, 40
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    tokens, states = torch.arange(4) % head.embedding.num_embeddings, random(4, config.hidden)
    cache, found = head.new_cache(rows + 4), []
    cache.append([random(2, config.layers, 1, config.kv_heads, rows, config.head_dim)])
    tree = torch.tensor([[True, True, False, False], [False, False, True, False], [True, False, False, True]])
    for at, mask in ((torch.arange(1), None), (torch.arange(1, 4), tree)):
        cache.reserve(len(at))
        context = ForwardContext(SplitKV(), mask)
        found.append(head(tokens[at], states[at], rows + at, cache, context).logits.float())
    return torch.cat(found)
