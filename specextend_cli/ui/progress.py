"""The state of a run, accumulated from its events, and its wording: in the panel, in lines and at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from specextend_cli.engine.events import Accepted, Prefilled, Prefilling, Retrieved
from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.meter import Meter
from specextend_cli.errors import PartialError
from specextend_cli.humanize import (
    format_bytes,
    format_count,
    format_many,
    format_numbers,
    format_pages,
    format_percent,
    format_seconds,
    format_speed,
    format_speedup,
)
from specextend_cli.summarize import events
from specextend_cli.summarize.estimate import Estimate
from specextend_cli.summarize.words import count_words
from specextend_cli.ui.output import QUIET, sanitize
from specextend_cli.ui.tables import histogram

TAIL = 400  # characters of the text that are kept


@dataclass
class Progress:
    """Add events; read the state. `age` is how long the process had run before."""

    clock: Callable[[], float] = time.monotonic
    age: float = 0.0
    meter: Meter = field(default_factory=Meter)
    plan: events.Plan | None = None
    part: events.Part | None = None
    stage: events.Stage | None = None
    prefilling: Prefilling | None = None
    retrieved: Retrieved | None = None
    summary: events.Summary | None = None
    first_words: float | None = None  # seconds from the start of the process, or of this document, to its summary
    saved: int = 0  # chunk summaries that are stored, including those of earlier runs
    finished: int = 0  # answers of the current level
    reused: int = 0  # of them
    batch_size: int = 1
    text: str = ""  # the end of what is being written, of several texts of one
    _before: int = 0  # tokens written before the current part; in a batch, before its level

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.estimate = Estimate(self.meter)

    def add(self, event: events.Event) -> None:
        """Take one event."""
        self.meter.add(event)
        self.estimate.add(event)
        if isinstance(event, EngineEvent):
            self.stage = None
        match event:
            case events.Stage():
                self.stage = event
            case events.Plan():
                self.plan = event
            case events.Part():
                self._part(event)
            case events.Text():
                self.text = (self.text + sanitize(event.delta))[-TAIL:]
            case events.Sentence():
                self.text = (self.text + sanitize(event.lead + event.text))[-TAIL:]
                if self.first_words is None:
                    self.first_words = self.clock() - self.began + self.age
            case events.ChunkSummarized():
                self.finished, self.saved = self.finished + 1, self.saved + (event.level == 1)
            case events.Retried():
                self.prefilling, self.text, self._before = None, "", self.meter.tokens
            case events.Summarized():
                self.summary = event.summary
            case Prefilling():
                self.prefilling = event
            case Prefilled():
                self.prefilling = None
            case Accepted() if event.nodes:
                self.batch_size = event.batch_size
            case Retrieved():
                self.retrieved = event

    def _part(self, part: events.Part) -> None:
        if self.part is None or part.level != self.part.level:
            self.finished, self.reused, self.batch_size = 0, 0, 1
        self.reused += part.reused
        if self.batch_size == 1:
            self.text, self._before = "", self.meter.tokens
        if part.final:
            self.finished = part.number - 1
        self.part, self.stage, self.prefilling = part, None, None

    @property
    def tokens(self) -> int:
        """Tokens written of the current part; in a batch, of all parts of the level."""
        return self.meter.tokens - self._before

    @property
    def speed(self) -> float:
        """Tokens a second: of all sequences together while several are decoded in a batch, else of single ones."""
        return self.meter.speed(batched=self.batch_size > 1)

    @property
    def share(self) -> float | None:
        """Share of the stage, or else of the run, that is done; None if unknown."""
        if self.stage is None:
            return self.estimate.share
        return min(self.stage.done / self.stage.total, 1.0) if self.stage.total else None


def format_size(plan: events.Plan) -> str:
    """The size of a document: "52 pages, 18,240 words"."""
    return f"{format_many(plan.pages, plan.unit)}, {format_many(plan.words, 'word')}"


def format_stage(stage: events.Stage) -> str:
    """ "41.2 MB of 93.0 MB", "12 of 52 pages" or nothing."""
    if not stage.total:
        return ""
    if stage.unit == "bytes":
        return f"{format_bytes(stage.done)} of {format_bytes(stage.total)}"
    return f"{format_count(stage.done)} of {format_count(stage.total)} {stage.unit}".rstrip()


def format_left(progress: Progress) -> str:
    """ "about 1:20 left" of the whole run, or "" while unknown."""
    left = progress.estimate.seconds_left
    return "" if left is None else f"about {format_seconds(max(left, 1.0))} left"


def format_task(progress: Progress) -> tuple[str, str, str]:
    """The kind of part, its count, what is done: ("chunks", "3/12", "reading pages 1-40 (8,192/61,440 tokens)")."""
    part, reading = progress.part, progress.prefilling
    if part is None:
        return "", "", ""
    kind = "summary" if part.final else "chunks" if part.level == 1 else "merging"
    count = f"{min(progress.finished, part.parts)}/{part.parts}" if part.parts > 1 else ""
    if reading is None and progress.tokens > 1:  # the first token comes from reading
        batch = f" {progress.batch_size} at once" if progress.batch_size > 1 else ""
        return kind, count, f"writing{batch}: {format_many(progress.tokens, 'token')}"
    done = f" ({format_count(reading.done)}/{format_count(reading.total)} tokens)" if reading else ""
    unit = progress.plan.unit if progress.plan else "page"
    return kind, count, f"reading {format_pages(*part.pages, unit)}{done}"


def format_level(part: events.Part, reused: int) -> str:
    """The start of a level: "22 chunk summaries, 9 of them reused"."""
    kind = "chunk" if part.level == 1 else "merged"
    known = f", {reused:,} of them reused" if reused else ""
    return "writing the summary" if part.final else f"{part.parts:,} {kind} summaries{known}"


def format_gaps(coverage: events.Coverage) -> Iterator[str]:
    """What was not read as text: "4 pages without text (31, 88-90)", "12 words left out"; nothing else."""
    for pages, how in ((coverage.empty, "without text"), (coverage.ocr, "by OCR"), (coverage.failed, "unreadable")):
        if pages:
            yield f"{format_many(len(pages), coverage.unit)} {how} ({format_numbers(pages)})"
    lost = ((coverage.left_out, "word", "left out"), (coverage.unread, "part", "not read"))
    for count, noun, how in (*lost, (coverage.dropped, "token", "not read")):
        if count:
            yield f"{format_many(count, noun)} {how}"


def format_drafts(meter: Meter) -> Iterator[str]:
    """Speedup, accepted length and hits of single sequences, as far as measured."""
    if meter.speedup is not None:
        yield f"{format_speedup(meter.speedup)} plain"
    if meter.drafted_steps:
        yield f"accepted {meter.accepted_length:.1f}"
    if meter.hit is not None:
        yield f"hits {format_percent(meter.hit)}"


def format_done(summary: events.Summary, name: str = "") -> str:
    """The last line of a document: time, sizes, how a model wrote, what was not read; its `name`, if it is one of many.

    "done in 1.6 s · report.pdf · 5 pages · 293 words".
    """
    coverage, meter = summary.coverage, summary.meter
    pieces = ["done", name, format_many(coverage.pages, coverage.unit), format_many(count_words(summary.text), "word")]
    pieces[0] += f" in {format_seconds(summary.seconds)}"
    if summary.own:
        pieces.append(format_own(summary.own, coverage.unit))
    if summary.method == "abstractive" and summary.reused:
        pieces.append(f"{summary.reused:,} of {len(summary.plan.chunks):,} chunk summaries reused")
    if meter.tokens:
        pieces += [format_speed(meter.tokens_per_second), *format_drafts(meter)]
    return " · ".join(filter(None, (*pieces, *format_gaps(coverage))))


def format_own(own: events.OwnPart, unit: str) -> str:
    """ "from its executive summary, pages 3-4, and 3 other places"."""
    others = f", and {format_many(own.others, 'other place')}" if own.others else ""
    return f"from its {sanitize(own.name)}, {format_pages(*own.pages, unit)}{others}"


def incomplete(name: str, summary: events.Summary) -> PartialError | None:
    """The error for a summary that does not cover its whole document; None for one that does."""
    if summary.coverage.complete:
        return None
    fix = "the summary covers the rest; specextend extract shows what was read"
    return PartialError(f"{name} was not read completely", why="; ".join(format_gaps(summary.coverage)), fix=fix)


def format_details(progress: Progress, model: str) -> Table:
    """For --verbose, after a run: the `model` (which and why) if it wrote, start, reading, writing, drafting."""
    assert progress.summary is not None
    meter = progress.summary.meter
    lines = {"model": model} if progress.summary.method == "abstractive" else {}
    if progress.first_words is not None:
        lines["start"] = f"{format_seconds(progress.first_words)} to the first words"
    if meter.prompt_tokens:
        lines["reading"] = f"{format_many(meter.prompt_tokens, 'token')} in {format_seconds(meter.prefill_seconds)}"
    if meter.tokens:
        written, speed = format_many(meter.tokens, "token"), format_speed(meter.tokens_per_second)
        lines["writing"] = f"{written} in {format_seconds(meter.decode_seconds)} · {speed}"
    if meter.steps:
        lengths = ", ".join(f"{n} {format_percent(share)}" for n, share in histogram(meter.accepted_lengths) if share)
        times = (
            f"drafting {format_seconds(meter.draft_seconds)}, verifying {format_seconds(meter.verify_seconds)}, "
            f"retrieving {format_seconds(meter.retrieve_seconds)}"
        )
        drafts = (*format_drafts(meter), f"accepted lengths {lengths}", times)
        lines["drafting"] = " · ".join((progress.summary.drafter, *drafts))
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, text in lines.items():
        grid.add_row(Text(name, style=QUIET), Text(sanitize(text)))
    return grid
