"""How a document is to be read: its pages as typed after `--pages` (`3-10,20`, `5-`), and the other options."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

from specextend_cli.errors import InputError, UsageError

_PART = re.compile(r"(\d{1,9})(?:(-)(\d{1,9})?)?")


@dataclass(frozen=True, slots=True)
class PageRange:
    """Pages as asked for: (first, last) pairs, 1-based and inclusive; `last` is None for "to the end"."""

    spans: tuple[tuple[int, int | None], ...]

    def numbers(self, count: int, name: str) -> tuple[int, ...]:
        """The pages asked for, sorted, of a document with `count` pages; InputError when one is out of range."""
        wanted: set[int] = set()
        for first, last in self.spans:
            end = count if last is None else last
            if max(first, end) > count:
                pages, fix = (f"{count} pages", f"--pages 1-{count}") if count > 1 else ("1 page", "leave --pages out")
                raise InputError(f"{name} has {pages}: there is no page {max(first, end)}", fix=fix)
            wanted.update(range(first, end + 1))
        return tuple(sorted(wanted))

    def __str__(self) -> str:
        return ",".join(f"{a}" if a == b else f"{a}-{'' if b is None else b}" for a, b in self.spans)


def parse_pages(text: str) -> PageRange:
    """Read `3-10,20` or `5-`; UsageError says which part cannot be read."""
    spans: list[tuple[int, int | None]] = []
    for part in (part.strip() for part in text.split(",")):
        match = _PART.fullmatch(re.sub(r"\s*[-\N{EN DASH}]\s*", "-", part))
        if match is None:
            raise _unreadable(text, f"{part!r} is not a page or a range of pages")
        first = int(match[1])
        last = int(match[3]) if match[3] else (None if match[2] else first)
        if first == 0:
            raise _unreadable(text, "pages are counted from 1")
        if last is not None and last < first:
            raise _unreadable(text, f"{part} runs backwards")
        spans.append((first, last))
    return PageRange(tuple(spans))


def _unreadable(text: str, why: str) -> UsageError:
    return UsageError(f"--pages {text!r} cannot be read", why=why, fix="--pages 3-10,20")


Progress = Callable[[int, int], None]


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
