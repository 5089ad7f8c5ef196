"""The quality of a head on held-out answers and, separately, held-out copy samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specextend_cli.engine.head import EagleHead
from specextend_cli.errors import InputError
from specextend_cli.train.samples import Sample, by_prompt
from specextend_cli.train.target_logits import TargetReader

_ROWS = 1024  # rows of loss at once


@dataclass(frozen=True)
class HeldOut:
    """Held-out answers and copy samples (`quotes`).

    `share` is the weight of the copy samples in the score that the best head has; the answers have the rest.
    """

    answers: Sequence[Sample]
    quotes: Sequence[Sample] = ()
    share: float = 0.0

    def score(self, accepted: float, quoted: float | None) -> float:
        """The weighted mean of both accepted lengths."""
        return accepted if quoted is None else (1 - self.share) * accepted + self.share * quoted


@torch.no_grad()
def validate(
    target: TargetReader, head: EagleHead, samples: Sequence[Sample], steps: int
) -> tuple[tuple[float, ...], float]:
    """Agreement with the target's most likely token by depth, and the estimated accepted length, bonus included.

    The estimate is for chains of `steps` drafts, and teacher-forced: each depth is fed the sample's own tokens.
    """
    right, counted = torch.zeros(steps), torch.zeros(steps)
    chains, starts = 0.0, 0
    for group in by_prompt(samples, _ROWS):
        states = [target.states(sample) for sample in group]
        likeliest = target.logits(group, states).argmax(-1)
        rows, outputs = target.unroll(head, group, states, steps)
        numbers = rows.numbers
        # Chains begin where as many rows of the same text follow.
        whole = (numbers >= 0) & (numbers.roll(1 - steps) == numbers + steps - 1)
        starts += int(whole.sum())
        for step, out in enumerate(outputs):
            with target.precision:
                logits = head.lm_head(out)
            hit = (head.vocabulary[logits.argmax(-1)] == likeliest) & (numbers >= step)
            right[step] += float(hit.sum())
            counted[step] += float((numbers >= step).sum())
            whole &= hit.roll(-step)
            chains += float(whole.sum())
    agreement = tuple((right / counted.clamp(min=1)).tolist())
    return agreement, 1.0 + chains / max(starts, 1)


def fitting(samples: Sequence[Sample], unroll: int) -> list[Sample]:
    """The samples that are long enough for `unroll` steps."""
    return [sample for sample in samples if sample.rows >= unroll]


def too_short(purpose: str, unroll: int) -> InputError:
    """The error for no sample being long enough."""
    return InputError(
        f"there is no text {purpose}",
        why=f"{unroll} steps of training do not fit into any answer or excerpt",
        fix="longer documents, longer --lengths, or a smaller --unroll",
    )
