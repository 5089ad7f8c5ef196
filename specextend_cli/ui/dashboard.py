"""One frame of the live panel, row by row, and the final line that replaces it."""

from __future__ import annotations

import sys
import threading

import psutil
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.panel import Panel as Frame
from rich.text import Text

from specextend_cli.engine.events import Retrieved
from specextend_cli.humanize import format_bytes, format_clock, format_count, format_percent, format_speedup, is_slower
from specextend_cli.ui.characters import block, density, histogram
from specextend_cli.ui.progress import TAIL, Progress, format_doing, format_done, format_left, format_stage, format_task
from specextend_cli.ui.streams import ACCENT, AMBER, GOOD, QUIET, sanitize

LABEL = 10
VALUE = 8
DETAIL = 30  # cells of text before a bar, so that bars start in one column
COMPACT = 56  # cells inside the frame; narrower panels show less
MAX_WIDTH = 80  # cells
SHORT, LOW = 12, 6  # terminal rows below which the panel has three lines, or one
_TEXT = 3  # lines of the text of a batch, in which nothing is drafted and rows are free
_BELOW = 2  # terminal rows that the first extract leaves free below the panel: the cursor's, and one for a fold
_LABELS = {"chunks": "chunks", "chunk summaries": "chunks", "merged summaries": "merging", "summary": "summary"}


def format_memory() -> str:
    """The memory of this process, "1.3 GB + 4.0 GB gpu". Asks torch only if it is imported already."""
    main = format_bytes(psutil.Process().memory_info().rss)
    # Called from the panel's thread, perhaps during `import torch`, which defines `cuda` late.
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    used = cuda.memory_reserved() if cuda is not None and cuda.is_initialized() else 0
    return f"{main} + {format_bytes(used)} gpu" if used else main


