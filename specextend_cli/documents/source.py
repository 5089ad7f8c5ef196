"""One document to be read, and how: what `read` is asked for, what it asks of the sandbox, what a parser is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from specextend_cli.errors import InputError, UsageError

Progress = Callable[[int, int], None]
Report = Callable[[int, int, int], None]
"""Called with the page (1-based) that is read next, or 0, the number of pages that were read, and that of all."""

PageRange = tuple[tuple[int, int | None], ...]
"""Pages as asked for: (first, last) pairs, 1-based and inclusive; `last` is None for "to the end"."""

_PART = re.compile(r"\s*(\d{1,9})(?:\s*([-\N{EN DASH}])\s*(\d{1,9})?)?\s*")
_PLAIN = ("name", "kind", "given", "pages", "password", "ocr", "recognized")


class ReadOptions(TypedDict, total=False):
    """How to read a document.

    `progress(done, total)` is called as pages are read. `password` opens an encrypted PDF. `ocr` has scanned pages
    recognized and images read, in languages as tesseract names them ("eng", "deu+fra"); `recognizing(done, total)` is
    called meanwhile.
    """

    pages: PageRange | None
    password: str | None
    progress: Progress | None
    ocr: str | None
    recognizing: Progress | None


def parse_pages(text: str) -> PageRange:
    """Read `3-10,20` or `5-`; UsageError says which part cannot be read."""
    spans: list[tuple[int, int | None]] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        first, last = (int(match[1]), int(match[3] or 0)) if match else (0, 0)
        if match is None or first == 0 or (match[3] and last < first):
            why = f"{part.strip()!r} is not a page or a range of pages, which are counted from 1"
            raise UsageError(f"--pages {text!r} cannot be read", why=why, fix="--pages 3-10,20")
        spans.append((first, last if match[3] else None if match[2] else first))
    return tuple(spans)


@dataclass(frozen=True, slots=True)
class Source:
    """One document, whose content is in the file at `path`.

    `name` is for messages, `given` for commands in them: the path as it was named, if there is one. `kind` is its
    format as detected. `password` opens an encrypted PDF. `skipped` pages are not read: by page, why. With `ocr` a
    parser raises `ScannedError` for pages that need OCR; `recognized` are those whose text is from OCR.
    """

    name: str
    kind: str
    path: Path
    given: str = ""
    pages: PageRange | None = None
    password: str | None = None
    skipped: Mapping[int, str] = field(default_factory=dict)
    ocr: bool = False
    recognized: tuple[int, ...] = ()
    report: Report = lambda *_: None

    def numbers(self, count: int) -> tuple[int, ...]:
        """The pages asked for (1-based), sorted, of a document of `count` pages; InputError: one is out of range."""
        wanted = set[int]()
        for first, last in self.pages or ((1, None),):
            end = count if last is None else last
            if max(first, end) > count:
                pages, fix = (f"{count} pages", f"--pages 1-{count}") if count > 1 else ("1 page", "leave --pages out")
                raise InputError(f"{self.name} has {pages}: there is no page {max(first, end)}", fix=fix)
            wanted.update(range(first, end + 1))
        return tuple(sorted(wanted))

    def job(self) -> dict[str, Any]:
        """The same as JSON, without `report`."""
        others = {"path": str(self.path.resolve()), "skipped": list(self.skipped.items())}
        return {name: getattr(self, name) for name in _PLAIN} | others

    @classmethod
    def of_job(cls, job: Mapping[str, Any], report: Report) -> Source:
        """From the `job` of one."""
        plain = {name: job[name] for name in _PLAIN}
        return cls(**plain, path=Path(job["path"]), skipped=dict(job["skipped"]), report=report)


class ScannedError(Exception):
    """These pages (1-based) can be read by OCR only."""

    def __init__(self, pages: tuple[int, ...]) -> None:
        super().__init__(pages)
        self.pages = pages
