"""The documents in a directory: whatever holds one, by whatever name, and whatever is named like one.

A file that promises a document and holds none is not skipped: reading it fails, and says why.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from specextend_cli.documents.detect import HEAD, LABELS, UNREAD, detect
from specextend_cli.documents.names import count, printable

_SHOWN = 5
NAMES = frozenset(
    (".pdf", ".docx", ".epub", ".html", ".htm", ".xhtml", ".eml", ".md", ".markdown", ".rst", ".txt", ".text")
)
_ZIPPED = (b"word/", b"META-INF/container.xml")


@dataclass(slots=True)
class Found:
    """Paths in the order of their names, and what was left out: (path, why) and how many names begin with a dot."""

    documents: list[Path] = field(default_factory=list)
    skipped: list[tuple[Path, str]] = field(default_factory=list)
    hidden: int = 0

    @property
    def account(self) -> str:
        """ "a.png (an image), b.txt (empty) and 3 more; 2 hidden", or "" where nothing was left out."""
        named = [f"{printable(path.name)} ({why})" for path, why in self.skipped[:_SHOWN]]
        more = len(self.skipped) - len(named)
        listed = ", ".join(named) + (f" and {more:,} more" if more else "")
        return "; ".join(part for part in (listed, f"{self.hidden:,} hidden" if self.hidden else "") if part)

    def __str__(self) -> str:
        return f"{count(len(self.documents), 'document')}{f'; skipped: {self.account}' if self.account else ''}"


def find(folder: Path) -> Found:
    """What is to be read in a directory and those below it. Links to directories are not followed."""
    found = Found()
    for path in _files(folder, found):
        try:
            why = _not_a_document(path)
        except OSError:
            why = ""  # reading it says what is wrong with it
        if why:
            found.skipped.append((path, why))
        else:
            found.documents.append(path)
    return found


def _files(folder: Path, found: Found) -> Iterator[Path]:
    def closed(error: OSError) -> None:
        found.skipped.append((Path(error.filename), "a directory that cannot be opened"))

    for parent, folders, files in os.walk(folder, onerror=closed):
        shown = sorted(name for name in folders if not name.startswith("."))
        found.hidden += len(folders) - len(shown) + sum(name.startswith(".") for name in files)
        folders[:] = shown
        yield from (Path(parent, name) for name in sorted(files) if not name.startswith("."))


def _not_a_document(path: Path) -> str:
    """Why a file is skipped, or ""."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "not a file"
    if path.suffix.lower() in NAMES:
        return ""
    if status.st_size == 0:
        return "empty"
    with path.open("rb") as file:
        head = file.read(HEAD)
        kind = detect(head)
        if kind != "zip":
            return LABELS[kind] if kind in UNREAD else ""
        # The list of a ZIP's contents is at its end. Only names are looked for: opening it is the worker's business.
        file.seek(max(status.st_size - HEAD, 0))
        tail = file.read()
    return "" if any(mark in part for mark in _ZIPPED for part in (head, tail)) else LABELS["zip"]
