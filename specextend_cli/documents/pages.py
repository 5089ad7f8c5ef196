"""Page ranges as typed after `--pages`: `3-10,20`, `5-`, 1-based and inclusive."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
                pages = "1 page" if count == 1 else f"{count} pages"
                raise InputError(
                    f"{name} has {pages}: there is no page {max(first, end)}",
                    fix=f"--pages 1-{count}" if count > 1 else "leave --pages out",
                )
            wanted.update(range(first, end + 1))
        return tuple(sorted(wanted))

    def __str__(self) -> str:
        parts = [f"{a}" if a == b else f"{a}-{'' if b is None else b}" for a, b in self.spans]
        return ",".join(parts)


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
