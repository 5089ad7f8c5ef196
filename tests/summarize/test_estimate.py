"""One estimate for the whole run: near the truth as soon as something is measured, and never back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from specextend_cli.engine.events import Accepted, Finished, Prefilled, Prefilling
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.estimate import Estimate
from specextend_cli.summarize.events import Event, LevelWork, Part, Plan, Rates

READ, TOGETHER, ALONE = 0.004, 0.012, 0.02  # seconds a token
CHUNK, NOTE = 500, 64
WORK = (LevelWork(22, 22 * CHUNK, 22 * NOTE), LevelWork(11, 22 * NOTE, 11 * NOTE), LevelWork(5, 11 * NOTE, 5 * NOTE))
PLAN = Plan("a", 40, 22 * CHUNK, (CHUNK,) * 22, 3, work=WORK)


def batch(numbers: range, note: int) -> Iterator[tuple[float, Event]]:
    """Prompts read one after the other, 16 at a time, and written together; with the seconds each event took."""
    for at in range(0, len(numbers), 16):
        some = numbers[at : at + 16]
        for number in some:
            yield 0.0, Part(number, 22, 1, (1, 2), CHUNK, False)
            yield 0.0, Prefilling(0, CHUNK, 0.0)
            yield READ * CHUNK, Prefilled(CHUNK, READ * CHUNK)
            yield 0.0, Accepted((1,), CHUNK + 1, 0, 0.0, 0.0, 0.0)
        for step in range(1, note):
            for _ in some:
                yield TOGETHER, Accepted((1,), CHUNK + step + 1, 1, 0.0, TOGETHER, 0.0, len(some))
                if step == note - 1:
                    yield 0.0, Finished("length", note)


def alone(level: int, parts: int, size: int, note: int, *, final: bool) -> Iterator[tuple[float, Event]]:
    """Texts read and written one by one, three tokens a step."""
    for number in range(1, parts + 1):
        yield 0.0, Part(number, parts, level, (1, 2), size, final)
        yield READ * size, Prefilled(size, READ * size)
        yield 0.0, Accepted((1,), size + 1, 0, 0.0, 0.0, 0.0)
        for _ in range(1, note, 3):
            yield 3 * ALONE, Accepted((1, 1, 1), size, 8, 0.01, 3 * ALONE - 0.01, 0.0)
        yield 0.0, Finished("length", note)


def whole(*, note: int = NOTE, plan: Plan = PLAN, reused: int = 0) -> list[tuple[float, Event]]:
    events: list[tuple[float, Event]] = [(0.0, plan)]
    events += [(0.0, Part(number, 22, 1, (1, 2), CHUNK, False, reused=True)) for number in range(1, reused + 1)]
    events += batch(range(reused + 1, 23), note)
    return [*events, *alone(2, 11, 2 * note, note, final=False), *alone(3, 5, 2 * note, note, final=True)]


def follow(events: list[tuple[float, Event]]) -> Iterator[tuple[Event, float | None, float, float]]:
    """Every event with the seconds said to be left, those that are, and the share said to be done."""
    total, passed, meter = sum(seconds for seconds, _ in events), 0.0, Meter()
    estimate = Estimate(meter)
    for seconds, event in events:
        passed += seconds
        meter.add(event)
        estimate.add(event)
        share = estimate.share
        assert share is not None
        yield event, estimate.seconds_left, total - passed, share


@pytest.mark.parametrize("note", [NOTE, NOTE // 2])
@pytest.mark.parametrize("reused", [0, 9])
def test_what_is_left_is_about_right_once_a_batch_is_written(note: int, reused: int) -> None:
    said = list(follow(whole(note=note, reused=reused)))
    written = [at for at, (event, *_) in enumerate(said) if isinstance(event, Finished)]
    for _, left, true, _ in said[written[min(15, 21 - reused)] :]:
        assert left == pytest.approx(true, rel=0.35, abs=2.0)
    shares = [share for *_, share in said]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, pytest.approx(1, abs=0.03))


def test_earlier_runs_say_what_is_left_until_the_first_prompt_does() -> None:
    plan = replace(PLAN, rates=Rates(READ / 10, TOGETHER / 10))  # on a faster machine
    (_, first, *_), (_, begun, *_), *rest = follow(whole(plan=plan))
    assert first == begun == pytest.approx(plan.seconds)
    left, true = next((left, true) for event, left, true, _ in rest if isinstance(event, Prefilled))
    assert left == pytest.approx(true, rel=0.35)
    assert next(follow(whole()))[1] is None


def test_a_long_prompt_says_it_while_it_is_read() -> None:
    plan = Plan("a", 90, 60_000, (60_000,), 1, work=(LevelWork(1, 60_000, 400),))
    begun = [plan, Part(1, 1, 1, (1, 90), 60_000, True), Prefilling(0, 60_000, 0.0), Prefilling(15_000, 60_000, 30.0)]
    *_, (_, before, *_), (_, left, *_) = follow([(0.0, event) for event in begun])
    assert before is None
    assert left == pytest.approx(90, rel=0.1)


def test_levels_that_are_not_needed_are_not_waited_for() -> None:
    events = [(0.0, PLAN), *batch(range(1, 23), NOTE), (0.0, Part(1, 5, 2, (1, 40), 300, True))]
    *_, (_, before, *_), (_, after, *_) = follow(events)
    assert after < before / 2
