"""The samples to train on and to measure on: answers of the target, document text, copy samples.

A copy sample is a prompt whose answer is made of passages of its document, so that the head learns to copy: the
target's answers are mostly its own words, and a head trained on them alone does not learn to attend to the document. It
needs no generation: one forward of the target gives its distribution at every token.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from specextend_cli.train.config import Distillation
from specextend_cli.train.samples import Frame, Sample, cut
from specextend_cli.train.storage import StateFiles

_SHORTEST, _LONGEST = 4, 96  # tokens of a passage
_HELD_OUT_COPIES = 8
_TEXTS = 64  # plain texts, at least


def training_mix(
    answers: Sequence[Sample],
    documents: Sequence[Sequence[int]],
    frame: Frame,
    plan: Distillation,
    files: StateFiles,
) -> list[tuple[float, list[Sample]]]:
    """Answers, plain text and copy samples, each with its share of the draws.

    Plain text starts with the prompts of the answers whose hidden states are on disk already.
    """
    seed = plan.schedule.seed + 3
    prompts = [
        prompt for prompt in dict.fromkeys(tuple(one.tokens[: one.output]) for one in answers) if files.has(prompt)
    ]
    plain = max(round(plan.text * len(answers)), _TEXTS)
    excerpts = cut(documents, plan.lengths, max(plain - len(prompts), 0), seed)
    return [
        (max(1 - plan.text - plan.quotes, 0.0), list(answers)),
        (plan.text, [Sample(list(tokens), 0) for tokens in (*prompts, *excerpts)]),
        (plan.quotes, copy_samples(documents, frame, plan.lengths, plan.quoted, plan.quotations, seed + 3)),
    ]


def held_out_copies(documents: Sequence[Sequence[int]], frame: Frame, plan: Distillation) -> list[Sample]:
    """Copy samples that are never trained on."""
    if not plan.quotes:
        return []
    return copy_samples(documents, frame, plan.lengths, plan.quoted, _HELD_OUT_COPIES, plan.schedule.seed + 5)


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


def copy_samples(
    documents: Sequence[Sequence[int]], frame: Frame, lengths: Sequence[int], tokens: int, count: int, seed: int
) -> list[Sample]:
    """`count` prompts about excerpts of `lengths`, shorter ones more often, each with `tokens` of passages."""
    usable = [length for length in lengths if any(len(document) >= length for document in documents)]
    order = random.Random(seed)
    drawn = order.choices(usable, [1 / length for length in usable], k=count)
    samples = []
    for length in usable:
        fitting = [document for document in documents if len(document) >= length]
        for excerpt in cut(fitting, (length,), drawn.count(length), seed + length):
            prompt = frame.around(excerpt)
            said = _quoted(excerpt, frame.leads, tokens, order)
            # As in answers: the last token is no input of the head.
            samples.append(Sample([*prompt, *said[:-1]], len(prompt) - 2, output=len(prompt)))
    order.shuffle(samples)
    return samples


def _quoted(excerpt: Sequence[int], leads: Sequence[Sequence[int]], tokens: int, order: random.Random) -> list[int]:
    """Passages in random order, their lengths log-uniform, each after one of `leads`."""
    said: list[int] = []
    while len(said) < tokens:
        said += order.choice(leads) if leads else ()
        length = round(math.exp(order.uniform(math.log(_SHORTEST), math.log(_LONGEST))))
        at = order.randrange(max(len(excerpt) - length, 1))
        said += excerpt[at : at + length]
    return said[:tokens]
