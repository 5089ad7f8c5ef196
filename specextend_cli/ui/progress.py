"""The state of a run, accumulated from its events, and the base of the views that show it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from specextend_cli.engine.events import Event as EngineEvent
from specextend_cli.engine.events import Prefilled, Prefilling, Retrieved, Step
from specextend_cli.engine.meter import Meter
from specextend_cli.errors import PartialError
from specextend_cli.humanize import (
    format_amount,
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
from specextend_cli.summarize.word_count import count_words
from specextend_cli.ui.annotations import format_unsupported
from specextend_cli.ui.streams import Output, sanitize

RECENT = 64
_SHORT = 2048  # tokens of a prompt below which reading is not counted
TAIL = 400


@dataclass
class Progress:
    """Add events; read the state."""

    document: str
    clock: Callable[[], float] = time.monotonic
    meter: Meter = field(default_factory=Meter)
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT))
    estimate: Estimate = field(default_factory=Estimate)
    plan: events.Plan | None = None
    part: events.Part | None = None
    stage: events.Stage | None = None
    prefilling: Prefilling | None = None
    retrieved: Retrieved | None = None
    summary: events.Summary | None = None
    read: tuple[int, int] | None = None
    saved: int = 0  # chunks whose summaries or scores are stored, including those of earlier runs
    finished: int = 0  # finished answers of the current level
    level_read: int = 0  # prompts of the current level that were read
    level_tokens: int = 0  # written on the current level
    part_tokens: int = 0
    batch_size: int = 1
    tail: str = ""  # the end of the text that is being written; of several that grow side by side, of one
    answer: str = ""  # the end of the last finished text of the current level
    preview: str = ""  # what a guided run shows until its summary begins

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def unit(self) -> str:
        """Unit of the document: "page" or "section"."""
        return self.plan.unit if self.plan else "page"

    def add(self, event: events.Event) -> None:
        """Take one event."""
        self.estimate.add(event)
        match event:
            case events.Stage():
                self.stage = event
            case events.Plan():
                self.plan = event
            case events.Level():
                self.finished, self.batch_size, self.answer = 0, 1, ""
                self.level_read = self.level_tokens = 0
            case events.Part():
                if event.final:
                    self.finished = event.number - 1
                    self.tail = ""
                self.part, self.stage, self.prefilling, self.part_tokens = event, None, None, 0
                first, last = self.read or event.pages
                self.read = (min(first, event.pages[0]), max(last, event.pages[1]))
            case events.Preview():
                self.preview = sanitize(event.text)
            case events.Text():
                self.preview = ""
                self.tail = (self.tail + sanitize(event.delta))[-TAIL:]
            case events.ChunkSummarized():
                self.finished += 1
                self.saved += event.level == 1
                self.answer = sanitize(event.text).rstrip()[-TAIL:]
                if self.answer.endswith(self.tail.rstrip()):  # else another one's end came first
                    self.tail = ""
            case events.ChunkRead():
                self.finished, self.saved = event.number, self.saved + 1
            case events.Summarized():
                self.summary = event.summary
            case events.Retried():
                self.prefilling, self.part_tokens, self.tail = None, 0, ""
            case events.Warned() | events.Sentence():
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
                self.level_read += 1
            case Step():
                self.part_tokens += event.accepted
                self.level_tokens += event.accepted
                if event.nodes:
                    self.batch_size = event.batch_size
                if event.nodes and event.batch_size == 1:
                    self.recent.append(event.accepted)
            case Retrieved():
                self.retrieved = event

    @property
    def speed(self) -> float:
        """Tokens a second: of all sequences together while several are decoded in a batch, else of single ones."""
        return self.meter.batched_speed if self.batch_size > 1 else self.meter.single_speed

    @property
    def generates(self) -> bool:
        """True if the model is to write, as far as is known."""
        if self.plan is None:
            return True
        work = self.plan.work
        return self.plan.counted == "token" and (not work or any(level.written for level in work))

    @property
    def seconds(self) -> float:
        """Seconds since the document was started."""
        return self.clock() - self.started

    @property
    def share(self) -> float | None:
        """Share of the stage that is done; None if unknown."""
        if self.stage is None or not self.stage.total:
            return None
        return min(self.stage.done / self.stage.total, 1.0)


class View:
    """Takes the events of a document and the text for stdout; this one shows only warnings, for `--quiet`."""

    def __init__(self, output: Output, document: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.output = output
        self.progress = Progress(document, clock)

    def add(self, event: events.Event) -> None:
        """Take one event."""
        self.progress.add(event)
        if isinstance(event, events.Warned):
            self.output.warn(event.message)

    def write(self, text: str) -> None:
        """Write text of the result to stdout without disturbing what the terminal shows."""
        self.output.write(text)

    def __enter__(self) -> View:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """Warn of facts that the source lacks. After an error, of the output say, no view says that it is done."""
        summary = self.progress.summary
        if summary is not None and (line := format_unsupported(summary.unsupported)):
            self.output.warn(line)


def format_stage(stage: events.Stage) -> str:
    """ "41.2 MB of 93.0 MB", "12 pages" or nothing."""
    if stage.total:
        done = format_amount(stage.done, stage.unit if stage.unit == "bytes" else "")
        return f"{done} of {format_amount(stage.total, stage.unit)}"
    return format_amount(stage.done, stage.unit) if stage.done else ""


def format_left(progress: Progress) -> str:
    """ "about 1:20 left" of the whole run, or "" while unknown."""
    left = progress.estimate.seconds_left
    if left is None:
        return ""
    if left < 1:
        return "less than 1 s left"
    return f"about {format_seconds(left) if left > 10 else f'{left:.0f} s'} left"


def format_task(progress: Progress) -> tuple[str, str]:
    """The current task and its count: ("chunk summaries", "3/12"), or ("summary", "") of one part."""
    part = progress.part
    if part is None:
        return "", ""
    count = f"{min(progress.finished, part.parts)}/{part.parts}"
    if not progress.generates and part.parts > 1:
        return "chunks", count
    if part.final:
        return "summary", count if part.parts > 1 else ""
    return "chunk summaries" if part.level == 1 else "merged summaries", count


def format_doing(progress: Progress) -> str:
    """ "reading pages 1-40 (8,192/61,440)", "writing 16 at once: 2,311 tokens", "writing: 37 tokens"."""
    part, reading = progress.part, progress.prefilling
    if part is None:
        return ""
    if reading is not None or progress.part_tokens <= 1 or not progress.generates:  # the first token is the prompt's
        pages = f"reading {format_pages(*part.pages, progress.unit)}"
        # A batch reads several prompts, of which each gives one token, before it writes on.
        ahead = progress.level_read if progress.level_tokens <= progress.level_read and progress.generates else 0
        if reading is not None and ahead:
            pages += f", {ahead} of {part.parts} read"
        if reading is None or reading.total <= _SHORT:
            return pages
        return f"{pages} ({format_count(reading.done)}/{format_count(reading.total)})"
    if progress.batch_size > 1:
        return f"writing {progress.batch_size} at once: {format_many(progress.level_tokens, 'token')}"
    return f"writing: {format_many(progress.part_tokens, 'token')}"


def format_level(level: events.Level) -> str:
    """The start of a level: "22 chunk summaries to write", "9 of 22 chunk summaries reused"."""
    if level.final:
        if level.reused == level.prompts:
            return "summary reused" if level.prompts == 1 else f"all {level.prompts} parts of the summary reused"
        if level.reused:
            return f"writing the summary; {level.reused} of {level.prompts} parts reused"
        return "writing the summary" + (f" in {level.prompts} parts" if level.prompts > 1 else "")
    name = "chunk" if level.level == 1 else "merged"
    if level.reused:
        return f"{level.reused:,} of {level.prompts:,} {name} summaries reused"
    return f"{level.prompts:,} {name} summaries to write"


def format_coverage(coverage: events.Coverage, span: tuple[int, int] | None = None, counted: str = "token") -> str:
    """ "pages 1-52 read; 4 without text (31, 88-90); 0 tokens dropped"; `span`: first and last page read, if known.

    That nothing was dropped is not said where words were left out in reading, or parts not opened.
    """
    if span is not None and span[1] - span[0] + 1 == coverage.pages:
        pieces = [f"{format_pages(*span, coverage.unit)} read"]
    else:
        pieces = [f"{format_many(coverage.pages, coverage.unit)} read"]
    for pages, how in ((coverage.empty, "without text"), (coverage.ocr, "by OCR"), (coverage.failed, "unreadable")):
        if pages:
            pieces.append(f"{len(pages)} {how} ({format_numbers(pages)})")
    if coverage.left_out:
        pieces.append(f"{format_many(coverage.left_out, 'word')} left out")
    if coverage.unread:
        pieces.append(f"{format_many(coverage.unread, 'part')} not read")
    if coverage.dropped or not (coverage.left_out or coverage.unread):
        pieces.append(f"{format_many(coverage.dropped, counted)} dropped")
    return "; ".join(pieces)


def format_drafts(meter: Meter) -> Iterable[str]:
    """Speedup, accepted length and hit rate of single sequences, as far as measured, one string each."""
    if meter.speedup is not None:
        yield f"{format_speedup(meter.speedup)} plain"
    if meter.drafted_steps:
        yield f"accepted {meter.accepted_length:.1f}"
    if meter.hit is not None:
        yield f"hits {format_percent(meter.hit)}"


def format_reused(summary: events.Summary) -> str:
    """ "9 of 22 chunk summaries reused", "summary reused", "2 of 7 chunks known" where they are only read, or ""."""
    if not summary.reused:
        return ""
    chunks = len(summary.plan.chunks)
    if summary.method != "abstractive":
        return f"{summary.reused:,} of {format_many(chunks, 'chunk')} known"
    return "summary reused" if chunks == 1 else f"{summary.reused:,} of {chunks:,} chunk summaries reused"


def format_done(summary: events.Summary, span: tuple[int, int] | None = None) -> str:
    """The final line of a document: what was written, or how much of the document is quoted."""
    reused, took, meter = format_reused(summary), format_seconds(summary.seconds), summary.meter
    if summary.method != "abstractive":
        made = f"{format_many(count_words(summary.text), 'word')} quoted in {took}"
    elif not meter.tokens and reused:
        made = took
    else:
        speed = format_speed(meter.tokens_per_second)
        rest = max(summary.seconds - meter.prefill_seconds - meter.decode_seconds, 0.0)
        made = (
            f"{format_many(meter.tokens, 'token')} written in {took} (reading {format_seconds(meter.prefill_seconds)},"
            f" writing {format_seconds(meter.decode_seconds)}{f' at {speed}' if speed else ''}, loading and the rest"
            f" {format_seconds(rest)})"
        )
    run = (f"run {summary.run}",) if summary.run else ()
    coverage = format_coverage(summary.coverage, span, summary.plan.counted)
    pieces = (reused, made, *format_drafts(meter), coverage, *run)
    return " · ".join(filter(None, pieces))


def incomplete(name: str, summary: events.Summary) -> PartialError | None:
    """The error for a summary that does not cover its whole document; None for one that does."""
    if summary.coverage.complete:
        return None
    why = format_coverage(summary.coverage, counted=summary.plan.counted)
    fix = "the summary covers the rest; --strict fails instead"
    return PartialError(f"{name} was not read completely", why=why, fix=fix)
