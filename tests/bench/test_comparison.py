"""`compare` decodes the beginning of a document once each way."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from specextend_cli.bench import machine
from specextend_cli.bench.comparison import Comparison, SideBegins, compare_once
from specextend_cli.bench.machine import Load
from specextend_cli.engine.events import Finished, Prefilled
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import Plan, Summarized
from specextend_cli.summarize.request import Request
from specextend_cli.ui.measurements import comparison
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import text


def once(presets, words: str) -> tuple[list, Comparison]:
    *events, found = compare_once(
        document(words), Engine(model=str(presets["one"]), dtype="float32"), Request(mode="abstractive")
    )
    assert isinstance(found, Comparison)
    return events, found


def told(found: Comparison) -> str:
    console = Console(width=200, file=io.StringIO(), color_system=None)
    console.print(comparison(found))
    return console.file.getvalue()


def test_the_beginning_of_a_document_is_one_prompt_decoded_once_each_way(presets) -> None:
    whole = text(60)
    events, found = once(presets, whole)
    first, second = (number for number, event in enumerate(events) if isinstance(event, SideBegins))
    assert [events[first].plain, events[second].plain] == [True, False]
    for side in (events[first + 1 : second], events[second + 1 :]):
        (plan,) = (event for event in side if isinstance(event, Plan))
        assert len(plan.chunks) == 1
        assert 100 < plan.tokens < 256 + 100  # half of the tiny window, and no more
        kinds = [type(event) for event in side]
        assert kinds.count(Prefilled) == kinds.count(Finished) == kinds.count(Summarized) == 1
    assert found.divergence is None
    assert found.plain.text == found.accelerated.text
    assert (found.plain.drafter, found.accelerated.drafter) == ("none", "blend (ngram + lm)")
    assert found.plain.meter.drafted_steps == 0 < found.plain.meter.tokens


def test_a_document_too_short_to_summarize_is_no_error(presets) -> None:
    _, found = once(presets, "Two words.")
    assert found.speedup is None
    assert "too few tokens, or none drafted" in told(found)


def test_others_are_who_is_busy_beside_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"wall": 0.0, "busy": 100.0, "own": 10.0}
    monkeypatch.setattr(machine, "monotonic", lambda: clock["wall"])
    every = lambda: SimpleNamespace(_asdict=lambda: {"user": clock["busy"], "idle": 7 * clock["wall"]})  # noqa: E731
    own = SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=clock["own"] - 1.0, system=1.0))
    monkeypatch.setattr(machine.psutil, "cpu_times", every)
    monkeypatch.setattr(machine.psutil, "Process", lambda: own)
    before = machine.times()
    clock.update(wall=10.0, busy=130.0, own=20.0)
    assert Load.since(before).others == pytest.approx(2.0)
    assert Load.since(before).busy
    clock.update(busy=111.0)
    assert not Load.since(before).busy
