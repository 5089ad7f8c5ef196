"""One document summarized plainly and accelerated, in turns: `compare(document, options)`.

Two runs advance side by side, one text at a time; which goes first alternates (ABBA), so that what slows the machine
down for a while slows both down. Each text gives one ratio of decoding speeds. The document is gone through again until
the interval of their median is narrow, or a bound on passes and time is met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from specextend_cli.bench.machine import Load, LoadMeter
from specextend_cli.bench.statistics import Interval, bootstrap_interval, first_difference
from specextend_cli.documents.document import Document
from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.summarize.events import Event, Part, Plan, Retried, Stage, Summarized, Summary, Warned
from specextend_cli.summarize.summarizer import Options, Summarizer

PAIRS = 5  # pairs that an interval needs
NARROW = 1.1  # the interval's upper end over its lower one, from which on nothing is repeated
PASSES, SECONDS = 8, 120.0
"""Most passes over the document; and none is begun that would probably end later than so many seconds."""
_TOKENS = 8  # of a text, decoded in steps; shorter ones say nothing about speed
_WARM_UP = 24  # steps of either kind, before anything is measured


@dataclass(frozen=True)
class Pair:
    """The same text, decoded plainly and accelerated."""

    plain: Meter
    accelerated: Meter

    @property
    def ratio(self) -> float:
        """How many times faster a token came accelerated."""
        plain, accelerated = (meter.decode_seconds / meter.stepped for meter in (self.plain, self.accelerated))
        return plain / accelerated


@dataclass(frozen=True)
class Comparison:
    """What came of it. The summaries are those of the first pass.

    `divergence` is the first token that differs, in the order in which they were written; None where none does.
    `speedup`: the median ratio with its interval, without one of fewer than `PAIRS` pairs; None where nothing was
    drafted or measured.
    """

    plain: Summary
    accelerated: Summary
    divergence: int | None
    pairs: tuple[Pair, ...]
    speedup: Interval | None
    passes: int
    load: Load


def compare(document: Document, options: Options) -> Iterator[Event | Comparison]:
    """Events of both runs while they last, plans and warnings once; the last one is the `Comparison`."""
    with Summarizer(replace(options, cache=False, batch=1)) as summarizer:
        yield from summarizer.load()
        yield Stage("warming up")
        for is_plain in (True, False):
            yield from _warm_up(_Side(summarizer, document, plain=is_plain))
        load, began, pairs = LoadMeter(), monotonic(), list[Pair]()
        for passes in range(1, PASSES + 1):
            sides = _Side(summarizer, document, plain=True), _Side(summarizer, document, plain=False)
            yield from _pass(sides, passes - 1)
            if passes == 1:
                plain, fast = sides
            both = sorted(sides[0].texts.keys() & sides[1].texts.keys())
            found = (Pair(*(side.texts[text] for side in sides)) for text in both)
            pairs += (pair for pair in found if min(pair.plain.stepped, pair.accelerated.stepped) >= _TOKENS)
            speedup = _interval(pairs)
            enough = speedup is None or (speedup.low and speedup.high and speedup.high <= NARROW * speedup.low)
            if enough or (monotonic() - began) * (passes + 1) / passes > SECONDS:
                break
        assert plain.summary is not None
        assert fast.summary is not None
        divergence = first_difference(plain.tokens, fast.tokens)
        yield Comparison(plain.summary, fast.summary, divergence, tuple(pairs), speedup, passes, load.load())


@dataclass
class _Side:
    """One of the two runs. Its texts are told by the part that asks for them, and by how often it was asked."""

    summarizer: Summarizer
    document: Document
    plain: bool
    texts: dict[tuple[int, int, int], Meter] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    summary: Summary | None = None
    work: int = 0
    _text: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        self._run = self.summarizer.run(self.document)

    def advance(self) -> Iterator[Event]:
        """Up to where the next text is asked for, or to the end."""
        self.summarizer.plain = self.plain
        for event in self._run:
            yield event
            if isinstance(event, Plan):
                self.work = sum(level.prompts for level in event.work)
            elif isinstance(event, (Part, Retried)):
                attempt = 0 if isinstance(event, Part) or self._text is None else self._text[2] + 1
                self._text = event.level, event.number, attempt
                return
            elif isinstance(event, Summarized):
                self.summary = event.summary
            elif self._text is not None and isinstance(event, (engine.Prefilled, engine.Step, engine.Retrieved)):
                self.texts.setdefault(self._text, Meter()).add(event)
                if isinstance(event, engine.Step):
                    self.tokens += event.tokens


def _warm_up(side: _Side) -> Iterator[Event]:
    """What is slow only the first time, and the gate's first trials."""
    for _ in range(2):
        for event in side.advance():
            if isinstance(event, engine.Step) and sum(meter.steps for meter in side.texts.values()) >= _WARM_UP:
                return
            if isinstance(event, (engine.Prefilling, engine.Step)):
                yield event


def _pass(sides: tuple[_Side, _Side], number: int) -> Iterator[Event]:
    """Both runs to their ends, a text of each in turn. The first run of the first pass tells its plan and warnings."""
    for side in sides:
        for event in side.advance():
            if isinstance(event, (Plan, Warned)) and side.plain and not number:
                yield event
    turn = number
    while any(side.summary is None for side in sides):
        done = max(len(side.texts) for side in sides)
        yield Stage(f"comparing, pass {number + 1}", done, max(sides[0].work, done), "texts")
        for side in sides if turn % 2 == 0 else reversed(sides):
            for event in side.advance():
                first = isinstance(event, Warned) and not side.plain and not number
                if first or isinstance(event, (engine.Prefilling, engine.Step)):
                    yield event
        turn += 1


def _interval(pairs: Iterable[Pair]) -> Interval | None:
    known = [pair for pair in pairs if pair.accelerated.decode_seconds and pair.plain.decode_seconds]
    if not any(pair.accelerated.drafted_steps for pair in known):
        return None
    ratios = [pair.ratio for pair in known]
    return bootstrap_interval(ratios) if len(ratios) >= PAIRS else Interval(median(ratios), None, None, len(ratios))
