"""The documents in a directory: files with the content of a document, or with the suffix of one.

A file with such a suffix and other content is not skipped: reading it fails, and the error says why.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from specextend_cli.documents.decode import HEAD
from specextend_cli.documents.formats import FORMATS, detect, kind_by_suffix
from specextend_cli.humanize import printable

_SHOWN = 5


@dataclass(slots=True)
class DirectoryListing:
    """Documents in the order of their names; skipped files as (path, why); the number of hidden names."""

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


def find(folder: Path) -> DirectoryListing:
    """The files to be read in a directory and those below it. Links to directories are not followed."""
    found = DirectoryListing()

    def on_error(error: OSError) -> None:
        found.skipped.append((Path(error.filename), "a directory that cannot be opened"))

    for parent, folders, files in os.walk(folder, onerror=on_error):
        found.hidden += sum(name.startswith(".") for name in (*folders, *files))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in sorted(files) if not name.startswith(".")):
            why = ""
            with suppress(OSError):  # reading it reports the error
                why = _not_a_document(path)
            if why:
                found.skipped.append((path, why))
            else:
                found.documents.append(path)
    return found


def _not_a_document(path: Path) -> str:
    """Why a file is skipped, or ""."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return "not a file"
    if kind_by_suffix(path.suffix):
        return ""
    if status.st_size == 0:
        return "empty"
    with path.open("rb") as file:
        kind = detect(file.read(HEAD))
    return "" if FORMATS[kind].parser else FORMATS[kind].label
