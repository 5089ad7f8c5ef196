"""Whether a method's tokens are plain decoding's; if not, how close the two best logits were."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.prefilled import Prefilled, read
from specextend_cli.bench.records import Divergence
from specextend_cli.bench.statistics import first_difference
from specextend_cli.engine.sampling import Sampler

TOLERANCE = 1.0
"""The largest gap, in logits, that rounding may reverse in half precision.

A bfloat16 number has eight significant bits, so logits between 16 and 32 are 1/8 apart; a tree's matrix products
round otherwise than a single token's in every layer, and eight such steps leave room for the layers' errors to add up.
A wrong implementation reverses gaps of any size; the typical gap is several logits.
"""


def divergence(
    target: Prefilled, prompt: Sequence[int], plain: Sequence[int], other: Sequence[int], decoding: Decoding
) -> Divergence | None:
    """The first difference of `other` from `plain`, plain decoding's continuation of `prompt`; None if equal."""
    index = first_difference(plain, other)
    if index is None:
        return None
    return Divergence(index, gap(target, prompt, plain, index, decoding) if index < len(plain) else None)


@torch.inference_mode()
def gap(target: Prefilled, prompt: Sequence[int], plain: Sequence[int], index: int, decoding: Decoding) -> float:
    """The difference of the two best choices for token `index`, after `prompt` and `plain[:index]`.

    In logits, penalties included; for sampling, in logarithms of the scores that the sampler compares.
    """
    logits = read(target, prompt, decoding.prefill_chunk, room=len(plain) + 1).logits
    sampler = Sampler(decoding.sampling, prompt, target.lm.device)
    if index:
        # The tokens before it, in one forward instead of one by one.
        logits = target.prefill(torch.tensor(plain[:index], device=target.lm.device)).logits
        sampler.commit(plain[:index])
    best = sampler.ranking(logits)[0].topk(2).values
    if not decoding.sampling.greedy:
        best = best.log()
    return float(best[0] - best[1])


def is_wrong(found: Divergence | None, *, exact: bool) -> bool:
    """Whether a lossless method's divergence cannot be rounding."""
    if found is None:
        return False
    return exact or found.gap is None or found.gap > TOLERANCE
