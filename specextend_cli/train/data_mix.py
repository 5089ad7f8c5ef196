"""What a head learns from and what it is measured on, of the documents and the target's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specextend_cli.train.copy_samples import quotes
from specextend_cli.train.samples import Frame, Sample, cut

if TYPE_CHECKING:
    from specextend_cli.train.distill import Distillation

_HELD_QUOTES = 8
_TEXTS = 64  # plain texts, at least


def kinds_of(
    answers: Sequence[Sample], documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation
) -> list[tuple[float, list[Sample]]]:
    """Answers, plain text and quotes, each with its share of the draws.

    Plain text is, first of all, that of the prompts: what the target thought of it is known already.
    """
    seed = plan.schedule.seed + 3
    prompts = list({answer.states[:1]: _prompt(answer) for answer in answers if answer.states}.values())
    plain = max(round(plan.text * len(answers)), _TEXTS)
    excerpts = cut(documents, plan.lengths, max(plain - len(prompts), 0), seed)
    return [
        (max(1 - plan.text - plan.quotes, 0.0), list(answers)),
        (plan.text, [*prompts, *(Sample(tokens, 0) for tokens in excerpts)]),
        (plan.quotes, _quoting(documents, frame, plan, plan.quotations, seed + 3)),
    ]


def _quoting(
    documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation, count: int, seed: int
) -> list[Sample]:
    return quotes(documents, frame, plan.lengths, plan.quoted, count, seed)


def held_quotes(documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation) -> list[Sample]:
    """Quotes that are never trained on."""
    return _quoting(documents, frame, plan, _HELD_QUOTES, plan.schedule.seed + 5) if plan.quotes else []


def _prompt(answer: Sample) -> Sample:
    """What an answer answers, as text to learn from."""
    return Sample(answer.tokens[: answer.start + 2], 0, answer.states[:1])


def held_excerpts(documents: Sequence[Sequence[int]], plan: Distillation) -> list[Sample]:
    """Plain text that is never trained on, no more rows of each than training reads."""
    excerpts = cut(documents, plan.lengths, plan.held_out, plan.schedule.seed + 4)
    return [Sample(tokens, max(len(tokens) - 1 - plan.schedule.rows, 0)) for tokens in excerpts]


def prompts_of(
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
