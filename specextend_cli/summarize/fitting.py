"""Which sentences to take, in order of preference, so that their words add up to a given number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

_NEAR, _FAR = 0.1, 0.14  # of the number wanted: how far a sum may be from it, and at most
_RESERVE = 150  # words: the last ones are chosen by trying sums, those before simply in order
POOL = 80
"""Sentences among which the last ones are chosen: so many are needed beyond those that come to the sum."""


def fits(total: int, wanted: int) -> bool:
    """Whether a sum is near enough to what is wanted."""
    return abs(total - wanted) <= _FAR * wanted


def leading(sizes: Sequence[int], wanted: int, most: int | None = None) -> int:
    """How many of the first ones, `most` at most, have a sum nearest to what is wanted; one at least where any is."""
    sums = accumulate(sizes[:most])
    return min(enumerate(sums, 1), key=lambda one: abs(one[1] - wanted), default=(0, 0))[0]


def fitted(sizes: Sequence[int], wanted: int) -> list[int]:
    """Numbers of items, sorted, whose sizes add up to about `wanted`; the first ones, as far as possible.

    A sum within 10% is taken where there is one, else within 14%, else none.
    """
    taken = 0
    gap = wanted
    while taken < len(sizes) and gap - sizes[taken] >= _RESERVE:
        gap -= sizes[taken]
        taken += 1
    rest = range(taken, min(taken + POOL, len(sizes)))
    # By sum, the worth of its items: a word is worth more in an earlier sentence.
    sums: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for rank, number in enumerate(rest, 1):
        for before, (worth, numbers) in list(sums.items()):
            total, new = before + sizes[number], worth + sizes[number] / rank
            if total <= gap + _FAR * wanted and new > sums.get(total, (0.0, ()))[0]:
                sums[total] = new, (*numbers, number)
    # A word too many, or too few, counts as much as the last one that is taken in order.
    last = next((rank for rank, total in enumerate(accumulate(sizes[i] for i in rest), 1) if total >= gap), POOL)
    for share in (_NEAR, _FAR):
        near = [
            (worth - abs(total - gap) / last, numbers)
            for total, (worth, numbers) in sums.items()
            if abs(total - gap) <= share * wanted
        ]
        if near:
            return [*range(taken), *max(near)[1]]
    return []
