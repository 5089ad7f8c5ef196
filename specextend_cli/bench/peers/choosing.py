"""Our choice of tokens inside another program's loop, so that peers decode with exactly the same settings.

The race of `engine.sampling` needs nothing but the tokens so far: what it chooses is handed on as the only possible
token. So a sampled output, too, can be compared token for token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.sampling import Sampler


def is_plain_greedy(sampling: Sampling) -> bool:
    """Whether the largest logit is taken as it is, so that a peer's own greedy decoding serves."""
    return sampling.greedy and sampling.repetition_penalty == 1.0 and not sampling.no_repeat_ngram


def choose(sampling: Sampling, prompt: Sequence[int], output: Sequence[int], logits: Tensor) -> int:
    """The next token after `prompt` and `output`, from logits [vocabulary]."""
    sampler = Sampler(sampling, prompt, logits.device)
    if output:
        sampler.commit(output)
    return int(sampler.choose(logits[None]))


class OnlyChoice:
    """A logits processor of transformers: everything but our choice becomes impossible."""

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        self.sampling = sampling
        self.prompt = list(prompt)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """input_ids [1, t], scores [1, vocabulary] -> scores [1, vocabulary]."""
        token = choose(self.sampling, self.prompt, input_ids[0, len(self.prompt) :].tolist(), scores[0])
        only = torch.full_like(scores, -torch.inf)
        only[0, token] = 0.0
        return only
