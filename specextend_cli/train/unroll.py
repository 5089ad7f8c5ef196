"""Training-time test (EAGLE-3, arXiv 2503.01840, section 3): the head is trained on its own outputs, as it drafts.

Row i of step 0 joins the target's state at position i with token i + 1 and predicts token i + 2. Row i of step k reads,
instead of the target's state, the head's own output of step k - 1 at row i - 1; it sees the rows of step 0 up to i - k,
and of every later step m the one row i - k + m that led to it: exactly what a chain of k drafts sees.

Every step computes all rows, though the first k rows of a text mean nothing in step k: matrices keep their sizes, for
each of which oneDNN prepares a kernel, which takes as long as the product itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache

from specextend_cli.engine.attention import ForwardContext
from specextend_cli.engine.head import EagleHead
from specextend_cli.train.chain_attention import ChainAttention, MaskedAttention

_MULTIPLE = 64  # of which the number of rows is one, so that few sizes occur


@dataclass(frozen=True)
class Rows:
    """The rows of texts that share a prompt: the prompt's, then the rows of loss, one text after another, padded.

    `tokens` [p + r] follow each row; `features` [p + r, width] are the target's there. `numbers` [r] counts the rows of
    loss within their text; padding has -1. Row i has a prediction in step k if its number is at least k.
    """

    tokens: Tensor
    features: Tensor
    numbers: Tensor

    @property
    def prompt(self) -> int:
        """Rows before the rows of loss."""
        return len(self.tokens) - len(self.numbers)

    def visible(self, step: int) -> Tensor:
        """Which rows of loss of step 0 those of `step` see [r, r]: of the same text, `step` places before or more."""
        text = (self.numbers == 0).cumsum(0)
        return (text[:, None] == text).tril_(-step)


def join(texts: Sequence[Tensor], features: Sequence[Tensor], start: int) -> Rows:
    """Texts of tokens [n], equal up to token `start`, with the target's features [n, width]; losses from row `start`.

    The last token of a text is only predicted.
    """
    numbers = torch.cat([torch.arange(len(text) - 1 - start, device=text.device) for text in texts])
    following = torch.cat([text[1 + start :] for text in texts])
    read = torch.cat([some[start:-1] for some in features])
    return Rows(
        torch.cat((texts[0][1 : 1 + start], padded(following))),
        torch.cat((features[0][:start], padded(read))),
        padded(numbers, -1),
    )


def padded(rows: Tensor, value: int = 0) -> Tensor:
    """Rows [r, ...] with rows of `value` behind them, as `Rows` has them."""
    return torch.cat((rows, rows.new_full((-len(rows) % _MULTIPLE, *rows.shape[1:]), value)))


def unroll(head: EagleHead, rows: Rows, steps: int) -> list[Tensor]:
    """The inputs of `head.lm_head` in every step, each [r, hidden]; in step k, rows of a number less than k are void.

    Gradients reach every parameter of the head that is not the target's. ValueError when the last step has no row.
    """
    longest = int(rows.numbers.max()) + 1 if len(rows.numbers) else 0
    if steps > longest:
        raise ValueError(f"{steps} steps do not fit into {longest} rows")
    prompt = rows.prompt
    cache = DynamicCache()  # the keys and values of all steps, with their gradients
    fused = head.fuse(rows.features)
    positions = torch.arange(prompt, device=rows.tokens.device)
    if prompt:
        head.remember(rows.tokens[:prompt], fused[:prompt], positions, cache, ForwardContext(MaskedAttention()))
    embeddings, places = head.embedding(rows.tokens[prompt:]), prompt + rows.numbers.clamp(min=0)
    states, outputs = fused[prompt:], []
    for step in range(steps):
        context = ForwardContext(ChainAttention(rows.visible(step), step))
        normed, states = head.advance(embeddings, states, places, cache, context)
        outputs.append(normed)
        states = states.roll(1, 0)
    return outputs
