"""The samples to train on and to measure on: answers of the target, document text, copy samples."""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.train.config import Distillation
from specextend_cli.train.copy_samples import copy_samples
from specextend_cli.train.samples import Frame, Sample, cut

_HELD_OUT_COPIES = 8
_TEXTS = 64  # plain texts, at least


def training_mix(
    answers: Sequence[Sample], documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation
) -> list[tuple[float, list[Sample]]]:
    """Answers, plain text and copy samples, each with its share of the draws.

    Plain text starts with the prompts of the answers, whose hidden states are on disk already.
    """
    seed = plan.schedule.seed + 3
    prompts = list({answer.states[:1]: _prompt(answer) for answer in answers if answer.states}.values())
    plain = max(round(plan.text * len(answers)), _TEXTS)
    excerpts = cut(documents, plan.lengths, max(plain - len(prompts), 0), seed)
    return [
        (max(1 - plan.text - plan.quotes, 0.0), list(answers)),
        (plan.text, [*prompts, *(Sample(tokens, 0) for tokens in excerpts)]),
        (plan.quotes, copy_samples(documents, frame, plan.lengths, plan.quoted, plan.quotations, seed + 3)),
    ]


def held_out_copies(documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation) -> list[Sample]:
    """Copy samples that are never trained on."""
    if not plan.quotes:
        return []
    return copy_samples(documents, frame, plan.lengths, plan.quoted, _HELD_OUT_COPIES, plan.schedule.seed + 5)


def _prompt(answer: Sample) -> Sample:
    """The prompt of an answer as plain text."""
    return Sample(answer.tokens[: answer.start + 2], 0, answer.states[:1])


def held_out_excerpts(documents: Sequence[Sequence[int]], plan: Distillation) -> list[Sample]:
    """Plain text that is never trained on, with as many rows of loss as in training."""
    excerpts = cut(documents, plan.lengths, plan.held_out, plan.schedule.seed + 4)
    return [Sample(tokens, max(len(tokens) - 1 - plan.schedule.rows, 0)) for tokens in excerpts]


def sample_prompts(
    documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation, number: int, seed: int
) -> list[list[int]]:
    """Prompts in batches of one length, so that a batch needs no padding."""
    prompts: list[list[int]] = []
    for at, length in enumerate(plan.lengths):
        share = number // len(plan.lengths) + (at < number % len(plan.lengths))
        fitting = [document for document in documents if len(document) >= length]
        if fitting and share:
            prompts += [frame.around(excerpt) for excerpt in cut(fitting, (length,), min(share, 4096), seed + at)]
    return prompts
