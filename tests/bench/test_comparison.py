"""`compare` measures in turns until it knows, and says how well it knows."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from rich.console import Console

from specextend_cli.bench import comparison, machine
from specextend_cli.bench.comparison import ONCE_WRITTEN, PASSES, Comparison, SideBegins, compare, compare_once
from specextend_cli.bench.machine import Load, LoadMeter
from specextend_cli.documents.document import Document
from specextend_cli.engine.events import Finished, Prefilled, Step
from specextend_cli.engine.meter import Meter
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.presets import load_preset
from specextend_cli.summarize.events import Coverage, Event, LevelWork, Part, Plan, Stage, Summarized, Summary
from specextend_cli.summarize.summarizer import Options
from specextend_cli.ui.compared import comparison as shown
from specextend_cli.ui.compared import comparison_record
from tests.helpers.flat_options import flat_options
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import text

TEXTS = 4
PLAIN, FAST = 0.010, 0.008  # seconds a token on a quiet machine


class Machine:
    """A summarizer without models on a machine whose clock only its own work moves; `slower` by its load."""

    def __init__(self, slower: Callable[[float], float], *, drafts: bool = True, texts: int = TEXTS) -> None:
        self.slower, self.drafts, self.texts = slower, drafts, texts
        self.now = 0.0
        self.plain = False
        self.preset = load_preset(DEFAULT)
        self.read: list[str] = []
        self.written: list[bool] = []

    def __call__(self, options: Options) -> Machine:
        assert (options.cache, options.batch) == (False, 1)
        return self

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def load(self) -> Iterator[Event]:
        yield Stage("loading")

    def plan(self, source: Document) -> Plan:
        size, most = len(source.text) // 4, self.preset.window.chunk
        return Plan("a", 1, size, (most,) * (size // most) + (size % most,), 1)

    def run(self, source: Document) -> Iterator[Event]:
        self.read.append(source.text)
        plan = Plan("a", 1, 500, (100,) * self.texts, 2, work=(LevelWork(self.texts, 500, 150),))
        yield plan
        for number in range(1, self.texts + 1):
            yield Part(number, self.texts, 1, 1, (1, 1), 100, False)
            plain = self.plain
            self.written.append(plain)
            yield Prefilled(100, self._take(1.0))
            yield Step((7,), 101, 0, 0.0, 0.0, 0.0)
            for _ in range(15):
                if plain:
                    for _ in range(2):
                        yield Step((7,), 102, 1, 0.0, self._take(PLAIN), 0.0)
                else:
                    yield Step((7, 7), 103, 4 if self.drafts else 1, 0.0, self._take(2 * FAST), 0.0)
            yield Finished("length", 31)
        meter = Meter()
        yield Summarized(Summary("a", "Text.", plan, Coverage(1, (), (), 500), (), meter, 1.0, "p", "none"))

    def _take(self, seconds: float) -> float:
        took = seconds * self.slower(self.now)
        self.now += took
        return took


def compared(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    monkeypatch.setattr(comparison, "Summarizer", machine)
    monkeypatch.setattr(comparison, "monotonic", lambda: machine.now)
    *events, found = compare(document("Some words."), Options())
    assert isinstance(found, Comparison)
    assert sum(isinstance(event, Plan) for event in events) == 1
    assert any(isinstance(event, Stage) and event.total == TEXTS for event in events) or machine.texts != TEXTS
    return found


def test_which_goes_first_alternates_after_a_warm_up(monkeypatch):
    machine = Machine(lambda now: 1.0)
    found = compared(machine, monkeypatch)
    assert machine.written[:2] == [True, False]  # the warm-up
    assert machine.written[2:10] == [True, False, False, True, True, False, False, True]
    assert machine.written[10:12] == [False, True]
    assert found.passes == 2  # four pairs are too few for an interval
    assert found.divergence is None


@pytest.mark.parametrize(
    "slower",
    [
        lambda now: 20.0 if now < 20 else 1.0,  # loaded at first, when plain decoding used to be measured
        lambda now: 1 + now / 10,
        lambda now: 6.0 if now % 5 < 2 else 1.0,
    ],
)
def test_the_load_of_the_machine_does_not_pass_for_speed(slower, monkeypatch):
    found = compared(Machine(slower), monkeypatch)
    speedup = found.speedup
    assert speedup is not None
    assert speedup.value == pytest.approx(PLAIN / FAST, rel=0.1)
    assert speedup.low <= PLAIN / FAST * 1.05
    assert speedup.high >= PLAIN / FAST * 0.95


def test_noise_is_measured_again_up_to_a_bound(monkeypatch):
    rng = random.Random(5)
    found = compared(Machine(lambda now: rng.choice((0.2, 1.0, 5.0)), texts=1), monkeypatch)
    assert found.passes == PASSES
    assert found.speedup.high > found.speedup.low


def test_no_pass_is_begun_that_would_take_too_long(monkeypatch):
    found = compared(Machine(lambda now: 100.0), monkeypatch)
    assert (found.passes, len(found.pairs)) == (1, TEXTS)
    assert (found.speedup.low, found.speedup.high) == (None, None)
    assert "4 pairs: too few for an interval" in told(found)


def test_where_nothing_is_drafted_there_is_no_speedup(monkeypatch):
    found = compared(Machine(lambda now: 1.0, drafts=False), monkeypatch)
    assert found.speedup is None
    assert "nothing was drafted" in told(found)
    assert "× plain" not in told(found)


def told(found: Comparison) -> str:
    console = Console(width=200, file=io.StringIO(), color_system=None)
    console.print(shown(found))
    return console.file.getvalue()


def test_text_and_json_name_the_interval_and_the_load(monkeypatch):
    monkeypatch.setattr(LoadMeter, "load", lambda self: Load(2, 1.3, (8.1, 7.2)))
    found = compared(Machine(lambda now: 1.0), monkeypatch)
    lines = told(found).splitlines()
    assert "identical tokens · 1.2× plain decoding (median of 8 pairs; 95% interval 1.2× to 1.2×)" in lines
    (load,) = (line for line in lines if line.startswith("2 cores, 1.3 busy with other work: results may differ"))
    assert load.endswith("on an idle machine; load average 8.1 before and 7.2 after")
    record = comparison_record(found)
    assert record["speedup"] == pytest.approx({"median": 1.25, "low": 1.25, "high": 1.25, "pairs": 8})
    assert record["load"] == {"cores": 2, "busy_with_others": 1.3, "averages": [8.1, 7.2]}
    assert record["ratios"] == [1.25] * 8


def test_others_are_who_is_busy_beside_this_process(monkeypatch):
    clock = {"wall": 0.0, "busy": 100.0, "own": 10.0}
    monkeypatch.setattr(machine, "monotonic", lambda: clock["wall"])
    every = lambda: SimpleNamespace(_asdict=lambda: {"user": clock["busy"], "idle": 7 * clock["wall"]})  # noqa: E731
    own = SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=clock["own"] - 1.0, system=1.0))
    monkeypatch.setattr(machine.psutil, "cpu_times", every)
    monkeypatch.setattr(machine.psutil, "Process", lambda: own)
    monkeypatch.setattr(machine.psutil, "cpu_count", lambda: 4)
    meter = LoadMeter()
    clock.update(wall=10.0, busy=130.0, own=20.0)
    assert meter.load().others == pytest.approx(2.0)
    assert meter.load().busy
    clock.update(busy=111.0)
    assert not meter.load().busy


def test_a_real_pair_one_text_after_the_other(presets, monkeypatch):
    monkeypatch.setattr(comparison, "SECONDS", 0.0)
    options = flat_options(preset=str(presets["one"]), dtype="float32", max_tokens=16)
    *events, found = compare(document(text(20)), options)
    assert not any(event.batch_size > 1 for event in events if isinstance(event, Step))
    assert (found.divergence, found.passes) == (None, 1)
    assert found.plain.text == found.accelerated.text
    assert (found.plain.drafter, found.accelerated.drafter) == ("none", "blend (ngram + lm)")
    assert found.plain.meter.speedup is None
    assert all(pair.plain.drafted_steps == 0 for pair in found.pairs)
    assert found.pairs
    assert found.plain.meter.tokens == found.accelerated.meter.tokens > 0


def once(machine: Machine, monkeypatch: pytest.MonkeyPatch, words: str, **options: int) -> tuple[list, Comparison]:
    monkeypatch.setattr(comparison, "Summarizer", machine)
    *events, found = compare_once(document(words), flat_options(**options))
    assert isinstance(found, Comparison)
    return events, found


def test_once_each_way_with_all_events_of_either(monkeypatch):
    machine = Machine(lambda now: 1.0, texts=1)
    events, found = once(machine, monkeypatch, "Some words.")
    assert machine.written == [True, False, True, False]  # the warm-up, then either way
    first, second = (number for number, event in enumerate(events) if isinstance(event, SideBegins))
    assert [events[first].plain, events[second].plain] == [True, False]
    for side in (events[first + 1 : second], events[second + 1 :]):
        assert [type(event) for event in side[:3]] == [Plan, Part, Prefilled]
        assert isinstance(side[-1], Summarized)
        assert sum(isinstance(event, Step) for event in side) > 15
    assert (found.passes, len(found.pairs), found.divergence) == (1, 1, None)
    assert "identical tokens · 1.2× plain decoding (one text, measured once)" in told(found)
    assert "median text" not in told(found)


def test_once_below_plain_says_so(monkeypatch):
    slow = Machine(lambda now: 1.0, texts=1)
    slow._take = lambda seconds: seconds * (4 if not slow.plain else 1)
    _, found = once(slow, monkeypatch, "Some words.")
    assert "0.31× plain decoding" in told(found)


def test_once_where_nothing_is_drafted(monkeypatch):
    _, found = once(Machine(lambda now: 1.0, texts=1, drafts=False), monkeypatch, "Some words.")
    assert "identical tokens · nothing was drafted" in told(found)


def test_once_reads_the_beginning_of_a_long_document_in_one_prompt(monkeypatch):
    machine = Machine(lambda now: 1.0, texts=1)
    whole = "\n\n".join(f"Paragraph {number} has some words." for number in range(5000))
    once(machine, monkeypatch, whole)
    warm_up, part = machine.read[0], machine.read[-1]
    window = machine.preset.window
    assert window.summary_tokens == ONCE_WRITTEN
    assert window.chunk // 2 < len(part) // 4 <= window.chunk
    assert len(warm_up) < 2000
    for text_read in (warm_up, part):
        assert whole.startswith(text_read)
        assert text_read.endswith(".")


def test_once_a_real_pair(presets):
    options = flat_options(preset=str(presets["one"]), dtype="float32", max_tokens=16)
    *events, found = compare_once(document(text(20)), options)
    assert (found.divergence, found.passes, len(found.pairs)) == (None, 1, 1)
    assert found.plain.text == found.accelerated.text
    assert (found.plain.drafter, found.accelerated.drafter) == ("none", "blend (ngram + lm)")
    assert found.plain.plan.levels == 1
    assert sum(isinstance(event, Summarized) for event in events) == 2


def test_once_a_document_too_short_to_summarize_is_no_error(presets):
    options = flat_options(preset=str(presets["one"]), dtype="float32")
    *_, found = compare_once(document("Two words."), options)
    assert (found.pairs, found.speedup) == ((), None)
    assert "too few tokens to compare speeds" in told(found)
