"""One estimate for the whole run: near the truth as soon as something is measured, and never back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Finished, Prefilled, Prefilling, Step
from specextend_cli.summarize.estimate import Estimate
from specextend_cli.summarize.events import ChunkRead, ChunkSummarized, Event, Level, LevelWork, Part, Plan, Rates

READ, TOGETHER, ALONE = 0.004, 0.012, 0.02  # seconds a token
CHUNK, NOTE = 500, 64
PLAN = Plan(
    "a",
    40,
    22 * CHUNK,
    (CHUNK,) * 22,
    3,
    work=(LevelWork(22, 22 * CHUNK, 22 * NOTE), LevelWork(11, 22 * NOTE, 11 * NOTE), LevelWork(5, 11 * NOTE, 5 * NOTE)),
)


def batch(numbers: range, slots: int, note: int) -> Iterator[tuple[float, Event]]:
    """Prompts read one after the other, `slots` at a time, and written together; with the seconds each event took."""
    for at in range(0, len(numbers), slots):
        some = numbers[at : at + slots]
        for number in some:
            yield 0.0, Part(number, len(numbers), 1, 3, (1, 2), CHUNK, False)
            yield 0.0, Prefilling(0, CHUNK, 0.0)
            yield READ * CHUNK, Prefilled(CHUNK, READ * CHUNK)
            yield 0.0, Step((1,), CHUNK + 1, 0, 0.0, 0.0, 0.0)
        for step in range(1, note):
            for number in some:
                yield TOGETHER, Step((1,), CHUNK + step + 1, 1, 0.0, TOGETHER, 0.0, len(some))
                if step == note - 1:
                    yield 0.0, Finished("length", note)
                    yield 0.0, ChunkSummarized(number, len(numbers), 1, "text")


def alone(level: int, parts: int, size: int, note: int, *, final: bool) -> Iterator[tuple[float, Event]]:
    """Texts read and written one by one, three tokens a step."""
    yield 0.0, Level(level, parts, 0, final)
    for number in range(1, parts + 1):
        yield 0.0, Part(number, parts, level, 3, (1, 2), size, final)
        yield READ * size, Prefilled(size, READ * size)
        yield 0.0, Step((1,), size + 1, 0, 0.0, 0.0, 0.0)
        for _ in range(1, note, 3):
            yield 3 * ALONE, Step((1, 1, 1), size, 8, 0.01, 3 * ALONE - 0.01, 0.0)
        yield 0.0, Finished("length", note)


def whole(*, note: int = NOTE, plan: Plan = PLAN, reused: int = 0) -> list[tuple[float, Event]]:
    events: list[tuple[float, Event]] = [(0.0, plan), (0.0, Level(1, 22, reused, False))]
    events += [(0.0, ChunkSummarized(number, 22, 1, "text", True)) for number in range(1, reused + 1)]
    events += batch(range(reused + 1, 23), 16, note)
    events += alone(2, 11, 2 * note, note, final=False)
    events += alone(3, 5, 2 * note, note, final=True)
    return events


def follow(events: list[tuple[float, Event]]) -> Iterator[tuple[EngineEvent | Event, float | None, float, float]]:
    """Every event with the seconds said to be left, those that are, and the share said to be done."""
    total, passed, estimate = sum(seconds for seconds, _ in events), 0.0, Estimate()
    for seconds, event in events:
        passed += seconds
        estimate.add(event)
        share = estimate.share
        assert share is not None
        yield event, estimate.seconds_left, total - passed, share


@pytest.mark.parametrize("note", [NOTE, NOTE // 2])
@pytest.mark.parametrize("reused", [0, 9])
def test_what_is_left_is_about_right_once_a_batch_is_written(note, reused):
    said = list(follow(whole(note=note, reused=reused)))
    kept = [i for i, (event, *_) in enumerate(said) if isinstance(event, ChunkSummarized) and not event.reused]
    for _, left, true, _ in said[kept[min(15, len(kept) - 1)] :]:
        assert left is not None
        assert left == pytest.approx(true, rel=0.35, abs=2.0)


def test_what_is_left_shrinks_while_a_batch_is_written():
    """Where it used to be 0.0 s for minutes: the end of the last prompt that was read."""
    said = list(follow(whole()))
    batch = [left for event, left, *_ in said if isinstance(event, Step) and event.batch_size == 16]
    assert all(after <= before + 1e-9 for before, after in pairwise(batch[64:]))
    assert batch[64] > batch[-1] > 1


def test_the_share_never_falls_and_reaches_the_whole():
    shares = [share for *_, share in follow(whole(note=40))]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] > 0.97


def test_earlier_runs_say_what_is_left_before_anything_is_measured():
    plan = replace(PLAN, rates=Rates(READ, ALONE))
    (_, first, *_), (_, begun, *_), *_ = follow(whole(plan=plan))
    assert first == begun == pytest.approx(plan.seconds)
    assert next(follow(whole()))[1] is None


def test_a_slower_machine_shows_with_the_first_prompt():
    plan = replace(PLAN, rates=Rates(READ / 10, TOGETHER / 10))
    said = list(follow(whole(plan=plan)))
    left, true = next((left, true) for event, left, true, _ in said if isinstance(event, Prefilled))
    assert left == pytest.approx(true, rel=0.35)


def test_a_long_prompt_says_it_while_it_is_read():
    estimate = Estimate()
    estimate.add(Plan("a", 90, 60_000, (60_000,), 1, work=(LevelWork(1, 60_000, 400),)))
    estimate.add(Level(1, 1, 0, True))
    estimate.add(Prefilling(0, 60_000, 0.0))
    assert estimate.seconds_left is None
    estimate.add(Prefilling(15_000, 60_000, 30.0))
    assert estimate.seconds_left == pytest.approx(90, rel=0.1)


def test_levels_that_are_not_needed_are_not_waited_for():
    estimate = Estimate()
    for _, event in [(0.0, PLAN), (0.0, Level(1, 22, 0, False)), *batch(range(1, 23), 16, NOTE)]:
        estimate.add(event)
    before = estimate.seconds_left
    estimate.add(Level(2, 5, 0, True))
    assert estimate.seconds_left < before / 2


def test_what_earlier_runs_have_read_is_done():
    estimate = Estimate()
    estimate.add(Plan("a", 9, 2_000, (1_000, 1_000), 1, work=(LevelWork(2, 2_000, 0),)))
    assert estimate.share == 0
    for number in (1, 2):
        estimate.add(Part(number, 2, 1, 1, (1, 9), 1_000, True))
        estimate.add(ChunkRead(number, 2, reused=True))
    assert estimate.share == 1
