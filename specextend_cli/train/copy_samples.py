"""Answers that nobody had to write: passages quoted from the text that was asked about, for a head to learn copying.

What a target writes about a text is mostly its own words, and a head trained on that alone does not learn to look at
the text. Quoting it costs one reading, and the target, which is good at going on with what it has read, says itself
how sure it would have been of every token.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from specextend_cli.train.samples import Frame, Sample, cut

_SHORTEST, _LONGEST = 4, 96  # tokens of a passage


def quotes(
    documents: Sequence[Sequence[int]], frame: Frame, lengths: Sequence[int], tokens: int, count: int, seed: int
) -> list[Sample]:
    """`count` prompts about excerpts of `lengths`, the shorter the more often, answered by `tokens` of quotations."""
    usable = [length for length in lengths if any(len(document) >= length for document in documents)]
    order = random.Random(seed)
    drawn = order.choices(usable, [1 / length for length in usable], k=count)
    samples = []
    for length in usable:
        fitting = [document for document in documents if len(document) >= length]
        for excerpt in cut(fitting, (length,), drawn.count(length), seed + length):
            prompt = frame.around(excerpt)
            said = _quoted(excerpt, frame.leads, tokens, order)
            # As in answers: what follows the last token is known without it.
            samples.append(Sample([*prompt, *said[:-1]], len(prompt) - 2, output=len(prompt)))
    order.shuffle(samples)
    return samples


def _quoted(excerpt: Sequence[int], leads: Sequence[Sequence[int]], tokens: int, order: random.Random) -> list[int]:
    """Passages in random order, of lengths that are as often short as long, some of them introduced."""
    said: list[int] = []
    while len(said) < tokens:
        said += order.choice(leads) if leads else ()
        length = round(math.exp(order.uniform(math.log(_SHORTEST), math.log(_LONGEST))))
        at = order.randrange(max(len(excerpt) - length, 1))
        said += excerpt[at : at + length]
    return said[:tokens]
