"""One document summarized plainly and accelerated, in turns: `compare(document, options)`; or `compare_once`.

Two runs advance side by side, one text at a time; which goes first alternates (ABBA), so that what slows the machine
down for a while slows both down. Each text gives one ratio of decoding speeds. The document is gone through again until
the interval of their median is narrow, or a bound on passes and time is met.

`compare_once` shows the same in seconds: the beginning of the document, as one prompt, is decoded once each way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

from specextend_cli.bench.machine import Load, LoadMeter
from specextend_cli.bench.statistics import Interval, bootstrap_interval, first_difference
from specextend_cli.documents.document import Document, Extraction
from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.models.preset import Preset
from specextend_cli.summarize.events import Event, Part, Plan, Retried, Stage, Summarized, Summary, Warned
from specextend_cli.summarize.summarizer import Options, Summarizer

PAIRS = 5  # pairs that an interval needs
NARROW = 1.1  # the interval's upper end over its lower one, from which on nothing is repeated
PASSES, SECONDS = 8, 120.0
"""Most passes over the document; and none is begun that would probably end later than so many seconds."""
ONCE_READ, ONCE_WRITTEN = 4096, 192
"""Tokens of the document in the prompt of `compare_once`, more than a working set has; and of its answer."""
_ONCE_WARM = 1200  # characters of the document that both ways are warmed up with
_CUTS = 8  # after which a document has surely become one prompt, however its text is spread
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


@dataclass(frozen=True)
class SideBegins:
    """The events that follow are of plain decoding, or of the accelerated one."""

    plain: bool


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
            pairs += _pairs(*sides)
            speedup = _interval(pairs)
            enough = speedup is None or (speedup.low and speedup.high and speedup.high <= NARROW * speedup.low)
            if enough or (monotonic() - began) * (passes + 1) / passes > SECONDS:
                break
        yield _compared(plain, fast, pairs, passes, load)


def compare_once(document: Document, options: Options) -> Iterator[Event | SideBegins | Comparison]:
    """All events of either run behind its `SideBegins`, but for warnings of its text; the last one is the `Comparison`.

    One prompt has the first `ONCE_READ` tokens, whatever the preset's chunks are: a long prompt is what SpecExtend is
    for. A document that is too short to be summarized is printed, and nothing is decoded.
    """
    options = replace(options, cache=False, batch=1, max_tokens=options.max_tokens or ONCE_WRITTEN)
    with Summarizer(options) as summarizer:
        summarizer.preset = _in_one_prompt(summarizer.preset, options.max_tokens or ONCE_WRITTEN)
        yield from summarizer.load()
        yield Stage("warming up")
        for is_plain in (True, False):
            yield from _warm_up(_Side(summarizer, _cut(document, _ONCE_WARM), plain=is_plain))
        part, load, sides = _beginning(summarizer, document), LoadMeter(), list[_Side]()
        for is_plain in (True, False):
            yield SideBegins(is_plain)
            sides.append(side := _Side(summarizer, part, plain=is_plain))
            while side.summary is None:
                for event in side.advance():
                    if not isinstance(event, Warned) or not side.written:
                        yield event
        plain, fast = sides
        yield _compared(plain, fast, _pairs(plain, fast), 1, load)


def _compared(plain: _Side, fast: _Side, pairs: Sequence[Pair], passes: int, load: LoadMeter) -> Comparison:
    assert plain.summary is not None
    assert fast.summary is not None
    divergence = first_difference(plain.tokens, fast.tokens)
    return Comparison(plain.summary, fast.summary, divergence, tuple(pairs), _interval(pairs), passes, load.load())


def _in_one_prompt(preset: Preset, answer: int) -> Preset:
    """The preset with chunks of `ONCE_READ` tokens, or of half its window where that is smaller; and such answers."""
    window = preset.window
    answer = min(answer, window.summary_tokens)
    chunk = max(min(ONCE_READ, window.context // 2), min(window.chunk, ONCE_READ))
    return preset.model_copy(update={"window": window.model_copy(update={"chunk": chunk, "summary_tokens": answer})})


def _beginning(summarizer: Summarizer, document: Document) -> Document:
    """The document, or as much of its beginning as is one prompt."""
    for _ in range(_CUTS):
        plan = summarizer.plan(document)
        if len(plan.chunks) == 1:
            break
        document = _cut(document, int(len(document.text) * min(max(plan.chunks) / plan.tokens, 0.9)))
    return document


def _cut(document: Document, end: int) -> Document:
    """The first `end` characters, up to where a block ends if one does."""
    if end >= len(document.text):
        return document
    end = max((block.end for block in document.blocks if end // 2 < block.end <= end), default=end)
    pages = tuple(replace(page, end=min(page.end, end)) for page in document.pages if page.start < end)
    blocks = tuple(replace(block, end=min(block.end, end)) for block in document.blocks if block.start < end)
    extraction = Extraction(len(pages))
    return replace(document, text=document.text[:end], pages=pages, blocks=blocks, extraction=extraction)


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
    written: bool = False  # whether an answer has ended
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
            elif isinstance(event, engine.Finished):
                self.written = True


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


def _pairs(plain: _Side, accelerated: _Side) -> tuple[Pair, ...]:
    """The texts that both decoded, without those that are too short."""
    both = sorted(plain.texts.keys() & accelerated.texts.keys())
    found = (Pair(plain.texts[text], accelerated.texts[text]) for text in both)
    return tuple(pair for pair in found if min(pair.plain.stepped, pair.accelerated.stepped) >= _TOKENS)


def _interval(pairs: Sequence[Pair]) -> Interval | None:
    known = [pair for pair in pairs if pair.accelerated.decode_seconds and pair.plain.decode_seconds]
    if not any(pair.accelerated.drafted_steps for pair in known):
        return None
    ratios = [pair.ratio for pair in known]
    return bootstrap_interval(ratios) if len(ratios) >= PAIRS else Interval(median(ratios), None, None, len(ratios))
