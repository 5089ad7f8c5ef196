"""`compare_once(document, options)`: the beginning of a document as one prompt, decoded plainly and accelerated."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from specextend_cli.bench.formats import Interval
from specextend_cli.bench.machine import Load, LoadMeter
from specextend_cli.bench.statistics import first_difference
from specextend_cli.documents.document import Document, Extraction
from specextend_cli.engine import events as engine
from specextend_cli.engine.meter import Meter
from specextend_cli.models.preset import Preset
from specextend_cli.summarize.events import Event, Stage, Summarized, Summary, Warned
from specextend_cli.summarize.summarizer import Options, Summarizer

ONCE_READ, ONCE_WRITTEN = 4096, 192
"""Tokens of the document in the prompt of `compare_once`, more than a working set has; and of its answer."""
_ONCE_WARM = 1200  # characters of the document that both ways are warmed up with
_CUTS = 8  # after which a document has surely become one prompt, however its text is spread
_TOKENS = 8  # decoded in steps; fewer say nothing about speed
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
    """What came of it.

    `divergence`: the first token that differs; None where none does. `pairs`: one, or none of a text too short to be
    timed. `speedup`: its ratio, without an interval; None where nothing was drafted or measured.
    """

    plain: Summary
    accelerated: Summary
    divergence: int | None
    pairs: tuple[Pair, ...]
    speedup: Interval | None
    load: Load
    passes: int = 1


@dataclass(frozen=True)
class SideBegins:
    """The events that follow are of plain decoding, or of the accelerated one."""

    plain: bool


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
            summarizer.plain = is_plain
            yield from _warm_up(summarizer, _cut(document, _ONCE_WARM))
        part, load = _beginning(summarizer, document), LoadMeter()
        summarizer.plain = True
        plain, tokens = yield from _side(summarizer, part)
        summarizer.plain = False
        fast, drafted = yield from _side(summarizer, part)
        pair = Pair(plain.meter, fast.meter)
        is_timed = min(plain.meter.stepped, fast.meter.stepped) >= _TOKENS
        speedup = Interval(pair.ratio, None, None, 1) if is_timed and fast.meter.drafted_steps else None
        divergence = first_difference(tokens, drafted)
        yield Comparison(plain, fast, divergence, (pair,) if is_timed else (), speedup, load.load())


def _side(summarizer: Summarizer, document: Document) -> Generator[Event | SideBegins, None, tuple[Summary, list[int]]]:
    """One of the two runs; returns its summary and its tokens."""
    yield SideBegins(summarizer.plain)
    tokens, is_written = list[int](), False
    for event in summarizer.run(document):
        if isinstance(event, Summarized):
            summary = event.summary
        elif isinstance(event, engine.Step):
            tokens += event.tokens
        is_written = is_written or isinstance(event, engine.Finished)
        if not isinstance(event, Warned) or not is_written:
            yield event
    return summary, tokens


def _warm_up(summarizer: Summarizer, document: Document) -> Iterator[Event]:
    """What is slow only the first time, and the gate's first trials."""
    steps = 0
    for event in summarizer.run(document):
        if isinstance(event, (engine.Prefilling, engine.Step)):
            yield event
        steps += isinstance(event, engine.Step)
        if steps > _WARM_UP:
            return


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
