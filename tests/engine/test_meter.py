"""A speedup is told only where something was drafted, and enough was measured with drafts and without."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pytest

from specextend_cli.engine.events import Accepted, Prefilled
from specextend_cli.engine.meter import ENOUGH_DRAFTED, ENOUGH_PLAIN, Meter


def plain(steps: int, batch_size: int = 1, seconds: float = 0.01) -> list[Accepted]:
    return [Accepted((1,), 100, 1, 0.0, seconds, 0.01, batch_size)] * steps


def drafted(steps: int) -> list[Accepted]:
    return [Accepted((1, 1, 1), 100, 8, 0.005, 0.01, 0.01)] * steps


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((plain(500),), None),
        ((plain(ENOUGH_PLAIN - 1), drafted(500)), None),  # too few of one kind
        ((plain(500), drafted(ENOUGH_DRAFTED - 1)), None),
        ((drafted(16), plain(8)), (16 * 3 + 8) * 0.01 / (16 * 0.015 + 8 * 0.01)),
        ((drafted(16), plain(8, seconds=0.02)), (16 * 3 + 8) * 0.02 / (16 * 0.015 + 8 * 0.02)),  # a wrong estimate
        ((drafted(16), (plain(9) + plain(1, seconds=0.2)) * 4), None),  # uneven
        ((plain(500, batch_size=16), drafted(500)), None),  # batches do not count
        ((plain(500, batch_size=16), drafted(16), plain(8)), (16 * 3 + 8) * 0.01 / (16 * 0.015 + 8 * 0.01)),
    ],
)
def test_speedups(kinds: tuple[Iterable[Accepted], ...], expected: float | None) -> None:
    meter = Meter()
    for event in (Prefilled(90, 1.0), *chain(*kinds)):
        meter.add(event)
    assert meter.speedup == (expected if expected is None else pytest.approx(expected))
