"""A speedup is told only where something was drafted, and enough was measured with drafts and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specextend_cli.engine.events import Prefilled, Step
from specextend_cli.engine.meter import ENOUGH_DRAFTED, ENOUGH_PLAIN, Meter


def plain(steps: int, batch_size: int = 1) -> Iterator[Step]:
    for _ in range(steps):
        yield Step((1,), 100, 1, 0.0, 0.01, 0.01, batch_size)


def drafted(steps: int) -> Iterator[Step]:
    for _ in range(steps):
        yield Step((1, 1, 1), 100, 8, 0.005, 0.01, 0.01)


def speedup(*kinds: Iterator[Step]) -> float | None:
    meter = Meter()
    meter.add(Prefilled(90, 1.0))
    for events in kinds:
        for event in events:
            meter.add(event)
    return meter.speedup


def test_plain_decoding_has_no_speedup() -> None:
    assert speedup(plain(500)) is None


def test_too_few_steps_give_no_speedup() -> None:
    assert speedup(plain(ENOUGH_PLAIN - 1), drafted(500)) is None
    assert speedup(plain(500), drafted(ENOUGH_DRAFTED - 1)) is None


def test_enough_steps_of_both_kinds_give_a_speedup() -> None:
    assert speedup(drafted(16), plain(8)) == pytest.approx((16 * 3 + 8) * 0.01 / (16 * 0.015 + 8 * 0.01))


def test_a_wrong_estimate_of_plain_steps_is_corrected() -> None:
    slow = [Step((1,), 100, 1, 0.0, 0.02, 0.01) for _ in range(8)]
    assert speedup(drafted(16), iter(slow)) == pytest.approx((16 * 3 + 8) * 0.02 / (16 * 0.015 + 8 * 0.02))


def test_uneven_steps_give_no_speedup() -> None:
    uneven = [Step((1,), 100, 1, 0.0, 0.01 if n % 10 else 0.2, 0.01) for n in range(40)]
    assert speedup(drafted(16), iter(uneven)) is None


def test_batches_do_not_count_for_the_speedup() -> None:
    assert speedup(plain(500, batch_size=16), drafted(500)) is None
    assert speedup(plain(500, batch_size=16), drafted(16), plain(8)) == speedup(drafted(16), plain(8))
