"""The picture of the panel in the README: a frame of a real run in abstractive mode, late in its summary."""

from __future__ import annotations

import io
import threading
from pathlib import Path

from rich.console import Console
from rich.text import Text

from specextend_cli import Options, Summarizer, SummaryRequest, read
from specextend_cli.ui.dashboard import Dashboard, format_memory
from specextend_cli.ui.progress import Progress

DOCS = Path(__file__).parent
SAMPLE = DOCS / "samples" / "flood-warning.pdf"
STEPS = 250  # verifications before the frame is taken


def main() -> None:
    """Run, and keep the frame after `STEPS` verifications."""
    progress, taken = Progress(SAMPLE.name), ""
    with Summarizer(Options(request=SummaryRequest(mode="abstractive"), cache=False)) as summarizer:
        for event in summarizer.run(read(SAMPLE)):
            progress.add(event)
            if progress.meter.steps == STEPS:
                console = Console(record=True, width=100, height=30, file=io.StringIO(), force_terminal=True)
                console.print(Text(f"$ specextend summarize {SAMPLE.name} --mode abstractive\n", style="bold"))
                console.print(Dashboard(progress, "", format_memory(), threading.Lock()))
                taken = console.export_svg(title="specextend")
                break
    if not taken:
        raise SystemExit("the summary was too short for a picture")
    (DOCS / "panel.svg").write_text(taken, encoding="utf-8")


if __name__ == "__main__":
    main()
