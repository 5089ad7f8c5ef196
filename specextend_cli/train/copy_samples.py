"""Copy samples: prompts whose answer is made of passages of their document, so that the head learns to copy.

The target's answers are mostly its own words, and a head trained on them alone does not learn to attend to the
document. A copy sample needs no generation: one forward of the target gives its distribution at every token.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from specextend_cli.train.samples import Frame, Sample, cut

_SHORTEST, _LONGEST = 4, 96  # tokens of a passage


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
