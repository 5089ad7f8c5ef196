"""A request to read one document, as the readers of all formats get it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specextend_cli.documents.ocr_engine import Ocr
from specextend_cli.documents.pages import PageRange

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read and how; see `read.read` for the options.

    `name` is for messages. The content is in the file at `path`; that of plain texts is `data`. `kind` is the format
    as detected.
    """

    name: str
    pages: PageRange | None = None
    password: str | None = None
    progress: Progress | None = None
    ocr: Ocr | None = None
    full_page: bool = False
    kind: str = ""
    path: Path = Path()
    data: bytes = b""

    def numbers(self, count: int) -> tuple[int, ...]:
        """The pages asked for (1-based) of a document of `count` pages; InputError when one is out of range."""
        return self.pages.numbers(count, self.name) if self.pages else tuple(range(1, count + 1))
