"""`compare_once`: the beginning of one document decoded plainly and with SpecExtend, with the same models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from specextend_cli.bench.machine import Load, times
from specextend_cli.bench.statistics import first_difference
from specextend_cli.documents.document import Document, Extraction
from specextend_cli.engine.events import Accepted
from specextend_cli.models.preset import Preset
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import Event, Stage, Summarized, Summary, Warned
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer

READ, WRITTEN = 4096, 192
"""Tokens of the document in the prompt, more than a working set has; and of the answer."""
_WARM_UP_CHARACTERS, _WARM_UP_STEPS = 1200, 24
"""What both ways decode before anything is measured: the first calls are slow, and the gate tries drafts."""
_CUTS = 8  # after which a document has surely become one prompt, however its text is spread
_TOKENS = 8  # decoded in steps; fewer say nothing about speed


@dataclass(frozen=True)
class SideBegins:
    """The events that follow are of plain decoding, or of SpecExtend."""

    plain: bool


@dataclass(frozen=True)
class Comparison:
    """Both summaries, the first token that differs (None: none does), and the machine's load meanwhile."""

    plain: Summary
    accelerated: Summary
    divergence: int | None
    load: Load

    @property
    def speedup(self) -> float | None:
        """How many times faster a token came with SpecExtend; None where nothing was drafted, or little decoded."""
        plain, fast = self.plain.meter, self.accelerated.meter
        if not fast.drafted_steps or min(plain.stepped, fast.stepped) < _TOKENS or not fast.decode_seconds:
            return None
        return (plain.decode_seconds / plain.stepped) / (fast.decode_seconds / fast.stepped)


def compare_once(document: Document, engine: Engine, request: Request) -> Iterator[Event | SideBegins | Comparison]:
    """The events of both runs, each after its `SideBegins`; the last one is the `Comparison`.

    One prompt has the first `READ` tokens, whatever the preset's chunks are: long prompts are what SpecExtend is for. A
    document that is too short to be summarized is printed, and nothing is decoded.
    """
    with Summarizer(engine, batch=1, cache=False) as summarizer:
        summarizer.preset = _in_one_prompt(summarizer.preset)
        yield from summarizer.load()
        yield Stage("warming up")
        for plain in (True, False):
            summarizer.plain = plain
            _warm_up(summarizer.run(_cut(document, _WARM_UP_CHARACTERS), request))
        part, before = _beginning(summarizer, document, request), times()
        summaries, tokens = list[Summary](), {True: list[int](), False: list[int]()}
        for plain in (True, False):
            yield SideBegins(plain)
            summarizer.plain = plain
            for event in summarizer.run(part, request):
                if isinstance(event, Accepted):
                    tokens[plain].extend(event.tokens)
                elif isinstance(event, Summarized):
                    summaries.append(event.summary)
                if not isinstance(event, Warned) or not tokens[plain]:  # not the warnings about its text
                    yield event
        first, second = summaries
        yield Comparison(first, second, first_difference(tokens[True], tokens[False]), Load.since(before))


def _warm_up(events: Iterator[Event]) -> None:
    steps = (event for event in events if isinstance(event, Accepted))
    for _ in islice(steps, _WARM_UP_STEPS):
        pass


def _in_one_prompt(preset: Preset) -> Preset:
    """The preset with chunks of `READ` tokens, or of half its window where that is smaller; with such answers."""
    window = preset.window
    chunk = max(min(READ, window.context // 2), min(window.chunk, READ))
    changed = {"chunk": chunk, "summary_tokens": min(WRITTEN, window.summary_tokens)}
    return preset.model_copy(update={"window": window.model_copy(update=changed)})


def _beginning(summarizer: Summarizer, document: Document, request: Request) -> Document:
    """The document, or as much of its beginning as is one prompt."""
    for _ in range(_CUTS):
        plan = summarizer.plan(document, request)
        if len(plan.chunks) <= 1:
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
