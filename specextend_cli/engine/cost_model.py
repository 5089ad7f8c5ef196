"""What forwards cost, by their size: fading means of this run's own timings."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import NamedTuple

import numpy as np

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Of trees whose verification is timed separately."""

_SLOPE = 0.1  # a node's share of a plain step's cost, assumed until measured: 0.02 on a GPU, 0.2 on few cores
_FIRST = 2  # measurements before plain decoding counts as known
_FASTEST = 4  # measurements, of which the fastest counts: steps right after a prefill take up to a third longer
_REFIT = 8  # further measurements of a size, after which all costs are fitted again


class _Cost(NamedTuple):
    """Mean nodes and seconds of verifications of about one size, and how many were measured."""

    nodes: float
    seconds: float
    samples: int


@dataclass
class CostModel:
    """Seconds of a verification by its node count, at about the present context length. It outlives a sequence.

    The first measurements include warm-up, so the fastest of them counts. Later ones enter a fading mean, each with at
    most twice the known cost. A machine that is slower for a while is slower for all sizes, also for those that
    are not measured meanwhile: every measurement changes the pace of all. A larger tree never counts as cheaper.
    """

    _costs: dict[int, dict[int, _Cost]] = field(default_factory=dict, init=False)  # seconds at a pace of 1
    _pace: float = field(default=1.0, init=False)
    _fitted: dict[int, list[_Cost]] = field(default_factory=dict, init=False)  # ascending; until more is known
    _shares: dict[int, float] = field(default_factory=dict, init=False)

    def learn(self, nodes: int, length: int, seconds: float) -> None:
        """A verification of `nodes` nodes over `length` committed tokens took `seconds`."""
        context = _context(length)
        costs = self._costs.setdefault(context, {})
        size = SIZES[min(bisect_left(SIZES, nodes), len(SIZES) - 1)]
        seconds /= self._pace
        known = costs.get(size, _Cost(nodes, seconds, 0))
        if known.samples < _FASTEST:
            settled = min(known.seconds, seconds)
        else:
            seconds = min(seconds, 2 * known.seconds)
            settled = known.seconds + 0.1 * (seconds - known.seconds)
            self._pace *= 1 + 0.1 * (seconds / settled - 1)
        costs[size] = _Cost(known.nodes + 0.25 * (nodes - known.nodes), settled, known.samples + 1)
        if known.samples < _FASTEST or known.samples % _REFIT == 0:
            self._fitted.pop(context, None)
            self._shares = {}

    def plain(self, length: int) -> float:
        """Seconds of a plain step; 0.0 until it was measured often enough at about this length."""
        plain = self._costs.get(_context(length), {}).get(1)
        return self.seconds(1, length) if plain is not None and plain.samples >= _FIRST else 0.0

    def seconds(self, nodes: int, length: int) -> float:
        """Seconds of a verification: linear between measured sizes, beyond them by a node's usual share."""
        return self.curve((nodes,), length)[0]

    def curve(self, sizes: Sequence[int], length: int) -> list[float]:
        """`seconds` of ascending sizes, at a length that was measured."""
        costs = self._fitted.get(_context(length))
        if costs is None:
            costs = self._fitted[_context(length)] = _ascending(sorted(self._trusted(length)))
        most = costs[-1].nodes
        more = self.share(length) * costs[0].seconds if sizes[-1] > most else 0.0
        within = np.interp(sizes, [cost.nodes for cost in costs], [cost.seconds for cost in costs]).tolist()
        return [
            self._pace * (seconds + max(nodes - most, 0) * more) for nodes, seconds in zip(sizes, within, strict=True)
        ]

    def _trusted(self, length: int) -> Iterator[_Cost]:
        """The measurements; a size measured once, perhaps with warm-up, counts with its usual cost at most."""
        measured = self._costs.get(_context(length), {})
        plain = measured.get(1)
        for cost in measured.values():
            if plain is not None and cost.samples < _FIRST <= plain.samples:
                usual = plain.seconds * (1 + _SLOPE * (cost.nodes - 1))
                cost = cost._replace(seconds=min(cost.seconds, usual))
            yield cost

    def share(self, length: int) -> float:
        """A node's cost as a share of a plain step's: as measured at the nearest length with trees, or as assumed."""
        context = _context(length)
        if context not in self._shares:
            self._shares[context] = self._share_near(context)
        return self._shares[context]

    def _share_near(self, wanted: int) -> float:
        for context in sorted(self._costs, key=lambda context: abs(context - wanted)):
            settled = [cost for cost in self._costs[context].values() if cost.samples >= _FIRST]
            smallest, largest = min(settled, default=None), max(settled, default=None)
            if smallest and largest and smallest.nodes == 1 < largest.nodes:
                return max(largest.seconds / smallest.seconds - 1, 0.0) / (largest.nodes - 1)
        return _SLOPE


def _ascending(costs: Sequence[_Cost]) -> list[_Cost]:
    """The costs nearest to these of which none is below that of fewer nodes (pool adjacent violators)."""
    pools: list[list[_Cost]] = []
    for cost in costs:
        pools.append([cost])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [cost._replace(seconds=mean) for pool in pools for mean in [_mean(pool)] for cost in pool]


def _mean(pool: Sequence[_Cost]) -> float:
    """Seconds, weighed by how often they were measured; old measurements have faded."""
    weights = [min(cost.samples, 10) for cost in pool]
    return sum(weight * cost.seconds for weight, cost in zip(weights, pool, strict=True)) / sum(weights)


def _context(length: int) -> int:
    """Lengths within about 19% of each other share measurements."""
    return round(2 * log2(max(length, 1)))
