"""One worker of a Ray cluster: a summarizer that takes documents one after the other, and the notes all of them share.

Nothing here imports ray: the driver makes actors of these two classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specextend_cli.errors import SpecextendError
from specextend_cli.summarize.generation_cache import GenerationCache

if TYPE_CHECKING:
    from specextend_cli.summarize.summarizer import Options
    from specextend_cli.ui.annotations import Annotations
    from specextend_cli.ui.writers import Format


@dataclass(frozen=True)
class Task:
    """A document as its file's bytes, and how it is to be read and written."""

    name: str
    data: bytes
    pages: str | None
    password: str | None
    format: Format
    marks: Annotations
    ocr: str | None = None
    full_page: bool = False


@dataclass(frozen=True)
class Done:
    """What became of a task: the result as the format has it, one line about it, warnings, or what went wrong.

    With an `error` there may still be a text: that of a document which could not be read completely.
    """

    text: str = ""
    line: str = ""
    warnings: Sequence[str] = ()
    error: SpecextendError | None = None


class Notes:
    """The notes of the machine on which the command runs, for workers anywhere."""

    def __init__(self, path: Path | None) -> None:
        self._store = GenerationCache(path)

    def get(self, key: str) -> str | None:
        """The stored text, if there is any."""
        return self._store.get(key)

    def looks(self, key: str) -> str:
        """What was stored with the text about where the target looked, or ""."""
        return self._store.looks(key)

    def put(self, key: str, text: str, looks: str) -> str:
        """Keep a text and its looks; returns what is wrong with the store, if anything."""
        self._store.put(key, text, looks)
        return self._store.problem


class SharedNotes(GenerationCache):
    """A worker's view of `Notes`: an actor's handle in place of a file."""

    def __init__(self, notes: Any) -> None:
        super().__init__(None)
        self._notes = notes

    def get(self, key: str) -> str | None:
        """The stored text, if there is any."""
        import ray

        found: str | None = ray.get(self._notes.get.remote(key))
        return found

    def looks(self, key: str) -> str:
        """What was stored with the text about where the target looked, or ""."""
        import ray

        found: str = ray.get(self._notes.looks.remote(key))
        return found

    def put(self, key: str, text: str, looks: str = "") -> None:
        """Keep a text and its looks. They are on the disk of the command's machine when this returns."""
        import ray

        self.problem = ray.get(self._notes.put.remote(key, text, looks))


class Worker:
    """Summarizes what it is given. Models are loaded with the first document and stay."""

    def __init__(self, options: Options, notes: Any) -> None:
        from specextend_cli.cli.options import go_offline
        from specextend_cli.summarize.summarizer import Summarizer

        go_offline(options.offline)
        self._summarizer = Summarizer(options, store=None if notes is None else SharedNotes(notes))

    def ready(self) -> None:
        """Answers when the worker runs."""

    def work(self, task: Task) -> Done:
        """Read, summarize and write one document."""
        from specextend_cli.cli.summarize import incomplete
        from specextend_cli.documents.ocr import Ocr
        from specextend_cli.documents.pages import parse_pages
        from specextend_cli.documents.read import read_bytes
        from specextend_cli.summarize.events import Summarized, Warned
        from specextend_cli.ui.annotations import format_unsupported
        from specextend_cli.ui.progress import format_done
        from specextend_cli.ui.writers import WRITERS

        pieces: list[str] = []
        warnings: list[str] = []
        writer = WRITERS[task.format](pieces.append, task.marks, task.name)
        try:
            pages = None if task.pages is None else parse_pages(task.pages)
            ocr = None if task.ocr is None else Ocr(task.ocr)
            document = read_bytes(
                task.name, task.data, pages=pages, password=task.password, ocr=ocr, full_page=task.full_page
            )
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
            return Done(warnings=warnings, error=error.with_traceback(None))
        if unsupported := format_unsupported(summary.unsupported):
            warnings.append(unsupported)
        return Done("".join(pieces), format_done(summary), warnings, incomplete(task.name, summary))