class Dashboard:
    """One frame of the panel."""

    def __init__(self, progress: Progress, tail: str, memory: str, lock: threading.Lock) -> None:
        self.progress = progress
        self.tail = tail
        self.memory = memory
        self.lock = lock
        self.plain = False  # whether there are no colours, so that characters must tell the difference

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # The margin keeps the frame from being folded while the terminal gets narrower: folded rows cannot be erased.
        outer = min(options.max_width - options.max_width // 20, MAX_WIDTH)
        width = max(outer - 4, 1)
        self.plain = options.ascii_only or console.no_color or console.color_system is None
        with self.lock:
            height = options.size.height
            framed = height >= SHORT
            if height < LOW:
                rows = [self._activity(outer)]
            else:
                rows = self.rows(width) if framed else self.brief(outer)
                rows += self._preview(width if framed else outer, height - len(rows) - _BELOW - 2 * framed)
        if not framed:
            yield from rows
            return
        clock = format_clock(self.progress.seconds)
        yield Frame(
            Text("\n").join(rows),
            box=box.ROUNDED,
            width=outer,
            border_style=QUIET,
            title=_clip(Text(sanitize(self.progress.document), style="bold default"), width - 4),
            title_align="left",
            subtitle=Text(f"memory {self.memory} · {clock}" if width >= 32 else clock, style=QUIET),
            subtitle_align="right",
        )

    def rows(self, width: int) -> list[Text]:
        """The lines of the panel, at most `width` cells each."""
        progress = self.progress
        rows = [row for row in (self._progress(width), self._activity(width)) if row is not None]
        if progress.meter.steps and progress.batch_size == 1:  # in a batch nothing is drafted
            rows.append(self._accepted(width))
        if progress.speed:
            rows.append(self._speed(width))
        seen = progress.retrieved if progress.batch_size == 1 else None
        if seen is not None and sum(end - start for start, end in seen.spans) < seen.length:  # else it sees everything
            rows.insert(-1, self._sees(seen, width))
        text, style = self.tail or progress.tail or progress.answer, "" if self.tail else f"italic {QUIET}"
        if progress.batch_size > 1 and not self.tail:
            rows += _end(text, width, style)
        elif line := text.rsplit("\n", 1)[-1]:
            rows.append(_tail(line, width, style))
        return rows

    def brief(self, width: int) -> list[Text]:
        """Three lines: progress, current activity, and the latest words or the speed."""
        progress = self.progress
        title = Text(sanitize(progress.document), style="bold default")
        rows = [self._progress(width) or _clip(title, width), self._activity(width)]
        if self.tail:
            rows.append(_tail(self.tail.rsplit("\n", 1)[-1], width, ""))
        elif progress.speed:
            rows.append(self._speed(width))
        return rows

    def _preview(self, width: int, room: int) -> list[Text]:
        """The first extract under a line that says what it is, in at most `room` lines; [] after it."""
        text = self.progress.preview
        if not text or room < 2:
            return []
        begun = text[: (room + 1) * width]  # folds to more lines than are shown, where it is not all
        lines = [line.rstrip() for part in begun.split("\n") if part.strip() for line in fold(part.strip(), width)]
        shown = lines[: room - 1]
        if len(lines) > len(shown):
            shown[-1] = set_cell_size(shown[-1], min(cell_len(shown[-1]), width - 2)).rstrip() + " …"
        label = _clip(Text("first extract, while the model reads:", style=QUIET), width)
        return [label, *(Text(line, style="dim") for line in shown)]

    def _activity(self, width: int) -> Text:
        """The current activity."""
        progress = self.progress
        if progress.stage is not None:
            head = Text.assemble((sanitize(progress.stage.name), "bold"))
            if detail := format_stage(progress.stage):
                head.append(f"  {detail}", style=QUIET)
            return _gauge(head, progress.share, width, self.plain)
        if progress.part is None:
            return Text("starting", style="bold")
        task, count = format_task(progress)
        return _row(_LABELS[task], count, Text(format_doing(progress)), width)

    def _progress(self, width: int) -> Text | None:
        """Share of the run that is done and time left; None while unknown."""
        progress, share = self.progress, self.progress.estimate.share
        if progress.part is None or progress.stage is not None or share is None:
            return None
        return _row("progress", format_percent(share), Text(format_left(progress)), width, share, plain=self.plain)

    def _accepted(self, width: int) -> Text:
        """Mean accepted length, its distribution, and the latest steps."""
        text = Text()
        wide = width >= 64
        bins = histogram(self.progress.meter.accepted_lengths)
        peak = max(share for _, share in bins) or 1.0
        for size, share in bins:
            text.append(f"{' ' if text else ''}{size}", style=QUIET)
            drawn = block(share / peak) if share else self._nothing
            text.append(drawn * (2 if wide else 1), style=ACCENT if share else QUIET)
        room = width - LABEL - VALUE - text.cell_len - 4
        if room >= 12:
            text.append("  │ ", style=QUIET)
            for length in list(self.progress.recent)[-room:]:
                text.append(block((length - 1) / 6), style=QUIET if length == 1 else ACCENT)
        return _row("accepted", f"{self.progress.meter.accepted_length:.2f}", text, width)

    @property
    def _nothing(self) -> str:
        """An empty place in a chart, which without colours must not look like a low bar."""
        return " " if self.plain else "▁"

    def _sees(self, retrieved: Retrieved, width: int) -> Text:
        """The positions in the text that the drafter attends to."""
        text = Text()
        for share in density(retrieved.spans, retrieved.length, max(width - LABEL - VALUE, 1)):
            # The square root keeps sparse parts of the map visible beside dense ones.
            text.append(block(share**0.5) if share else self._nothing, style=ACCENT if share else QUIET)
        return _row("sees", "", text, width)

    def _speed(self, width: int) -> Text:
        meter, speed = self.progress.meter, self.progress.speed
        shown = f"{speed:.1f}" if speed < 100 else format_count(round(speed))
        if self.progress.batch_size > 1:
            return _row("speed", shown, Text(f"tok/s, {self.progress.batch_size} texts together"), width)
        text = Text("tok/s")
        speedup = meter.speedup
        if speedup is not None:
            text.append(" · ", style=QUIET)
            text.append(f"{format_speedup(speedup)} plain", style=AMBER if is_slower(speedup) else GOOD)
            if is_slower(speedup) and width >= COMPACT:
                text.append("  --no-spec is faster here", style=AMBER)
        if meter.hit is not None:
            text.append(f" · hits {format_percent(meter.hit)}", style=QUIET)
        return _row("speed", shown, text, width)


def fold(paragraph: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces if possible. The last one keeps its trailing space."""
    lines = []
    while cell_len(paragraph.rstrip()) > width:
        fits = set_cell_size(paragraph, width + 1)
        space = fits.rfind(" ", 1)
        cut = space if space > 0 and paragraph[:space].strip() else len(set_cell_size(paragraph, width).rstrip())
        cut = max(cut, 1)
        lines.append(paragraph[:cut].rstrip())
        paragraph = paragraph[cut:].lstrip(" ")
    return [*lines, paragraph]


def collapsed(progress: Progress) -> Text:
    """The final line that replaces the panel."""
    summary = progress.summary
    assert summary is not None
    line = Text(f"done · {format_done(summary, progress.read)}", style=QUIET)
    line.stylize(GOOD, 0, len("done"))
    speedup = summary.meter.speedup
    if speedup is not None and is_slower(speedup):
        line.highlight_words([f"{format_speedup(speedup)} plain"], style=AMBER)
    return line


def _row(label: str, value: str, content: Text, width: int, share: float | None = None, *, plain: bool = False) -> Text:
    """One line: a quiet label, a bold value, an explanation and, with `share`, a bar to the margin."""
    compact = width < COMPACT
    head = Text.assemble((label.ljust(LABEL - compact), QUIET), (value.ljust(VALUE - 2 * compact), "bold"))
    return _gauge(head.append(content), share, width, plain)


def _gauge(head: Text, share: float | None, width: int, plain: bool) -> Text:
    """`head` and, in the rest of the line, a bar that is `share` full, if known; the empty part is thin if `plain`."""
    room = width - max(head.cell_len + 3, LABEL + VALUE + DETAIL)
    if share is None or room < 8:
        return _clip(head, width)
    full = round(share * room)
    head.pad_right(width - room - head.cell_len)
    head.append("━" * full, style=ACCENT)
    return head.append(("─" if plain else "━") * (room - full), style=QUIET)


def _clip(text: Text, width: int) -> Text:
    text.truncate(max(width, 1), overflow="ellipsis")
    return text


def _end(text: str, width: int, style: str) -> list[Text]:
    """The last lines of `text`, folded."""
    lines = [line.rstrip() for line in fold(" ".join(text.split()), width - 2) if line.strip()]
    shown = lines[-_TEXT:]
    if shown and (len(lines) > len(shown) or len(text) >= TAIL):
        shown[0] = f"… {shown[0]}"
    return [Text(line, style=style) for line in shown]


def _tail(text: str, width: int, style: str) -> Text:
    """The end of `text`, as many words as fit."""
    if cell_len(text) > width:
        while cell_len(text) > width - 2:
            text = text.split(" ", 1)[1] if " " in text else text[1:]
        text = f"… {text}"
    return Text(text, style=style)
