"""Small charts made of block characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

BLOCKS = "▁▂▃▄▅▆▇█"
BINS = 6


def block(share: float) -> str:
    """The block character whose height shows `share` of one."""
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]


def histogram(lengths: Mapping[int, int]) -> list[tuple[str, float]]:
    """Accepted lengths in the bins "1" ... "6+", each with its share of all steps."""
    total = sum(lengths.values()) or 1
    counts = [0] * BINS
    for length, count in lengths.items():
        counts[min(length, BINS) - 1] += count
    return [(f"{size}+" if size == BINS else str(size), count / total) for size, count in enumerate(counts, start=1)]


def density(spans: Sequence[tuple[int, int]], length: int, cells: int) -> list[float]:
    """How much of each of `cells` equal parts of `length` positions the sorted half-open `spans` cover, 0 to 1."""
    covered = [0.0] * cells
    if not length:
        return covered
    width = length / cells
    for start, end in spans:
        for cell in range(int(start / width), min(ceil(end / width), cells)):
            covered[cell] += max(min(end, (cell + 1) * width) - max(start, cell * width), 0.0)
    return [min(amount / width, 1.0) for amount in covered]
