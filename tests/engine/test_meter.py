"""A speedup is told only where something was drafted, and enough was measured with drafts and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specextend_cli.engine.events import Prefilled, Step
from specextend_cli.engine.meter import ENOUGH_DRAFTED, ENOUGH_PLAIN, Meter


def plain(steps: int, together: int = 1) -> Iterator[Step]:
    for _ in range(steps):
        yield Step((1,), 100, 1, 0.0, 0.01, 0.01, together)


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


def test_plain_decoding_is_no_times_plain_decoding() -> None:
    assert speedup(plain(500)) is None


def test_a_few_steps_of_either_kind_are_not_enough() -> None:
    assert speedup(plain(ENOUGH_PLAIN - 1), drafted(500)) is None
    assert speedup(plain(500), drafted(ENOUGH_DRAFTED - 1)) is None


def test_enough_of_both_are() -> None:
    assert speedup(drafted(16), plain(8)) == pytest.approx((16 * 3 + 8) * 0.01 / (16 * 0.015 + 8 * 0.01))


def test_what_a_plain_step_was_believed_to_take_is_corrected_by_what_it_took() -> None:
    slow = [Step((1,), 100, 1, 0.0, 0.02, 0.01) for _ in range(8)]
    assert speedup(drafted(16), iter(slow)) == pytest.approx((16 * 3 + 8) * 0.02 / (16 * 0.015 + 8 * 0.02))


def test_a_busy_machine_gives_no_figure() -> None:
    uneven = [Step((1,), 100, 1, 0.0, 0.01 if n % 10 else 0.2, 0.01) for n in range(40)]
    assert speedup(drafted(16), iter(uneven)) is None


def test_what_is_written_together_is_neither() -> None:
    assert speedup(plain(500, together=16), drafted(500)) is None
    assert speedup(plain(500, together=16), drafted(16), plain(8)) == speedup(drafted(16), plain(8))
