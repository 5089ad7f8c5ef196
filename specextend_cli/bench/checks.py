"""Are the tokens those of plain decoding? Where not, how near the choice was."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specextend_cli.bench.measure import Decoding
from specextend_cli.bench.prefilled import Prefilled
from specextend_cli.bench.records import Divergence
from specextend_cli.bench.statistics import first_difference
from specextend_cli.engine.sampling import Sampler

TOLERANCE = 1.0
"""The largest gap, in logits, that rounding may turn over in half precision.

A bfloat16 number has eight significant bits, so logits between 16 and 32 are 1/8 apart; a tree's matrix products
round otherwise than a single token's in every layer, and eight such steps leave room for the layers' errors to add up.
A wrong implementation turns over gaps of any size; the typical gap is several logits.
"""


def divergence(
    target: Prefilled, prompt: Sequence[int], plain: Sequence[int], other: Sequence[int], decoding: Decoding
) -> Divergence | None:
    """Where `other` leaves `plain`, the target's own continuation of `prompt`; None where they are equal."""
    index = first_difference(plain, other)
    if index is None:
        return None
    return Divergence(index, gap(target, prompt, plain, index, decoding) if index < len(plain) else None)


@torch.inference_mode()
def gap(target: Prefilled, prompt: Sequence[int], plain: Sequence[int], index: int, decoding: Decoding) -> float:
    """How far the two best choices for token `index` lie apart after `prompt` and the tokens of `plain` before it.

    In logits, penalties included; when sampling, in the logarithms that the race compares.
    """
    device = target.lm.device
    target.begin(len(prompt) + len(plain) + 1)
    for at in range(0, len(prompt), decoding.prefill_chunk):
        out = target.prefill(torch.tensor(prompt[at : at + decoding.prefill_chunk], device=device))
    logits = out.logits
    sampler = Sampler(decoding.sampling, prompt, device)
    if index:
        # The tokens before it, read like a prompt: what plain decoding computed one by one, in one forward.
        logits = target.prefill(torch.tensor(plain[:index], device=device)).logits
        sampler.commit(plain[:index])
    best = sampler.ranking(logits)[0].topk(2).values
    if not decoding.sampling.greedy:
        best = best.log()
    return float(best[0] - best[1])


def is_wrong(found: Divergence | None, *, exact: bool) -> bool:
    """Whether a divergence of a method that claims to be lossless cannot be rounding."""
    if found is None:
        return False
    return exact or found.gap is None or found.gap > TOLERANCE
