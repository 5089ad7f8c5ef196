"""A block head of few launches: its layers over rows of context, which only leave keys and values, and the block's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specextend_cli.engine.attention.triton_tree import WORD, Window
from specextend_cli.engine.block_head import BlockHead
from specextend_cli.engine.cuda import fused_ops
from specextend_cli.engine.cuda.fused import CannotFuseError, Decoder, Rotary, Weights
from specextend_cli.engine.cuda.step import WORDS, StepInputs, StepOutput


class FusedBlock:
    """A block head's `Step`, of `depth` tokens in a row: `logits` [depth, draft vocabulary] and `states`.

    The last rows of its inputs are the block's, in order, those before it context, whose fused states are the inputs'
    first ones; the block's go behind them. Words are not read: what sees what within a block is the head's own.
    """

    def __init__(self, head: BlockHead, depth: int) -> None:
        config, weights = head.config, Weights()
        if config.block > WORD:
            raise CannotFuseError(f"a block of {config.block} rows is more than {WORD}")
        self._head, self._config, self._depth = head, config, depth
        self._rotary = Rotary(head, "rotary")
        self.is_current = self._rotary.is_current
        scale, sizes = config.head_dim**-0.5, (config.hidden, config.head_dim)
        modules: Any = head.layers
        layers = [
            weights.layer(module, self._rotary.rope, scale, module.self_attn.window, *sizes) for module in modules
        ]
        first = layers[0].attention_norm
        assert first is not None
        self._first_norm = first
        self._decoder = Decoder(layers, config.heads, config.kv_heads)
        self._norm = weights.norm(head.norm, config.hidden)
        beside: list[Any] = [head.embedding, head.fc, head.hidden_norm, head.lm_head]
        for part in (*beside, head.markov_head, head.confidence_head):
            if part is not None:
                weights.read(part)
        weights.check_complete(head)
        self._words = {True: self._mask(range(1, config.block + 1)), False: self._mask([config.block] * config.block)}

    def __call__(self, inputs: StepInputs) -> StepOutput:
        """See `Step`."""
        head, config, states = self._head, self._config, inputs.states
        assert states is not None
        context, rows = len(states) - config.block, config.block
        x = head.embedding.weight[inputs.tokens[context:]].to(states.dtype)
        fused_ops.add_norm(x, None, self._first_norm, out=states[context:])
        at, layers, seen = (inputs.place, inputs.lengths), self._decoder.layers, dict[tuple[bool, int], Window]()
        for causal, layer in zip(config.is_causal, layers, strict=True):
            if (size := layer.window) is not None and (causal, size) not in seen:
                seen[causal, size] = Window(size, fused_ops.first_keys(size, rows, *at, self._words[causal]))

        def attend(q: Tensor, index: int) -> Tensor:
            causal, layer = config.is_causal[index], layers[index]
            words, window = self._words[causal], None if layer.window is None else seen[causal, layer.window]
            return fused_ops.attend_placed(q, q, layer.scale, *at, index, config.kv_heads, words=words, window=window)

        *_, (_, normed, _) = self._decoder.run(x, states, self._norm, inputs, attend)
        first = not config.predicts_next
        predicting = normed[first : first + self._depth]
        return StepOutput(head.lm_head(predicting), (predicting,))

    def _mask(self, seen: Sequence[int]) -> Tensor:
        """Words [rows, WORDS] of rows that see so many of the block's first ones."""
        bits = [(1 << n) - 1 for n in seen]
        words = [[word - (word >> WORD - 1 << WORD), *[0] * (WORDS - 1)] for word in bits]
        return torch.tensor(words, device=self._head.fc.weight.device)
