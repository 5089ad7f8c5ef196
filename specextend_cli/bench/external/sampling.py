"""Our sampler inside another program's loop, so that external programs decode with exactly our settings.

`engine.sampling` depends only on the tokens so far. Its choice is passed on as the likeliest token, so that sampled
output, too, can be compared token for token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.sampling import Sampler


def is_plain_greedy(sampling: Sampling) -> bool:
    """Whether the largest logit is chosen, so that the program's own greedy decoding gives the same."""
    return sampling.greedy and sampling.repetition_penalty == 1.0 and not sampling.no_repeat_ngram


def choose(sampling: Sampling, prompt: Sequence[int], output: Sequence[int], logits: Tensor) -> int:
    """The next token after `prompt` and `output`, from logits [vocabulary]."""
    sampler = Sampler(sampling, prompt, logits.device)
    if output:
        sampler.commit(output)
    return int(sampler.choose(logits[None]))


class OurChoice:
    """A logits processor of transformers that makes our choice the likeliest token, and no token impossible.

    Prompt lookup passes equal made-up scores to learn which tokens are impossible; those are returned as they are.
    """

    def __init__(self, sampling: Sampling, prompt: Sequence[int]) -> None:
        self.sampling = sampling
        self.prompt = list(prompt)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """input_ids [1, t], scores [1, vocabulary] -> scores [1, vocabulary]."""
        low, high = scores.aminmax()
        if low == high:
            return scores
        token = choose(self.sampling, self.prompt, input_ids[0, len(self.prompt) :].tolist(), scores[0])
        first = torch.zeros_like(scores)
        first[0, token] = 1.0
        return first
