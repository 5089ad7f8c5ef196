"""One document to be read, and how: what `read` asks of the sandbox, and what a parser is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specextend_cli.documents.request import PageRange

Report = Callable[[int, int, int], None]
"""Called with the page (1-based) that is read next, or 0, the number of pages that were read, and that of all."""


def _unreported(page: int, done: int, total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Source:
    """One document.

    `name` is for messages, `given` for commands in them: the path as it was named, if there is one. `kind` is its
    format as detected. The content is in the file at `path`, or is `data`. `password` opens an encrypted PDF. With
    `full_page` all of a web page is read, not only its article. `skipped` pages are not read: by page, why. With `ocr`
    a parser raises `ScannedError` for pages that need OCR; `recognized` are those whose text is from OCR.
    """

    name: str
    kind: str = ""
    path: Path = Path()
    data: bytes | None = None
    given: str = ""
    pages: PageRange | None = None
    password: str | None = None
    full_page: bool = False
    skipped: Mapping[int, str] = field(default_factory=dict)
    ocr: bool = False
    recognized: tuple[int, ...] = ()
    report: Report = _unreported

    def content(self) -> bytes:
        """All bytes of the file."""
        return self.path.read_bytes() if self.data is None else self.data

    def numbers(self, count: int) -> tuple[int, ...]:
        """The pages asked for (1-based) of a document of `count` pages; InputError when one is out of range."""
        return self.pages.numbers(count, self.name) if self.pages else tuple(range(1, count + 1))

    def job(self) -> dict[str, Any]:
        """The same as JSON, without `data` and `report`."""
        return {
            **{name: getattr(self, name) for name in ("name", "kind", "given", "password", "full_page", "ocr")},
            "path": str(self.path.resolve()),
            "pages": self.pages.spans if self.pages else None,
            "skipped": list(self.skipped.items()),
            "recognized": self.recognized,
        }

    @classmethod
    def of_job(cls, job: Mapping[str, Any], report: Report) -> Source:
        """From the `job` of one."""
        spans = job["pages"]
        return cls(
            **{name: job[name] for name in ("name", "kind", "given", "password", "full_page", "ocr")},
            path=Path(job["path"]),
            pages=None if spans is None else PageRange(tuple((first, last) for first, last in spans)),
            skipped=dict(job["skipped"]),
            recognized=tuple(job["recognized"]),
            report=report,
        )


class ScannedError(Exception):
    """These pages (1-based) can be read by OCR only."""

    def __init__(self, pages: tuple[int, ...]) -> None:
        super().__init__(pages)
        self.pages = pages
