"""What forwards cost, by their size: fading means of this run's own timings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log2
from typing import NamedTuple

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Of trees whose verification is timed separately."""

_SLOPE = 0.1  # a node's share of a plain step's cost, assumed until measured: 0.02 on a GPU, 0.2 on few cores
_FIRST = 2  # measurements, of which the fastest counts


class _Cost(NamedTuple):
    """Mean nodes and seconds of verifications of about one size, and how many were measured."""

    nodes: float
    seconds: float
    samples: int


@dataclass
class CostModel:
    """Seconds of a verification by its node count, at about the present context length. It outlives a sequence.

    The first measurements include warm-up, so the fastest of them counts; later ones enter a fading mean, each with at
    most three times the known cost.
    """

    _costs: dict[int, dict[int, _Cost]] = field(default_factory=dict, init=False)

    def learn(self, nodes: int, length: int, seconds: float) -> None:
        """A verification of `nodes` nodes over `length` committed tokens took `seconds`."""
        costs = self._costs.setdefault(_context(length), {})
        size = SIZES[min(bisect_left(SIZES, nodes), len(SIZES) - 1)]
        known = costs.get(size, _Cost(nodes, seconds, 0))
        if known.samples < _FIRST:
            settled = min(known.seconds, seconds)
        else:
            settled = known.seconds + 0.1 * (min(seconds, 3 * known.seconds) - known.seconds)
        costs[size] = _Cost(known.nodes + 0.25 * (nodes - known.nodes), settled, known.samples + 1)

    def known(self, length: int) -> bool:
        """Whether plain decoding was measured often enough at about this length."""
        plain = self._costs.get(_context(length), {}).get(1)
        return plain is not None and plain.samples >= _FIRST

    def plain(self, length: int) -> float:
        """Seconds of a plain step; 0.0 until known at about this length."""
        return self._costs[_context(length)][1].seconds if self.known(length) else 0.0

    def seconds(self, nodes: int, length: int) -> float:
        """Seconds of a verification: linear between measured sizes, beyond them by a node's usual share."""
        return self.curve((nodes,), length)[0]

    def curve(self, sizes: Sequence[int], length: int) -> list[float]:
        """`seconds` of ascending sizes."""
        costs = sorted(self._trusted(length))
        if not costs:
            return [0.0] * len(sizes)
        last = costs[-1]
        more = self.share(length) * costs[0].seconds if sizes[-1] > last.nodes else 0.0
        return [
            _between(costs, nodes) if nodes < last.nodes else last.seconds + (nodes - last.nodes) * more
            for nodes in sizes
        ]

    def _trusted(self, length: int) -> Iterator[_Cost]:
        """The measurements; a size measured once, perhaps with warm-up, counts with its usual cost at most."""
        plain = self.plain(length)
        for cost in self._costs.get(_context(length), {}).values():
            usual = plain * (1 + _SLOPE * (cost.nodes - 1)) if plain else cost.seconds
            yield cost if cost.samples >= _FIRST else cost._replace(seconds=min(cost.seconds, usual))

    def share(self, length: int) -> float:
        """A node's cost as a share of a plain step's: as measured at the nearest length with trees, or as assumed."""
        for context in sorted(self._costs, key=lambda context: abs(context - _context(length))):
            settled = [cost for cost in self._costs[context].values() if cost.samples >= _FIRST]
            smallest, largest = min(settled, default=None), max(settled, default=None)
            if smallest and largest and smallest.nodes == 1 < largest.nodes:
                return max(largest.seconds / smallest.seconds - 1, 0.0) / (largest.nodes - 1)
        return _SLOPE


def _between(costs: Sequence[_Cost], nodes: int) -> float:
    """Seconds between two measured sizes; of fewer nodes than any, the smallest size's."""
    if nodes <= costs[0].nodes:
        return costs[0].seconds
    low, high = next((low, high) for low, high in pairwise(costs) if nodes <= high.nodes)
    return low.seconds + (high.seconds - low.seconds) * (nodes - low.nodes) / (high.nodes - low.nodes)


def _context(length: int) -> int:
    """Lengths within about 19% of each other share measurements."""
    return round(2 * log2(max(length, 1)))
