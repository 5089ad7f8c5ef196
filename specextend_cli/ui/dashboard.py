"""One frame of the live panel, row by row, and the line that it leaves behind."""

from __future__ import annotations

import threading

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel as Frame
from rich.text import Text

from specextend_cli.figures import format_clock, format_count, format_percent, format_speedup, is_slower
from specextend_cli.ui.blocks import block, density, histogram
from specextend_cli.ui.colours import ACCENT, AMBER, GOOD, QUIET
from specextend_cli.ui.memory import Memory
from specextend_cli.ui.progress import Progress, format_doing, format_done, format_left, format_stage, format_task
from specextend_cli.ui.streams import sanitize

LABEL = 10
VALUE = 8
BESIDE = 30  # cells of explanation before a bar: bars in different rows start at one column
COMPACT = 56  # cells inside the frame; below, only what matters most is said
_LABELS = {"chunk summaries": "chunks", "merged summaries": "merging", "summary": "summary"}
SHORT = 12  # rows; a terminal this low keeps only the line that moves


class Dashboard:
    """One frame of the panel."""

    def __init__(self, progress: Progress, tail: str, used: Memory, lock: threading.Lock) -> None:
        self.progress = progress
        self.tail = tail
        self.used = used
        self.lock = lock

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - 4, 1)
        with self.lock:
            rows = self.rows(width)[: 1 if options.size.height < SHORT else None]
        if options.size.height < SHORT:
            yield from rows
            return
        clock = format_clock(self.progress.seconds)
        yield Frame(
            Text("\n").join(rows),
            box=box.ROUNDED,
            border_style=QUIET,
            title=_clip(Text(sanitize(self.progress.document), style="bold default"), width - 4),
            title_align="left",
            subtitle=Text(f"memory {self.used} · {clock}" if width >= 32 else clock, style=QUIET),
            subtitle_align="right",
        )

    def rows(self, width: int) -> list[Text]:
        """The panel's lines; `width` cells each at most."""
        progress = self.progress
        rows = [self._activity(width)]
        share = progress.estimate.share
        if progress.part is not None and progress.stage is None and share is not None:
            rows.insert(0, _row("progress", format_percent(share), Text(format_left(progress)), width, share))
        if progress.meter.steps:
            rows.append(self._accepted(width))
        if progress.meter.decode_seconds:
            rows.append(self._speed(width))
        seen = progress.retrieved
        if seen is not None and sum(end - start for start, end in seen.spans) < seen.length:  # else there was no choice
            rows.insert(-1, self._sees(width))
        text = (self.tail or progress.tail).rsplit("\n", 1)[-1]
        if text:
            rows.append(_tail(text, width, "" if self.tail else f"italic {QUIET}"))
        return rows

    def _activity(self, width: int) -> Text:
        """What is going on this moment."""
        progress = self.progress
        if progress.stage is not None:
            head = Text.assemble((sanitize(progress.stage.name), "bold"))
            detail = format_stage(progress.stage)
            if detail:
                head.append(f"  {detail}", style=QUIET)
            return _gauge(head, progress.share, width)
        if progress.part is None:
            return Text("starting", style="bold")
        task, count = format_task(progress)
        return _row(_LABELS[task], count, Text(format_doing(progress)), width)

    def _accepted(self, width: int) -> Text:
        """Mean accepted length, its distribution, and the latest steps."""
        text = Text()
        wide = width >= 64
        bins = histogram(self.progress.meter.accepted_lengths)
        peak = max(share for _, share in bins) or 1.0
        for size, share in bins:
            text.append(f"{' ' if text else ''}{size}", style=QUIET)
            if share:
                text.append(block(share / peak) * (2 if wide else 1), style=ACCENT)
            else:
                text.append("▁" * (2 if wide else 1), style=QUIET)
        room = width - LABEL - VALUE - text.cell_len - 4
        if room >= 12:
            text.append("  │ ", style=QUIET)
            for length in list(self.progress.recent)[-room:]:
                text.append(block((length - 1) / 6), style=QUIET if length == 1 else ACCENT)
        return _row("accepted", f"{self.progress.meter.accepted_length:.2f}", text, width)

    def _sees(self, width: int) -> Text:
        """Where in the text the drafter's working set lies."""
        retrieved = self.progress.retrieved
        assert retrieved is not None
        text = Text()
        for share in density(retrieved.spans, retrieved.length, max(width - LABEL - VALUE, 1)):
            # The square root keeps sparse parts of the map visible beside dense ones.
            text.append(block(share**0.5) if share else "▁", style=ACCENT if share else QUIET)
        return _row("sees", "", text, width)

    def _speed(self, width: int) -> Text:
        meter = self.progress.meter
        text = Text("tok/s")
        speedup = meter.speedup
        if speedup is not None:
            text.append(" · ", style=QUIET)
            text.append(f"{format_speedup(speedup)} plain", style=AMBER if is_slower(speedup) else GOOD)
            if is_slower(speedup) and width >= COMPACT:
                text.append("  --no-spec is faster here", style=AMBER)
        if meter.hit is not None:
            text.append(f" · hits {format_percent(meter.hit)}", style=QUIET)
        speed = meter.tokens_per_second
        return _row("speed", f"{speed:.1f}" if speed < 100 else format_count(speed), text, width)


def collapsed(progress: Progress) -> Text:
    """What remains of the panel: one line."""
    summary = progress.summary
    assert summary is not None
    line = Text(f"done · {format_done(summary, progress.read)}", style=QUIET)
    line.stylize(GOOD, 0, len("done"))
    speedup = summary.meter.speedup
    if speedup is not None and is_slower(speedup):
        line.highlight_words([f"{format_speedup(speedup)} plain"], style=AMBER)
    return line


def _row(label: str, value: str, content: Text, width: int, share: float | None = None) -> Text:
    """One line of the panel: a quiet label, a bold value, what explains it and, with `share`, a bar to the margin."""
    compact = width < COMPACT
    head = Text.assemble((label.ljust(LABEL - compact), QUIET), (value.ljust(VALUE - 2 * compact), "bold"))
    head.append(content)
    return _clip(head, width) if share is None else _gauge(head, share, width)


def _gauge(head: Text, share: float | None, width: int) -> Text:
    """`head` and, in what is left of the line, a bar that is `share` full."""
    room = width - max(head.cell_len + 3, LABEL + VALUE + BESIDE)
    if share is None or room < 8:
        return _clip(head, width)
    full = round(share * room)
    head.pad_right(width - room - head.cell_len)
    head.append("━" * full, style=ACCENT)
    return head.append("━" * (room - full), style=QUIET)


def _clip(text: Text, width: int) -> Text:
    text.truncate(max(width, 1), overflow="ellipsis")
    return text


def _tail(text: str, width: int, style: str) -> Text:
    """The end of `text`, as many words as fit."""
    if cell_len(text) > width:
        while cell_len(text) > width - 2:
            text = text.split(" ", 1)[1] if " " in text else text[1:]
        text = f"… {text}"
    return Text(text, style=style)
