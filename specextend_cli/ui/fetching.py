"""Progress of a download or a conversion, on the same views as everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from specextend_cli.summarize.events import Stage
from specextend_cli.ui.streams import Output
from specextend_cli.ui.view import View, open_view


@contextmanager
def fetching(output: Output, name: str, *, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A callback `progress(step, done, total)` in bytes. Nothing is shown until it is called."""
    shown: list[View] = []
    with ExitStack() as stack:

        def progress(step: str, done: int, total: int) -> None:
            if not shown:
                shown.append(stack.enter_context(open_view(output, name, quiet=quiet)))
            shown[0].add(Stage(step, done, total, "bytes"))

        yield progress
