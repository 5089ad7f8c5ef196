"""Which of the views shows a run: the panel, plain lines, or almost nothing."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from specextend_cli.summarize.events import Event
from specextend_cli.ui.panel import Panel
from specextend_cli.ui.plain import Plain, Silent
from specextend_cli.ui.progress import Progress
from specextend_cli.ui.streams import Output


class View(Protocol):
    """Consumes a document's events and shows them on stderr; `write` takes what belongs on stdout."""

    progress: Progress

    def add(self, event: Event) -> None:
        """Take one event in."""

    def write(self, text: str) -> None:
        """Put text of the result on stdout, in accord with whatever else the terminal shows."""

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def open_view(output: Output, document: str, *, quiet: bool = False, raw: bool = False) -> View:
    """The view that fits. `raw` results are for programs: no line of them is folded."""
    if quiet:
        return Silent(output, document)
    return Panel(output, document, raw=raw) if output.animated else Plain(output, document)
