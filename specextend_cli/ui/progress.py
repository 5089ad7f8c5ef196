"""Where a run stands: the pipeline's events folded into one state, which the panel and the plain lines both read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Prefilled, Prefilling, Retrieved, Step
from specextend_cli.engine.meter import Meter
from specextend_cli.figures import (
    format_amount,
    format_count,
    format_many,
    format_numbers,
    format_pages,
    format_percent,
    format_seconds,
    format_speedup,
)
from specextend_cli.summarize.events import (
    Coverage,
    Event,
    Noted,
    Part,
    Plan,
    Retried,
    Sentence,
    Stage,
    Summarized,
    Summary,
    Text,
    Warned,
)
from specextend_cli.summarize.flaws import Flaw
from specextend_cli.ui.streams import sanitize

RECENT = 64
TAIL = 400


@dataclass
class Progress:
    """Feed it events; read where things stand."""

    document: str
    clock: Callable[[], float] = time.monotonic
    meter: Meter = field(default_factory=Meter)
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    plan: Plan | None = None
    part: Part | None = None
    stage: Stage | None = None
    prefilling: Prefilling | None = None
    retrieved: Retrieved | None = None
    summary: Summary | None = None
    read: tuple[int, int] | None = None
    saved: int = 0
    part_tokens: int = 0
    together: int = 1
    tail: str = ""

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def unit(self) -> str:
        """What the document has: "page" or "section"."""
        return self.plan.unit if self.plan else "page"

    def add(self, event: Event) -> None:
        """Take one event in."""
        match event:
            case Stage():
                self.stage = event
            case Plan():
                self.plan = event
            case Part():
                self.part, self.stage, self.prefilling, self.part_tokens, self.tail = event, None, None, 0, ""
                first, last = self.read or event.pages
                self.read = (min(first, event.pages[0]), max(last, event.pages[1]))
            case Text():
                self.tail = (self.tail + sanitize(event.delta))[-TAIL:]
            case Noted():
                self.saved += 1
            case Summarized():
                self.summary = event.summary
            case Retried():
                self.prefilling, self.part_tokens, self.tail = None, 0, ""
            case Warned() | Sentence():
                pass
            case _:
                self._engine(event)

    def _engine(self, event: EngineEvent) -> None:
        self.stage = None
        self.meter.add(event)
        match event:
            case Prefilling():
                self.prefilling = event
            case Prefilled():
                self.prefilling = None
            case Step():
                self.part_tokens += event.accepted
                if event.nodes:
                    self.together = event.together
                if event.nodes and event.together == 1:
                    self.recent.append(event.accepted)
            case Retrieved():
                self.retrieved = event
            case _:
                pass

    @property
    def seconds(self) -> float:
        """Time since the document was begun."""
        return self.clock() - self.started

    @property
    def seconds_left(self) -> float | None:
        """What is left of prefill at its speed so far."""
        if self.prefilling is None or not self.prefilling.done:
            return None
        return self.prefilling.seconds * (self.prefilling.total - self.prefilling.done) / self.prefilling.done

    @property
    def share(self) -> float | None:
        """How much of the stage or of prefill is done; None where that cannot be known."""
        if self.stage is not None:
            return min(self.stage.done / self.stage.total, 1.0) if self.stage.total else None
        if self.prefilling is not None:
            return self.prefilling.done / self.prefilling.total
        return None


def format_stage(stage: Stage) -> str:
    """ "41.2 MB of 93.0 MB", "12 pages" or nothing."""
    if stage.total:
        return f"{format_amount(stage.done, '' if stage.unit == 'pages' else stage.unit)} of " + format_amount(
            stage.total, stage.unit
        )
    return format_amount(stage.done, stage.unit) if stage.done else ""


def format_prefill(progress: Progress, *, brief: bool = False) -> str:
    """ "8,192/61,440 · 12 s left"; `brief` is "12 s left"."""
    if progress.prefilling is None:
        return ""
    count = f"{format_count(progress.prefilling.done)}/{format_count(progress.prefilling.total)}"
    if progress.seconds_left is None:
        return count
    left = f"{format_seconds(progress.seconds_left)} left"
    return left if brief else f"{count} · {left}"


def format_part(part: Part, unit: str = "page") -> str:
    """ "part 3/12 · pages 20-31 · level 1 of 2"; the number is left out where there is only one part."""
    pieces = [f"part {part.number}/{part.parts}"] if part.parts > 1 else []
    pieces.append(format_pages(*part.pages, unit))
    if part.levels > 1:
        pieces.append(f"level {part.level} of {part.levels}")
    return " · ".join(pieces)


def format_flaw(flaw: Flaw) -> str:
    """What is wrong with an answer, in words."""
    return {"no answer": "there was no answer in it", "in circles": "it went in circles"}[flaw]


def format_coverage(coverage: Coverage, span: tuple[int, int] | None = None) -> str:
    """ "pages 1-52 read; 4 without text (31, 88-90); 0 tokens dropped".

    `span` is the first and the last page that was read; without it, or where it has gaps, pages are counted.
    """
    if span is not None and span[1] - span[0] + 1 == coverage.pages:
        pieces = [f"{format_pages(*span, coverage.unit)} read"]
    else:
        pieces = [f"{format_many(coverage.pages, coverage.unit)} read"]
    if coverage.empty:
        pieces.append(f"{len(coverage.empty)} without text ({format_numbers(coverage.empty)})")
    if coverage.ocr:
        pieces.append(f"{len(coverage.ocr)} by OCR ({format_numbers(coverage.ocr)})")
    if coverage.failed:
        pieces.append(f"{len(coverage.failed)} unreadable ({format_numbers(coverage.failed)})")
    pieces.append(f"{format_many(coverage.dropped, 'token')} dropped")
    return "; ".join(pieces)


def format_speed(meter: Meter) -> Iterable[str]:
    """Speed and what explains it, one figure a piece; what was not measured is left out."""
    if not meter.decode_seconds:
        return
    yield (
        f"{meter.tokens_per_second:.0f} tok/s"
        if meter.tokens_per_second >= 10
        else (f"{meter.tokens_per_second:.1f} tok/s")
    )
    if meter.speedup is not None:
        yield f"{format_speedup(meter.speedup)} plain"
    if meter.steps:
        yield f"accepted {meter.accepted_length:.1f}"
    if meter.hit is not None:
        yield f"hits {format_percent(meter.hit)}"


def format_done(summary: Summary, span: tuple[int, int] | None = None) -> str:
    """The one line a finished document leaves behind."""
    tokens = f"{format_many(summary.meter.tokens, 'token')} in {format_seconds(summary.seconds)}"
    run = (f"run {summary.run}",) if summary.run else ()
    return " · ".join((tokens, *format_speed(summary.meter), format_coverage(summary.coverage, span), *run))
