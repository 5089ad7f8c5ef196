"""Where two outputs part."""

from __future__ import annotations

from collections.abc import Sequence


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """The index of the first token that differs, a missing one included; None where all are equal."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))
