"""How well a head drafts, on what it never learnt from: answers and quotes, apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specextend_cli.engine.config import Sampling
from specextend_cli.engine.head import EagleHead
from specextend_cli.engine.lm import LanguageModel
from specextend_cli.errors import InputError
from specextend_cli.train.hidden_states import StateFile
from specextend_cli.train.samples import Sample
from specextend_cli.train.target_logits import precision, states_of, targets_of, unrolled


@dataclass(frozen=True)
class HeldOut:
    """What a head is measured on, apart: answers and, where there are some, quotes.

    `share` is that of the quotes in the score by which the best head is chosen; the rest is the answers'.
    """

    answers: Sequence[Sample]
    quotes: Sequence[Sample] = ()
    share: float = 0.0

    def score(self, accepted: float, quoted: float | None) -> float:
        """The mean of both accepted lengths."""
        return accepted if quoted is None else (1 - self.share) * accepted + self.share * quoted


@torch.no_grad()
def validate(
    lm: LanguageModel,
    head: EagleHead,
    samples: Sequence[Sample],
    steps: int,
    file: StateFile | None = None,
    sampling: Sampling | None = None,
) -> tuple[tuple[float, ...], float]:
    """Agreement with the target's likeliest token by depth, and about the accepted length of a chain, bonus included.

    An estimate, teacher-forced: each depth is fed the sample's own tokens, not those that the head drafted before it.
    """
    right = torch.zeros(steps)
    rows = torch.zeros(steps)
    chains, starts = 0.0, 0
    for sample in samples:
        states = states_of(lm, head, sample, file)
        likeliest = targets_of(lm, sample, states, sampling).argmax(-1).cpu()
        hits = []
        for step, out in enumerate(unrolled(lm, head, sample, states, steps)):
            with precision(lm):
                logits = head.lm_head(out)
            hit = (head.vocabulary[logits.argmax(-1)].cpu() == likeliest[step:]).float()
            right[step] += hit.sum()
            rows[step] += len(hit)
            hits.append(hit)
        # Step k has lost k rows at its left, so that its j-th row ends the chain that starts at the j-th row of step 0.
        whole = len(hits[-1])
        alive = torch.ones(whole)
        for hit in hits:
            alive = alive * hit[:whole]
            chains += float(alive.sum())
        starts += whole
    agreement = tuple((right / rows.clamp(min=1)).tolist())
    return agreement, 1.0 + chains / max(starts, 1)


def fitting(samples: Sequence[Sample], unroll: int) -> list[Sample]:
    """Those in which `unroll` steps fit."""
    return [sample for sample in samples if sample.rows >= unroll]


def too_short(purpose: str, unroll: int) -> InputError:
    """What is raised where none fit."""
    return InputError(
        f"there is no text {purpose}",
        why=f"{unroll} steps of training do not fit into any answer or excerpt",
        fix="longer documents, longer --lengths, or a smaller --unroll",
    )
