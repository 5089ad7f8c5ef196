"""The draft's vocabulary: the most frequent tokens, so that the output head stays small."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from specextend_cli.train.samples import Sample

_ANSWER_WEIGHT = 20  # weight of an answer's token in the choice of the vocabulary; a document's is 1


def draft_vocabulary(
    vocabulary: int, answers: Sequence[Sample], documents: Sequence[Sequence[int]], size: int, always: Sequence[int]
) -> Tensor:
    """The `size` tokens that occur most often in answers and documents, and those in `always`, ascending, [size]."""
    in_answers = count((sample.tokens[sample.start + 2 :] for sample in answers), vocabulary)
    return choose(_ANSWER_WEIGHT * in_answers + count(documents, vocabulary), size, always=always)


def unused_token(vocabulary: int, texts: Iterable[Sequence[int]], ends: Sequence[int]) -> int:
    """The token that stands for what is not known yet: one of the least frequent in `texts`, and none of the `ends`."""
    counts = count(texts, vocabulary)
    counts[list(ends)] = counts.max() + 1
    return int(counts.argmin())


def count(sequences: Iterable[Sequence[int]], vocabulary: int) -> Tensor:
    """How often each token occurs, [vocabulary] int64."""
    counts = torch.zeros(vocabulary, dtype=torch.long)
    for tokens in sequences:
        counts += torch.bincount(torch.tensor(tokens, dtype=torch.long), minlength=vocabulary)
    return counts


def choose(counts: Tensor, size: int, always: Sequence[int] = ()) -> Tensor:
    """The `size` most frequent tokens and those in `always`, ascending, [size] int64. Ties go to the lower id."""
    weighted = counts.clone()
    weighted[list(always)] = counts.sum() + 1
    order = torch.argsort(weighted, descending=True, stable=True)
    return order[: min(size, len(counts))].sort().values


def coverage(chosen: Tensor, counts: Tensor) -> float:
    """Share of the counted tokens that `chosen` holds."""
    return float(counts[chosen].sum() / counts.sum().clamp(min=1))
