"""What runs on the workers of `--ray`; `ray_pool` turns `Worker` into an actor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specextend_cli.errors import SpecextendError
from specextend_cli.summarize.result_store import GenerationCache

if TYPE_CHECKING:
    from specextend_cli.cli.options import ReadOptions
    from specextend_cli.summarize.summarizer import Options
    from specextend_cli.ui import Format


@dataclass(frozen=True)
class Task:
    """A document as the bytes of its file, and how to read it and write its summary."""

    name: str
    data: bytes
    options: ReadOptions
    password: str | None
    format: Format
    cite: bool
    heading: str


@dataclass(frozen=True)
class Result:
    """The formatted text, a line about it, warnings, and an error: beside a text if some pages were unreadable."""

    text: str = ""
    line: str = ""
    warnings: Sequence[str] = ()
    error: SpecextendError | None = None


class RemoteCache(GenerationCache):
    """A worker's client of the `GenerationCache` on the command's machine, an actor whose handle this takes."""

    def __init__(self, cache: Any) -> None:
        import ray

        super().__init__(None)
        self._ray, self._cache = ray, cache

    def get(self, key: str) -> str | None:
        """The stored text, if there is any."""
        found: str | None = self._ray.get(self._cache.get.remote(key))
        return found

    def attention(self, key: str) -> str:
        """The attention that was stored with the text, packed, or ""."""
        found: str = self._ray.get(self._cache.attention.remote(key))
        return found

    def put(self, key: str, text: str, attention: str = "") -> str:
        """Keep a text and its attention. They are on the disk of the command's machine when this returns."""
        self.problem = self._ray.get(self._cache.put.remote(key, text, attention))
        return self.problem


class Worker:
    """Summarizes documents. Models are loaded with the first document and stay loaded."""

    def __init__(self, options: Options, cache: Any) -> None:
        from specextend_cli.cli.options import go_offline
        from specextend_cli.summarize.summarizer import Summarizer

        go_offline(options.offline)
        self._summarizer = Summarizer(options, store=None if cache is None else RemoteCache(cache))

    def ready(self) -> None:
        """Return once the worker runs."""

    def work(self, task: Task) -> Result:
        """Read, summarize and write one document."""
        from specextend_cli.cli.source import read_settings
        from specextend_cli.documents.read import read_bytes
        from specextend_cli.summarize.events import Summarized, Warned
        from specextend_cli.ui.annotations import format_unsupported
        from specextend_cli.ui.progress import format_done, incomplete
        from specextend_cli.ui.results import WRITERS

        pieces: list[str] = []
        warnings: list[str] = []
        writer = WRITERS[task.format](pieces.append, task.cite, task.name, task.heading)
        try:
            document = read_bytes(task.name, task.data, **read_settings(task.options, task.password))
            for message in document.extraction.warnings:
                writer.add(Warned(message))
                warnings.append(message)
            for event in self._summarizer.run(document):
                writer.add(event)
                if isinstance(event, Warned):
                    warnings.append(event.message)
                elif isinstance(event, Summarized):
                    summary = event.summary
        except SpecextendError as error:
            return Result(warnings=warnings, error=error.with_traceback(None))
        if unsupported := format_unsupported(summary.unsupported):
            warnings.append(unsupported)
        return Result("".join(pieces), format_done(summary), warnings, incomplete(task.name, summary))
