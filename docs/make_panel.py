"""The picture of the panel in the README: a frame of a real `compare`, late in what SpecExtend writes."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from rich.text import Text

from specextend_cli import Engine, Request, read
from specextend_cli.bench.comparison import Comparison, SideBegins, compare_once
from specextend_cli.ui.panel import draw
from specextend_cli.ui.progress import Progress

DOCS = Path(__file__).parent
SAMPLE = DOCS / "samples" / "flood-warning.pdf"
TOKENS = 60
"""The frame is taken when so many tokens are written with drafts."""


def main() -> None:
    """Run, and save the frame."""
    console = Console(record=True, width=84, height=30, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text(f"$ specextend compare {SAMPLE.name}\n", style="bold"))
    progress, plain = Progress(), True
    for event in compare_once(read(SAMPLE), Engine(), Request(mode="abstractive")):
        match event:
            case SideBegins():
                progress, plain = Progress(), event.plain
            case Comparison():
                break
            case _:
                progress.add(event)
        if not plain and progress.tokens >= TOKENS:
            console.print(draw(f"{SAMPLE.name}, SpecExtend", progress, "", console))
            (DOCS / "panel.svg").write_text(console.export_svg(title="specextend"), encoding="utf-8")
            print(progress.meter.accepted_length, progress.meter.hit, progress.speed, progress.meter.speedup)
            return
    raise SystemExit("the text was too short for a picture")


if __name__ == "__main__":
    main()
