"""One document to be read: a file, a web address or stdin, and the password that opens it; several, each once."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from specextend_cli.cli.options import ReadOptions
from specextend_cli.errors import InputError, SpecextendError, cause
from specextend_cli.runtime.loading_thread import Stage, in_thread, result_of

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import View

PASSWORD = "SPECEXTEND_PDF_PASSWORD"
STDIN: Literal["-"] = "-"
STDIN_DESCRIPTOR, STDOUT_DESCRIPTOR = 0, 1
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_CHARACTERS = 4  # of a token, roughly
Progress = Callable[[int, int], None]
Begun: TypeAlias = "tuple[Source, Generator[Stage, None, Document]]"
"""A document that is being read in a thread; see `begin_reading`."""


@dataclass(frozen=True)
class Source:
    """One document to be read: a path, a web address, or `-` for stdin.

    `within` is its path in a directory that was named, or in the one that it shares with others of its name.
    """

    path: str
    within: str = ""
    options: ReadOptions = field(default_factory=ReadOptions)

    @property
    def name(self) -> str:
        """The document's name in messages and in names of results."""
        if self.path == STDIN:
            return "stdin"
        if not is_url(self.path):
            return self.within or Path(self.path).name
        from specextend_cli.documents.fetch import file_name

        return file_name(self.path)

    def read(self, progress: Progress | None = None, recognizing: Progress | None = None) -> Document:
        """Read it. `progress(done, total)` counts pages, `recognizing` those that go through OCR."""
        from specextend_cli.documents.read import read, read_bytes

        settings = read_settings(self.options, self.password, progress, recognizing)
        if is_url(self.path):
            return read_bytes(self.name, self.data(), **settings)
        return read(STDIN if self.path == STDIN else Path(self.path), **settings)

    def read_shown(self, output: Output) -> Document:
        """Read it, with the pages that go through OCR and the warnings as lines on stderr."""
        document = self.read(recognizing=lambda done, total: output.status(f"recognizing · page {done} of {total}"))
        for message in document.extraction.warnings:
            output.warn(message)
        return document

    def data(self) -> bytes:
        """The whole file, for a reader elsewhere; InputError if it is missing or too large."""
        from specextend_cli.documents.read_errors import MAX_BYTES, check_size, unreadable

        if self.path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        if is_url(self.path):
            from specextend_cli.documents.fetch import fetch

            return fetch(self.path)
        path = Path(self.path)
        try:
            check_size(self.name, path.stat().st_size)
            with path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise unreadable(path, self.name, error) from error

    @property
    def file(self) -> Path | int | None:
        """What is read, so that nothing is written there: a path, stdin's descriptor, or None for a web address."""
        if self.path == STDIN:
            return STDIN_DESCRIPTOR
        return None if is_url(self.path) else Path(self.path)

    @property
    def password(self) -> str | None:
        """The document's password, if one was given; InputError if its file cannot be read."""
        return find_password(self.options.password_file)


@dataclass
class Documents:
    """Reads documents, each once: one whose size decided about the model is kept for its summary."""

    output: Output
    begun: Begun | None = None
    _kept: tuple[Source, Document] | None = None

    def tokens(self, sources: Sequence[Source]) -> int | None:
        """About how many tokens the first one has that can be read, whatever the vocabulary; None where none can.

        Of a single one the error is raised; those of several are the run's to report.
        """
        from specextend_cli.ui.panel import open_view

        for source in sources:
            try:
                with open_view(self.output, source.name) as view:
                    document = self.read(source, view)
            except SpecextendError:
                if len(sources) == 1:
                    raise
                continue
            self._kept = source, document
            return len(document.text) // _CHARACTERS + 1
        return None

    def read(self, source: Source, view: View) -> Document:
        """The document, with what is done in the view."""
        if self._kept is not None and self._kept[0] == source:
            (_, document), self._kept = self._kept, None
            return document
        begun, self.begun = self.begun, None
        if begun is not None and begun[0] == source:
            return result_of(begun[1], view.add)
        return _read(source, view.add)


def begin_reading(files: Sequence[str] | None, options: ReadOptions) -> Begun | None:
    """Begin to read the first of these files in a thread, for `Documents`: another process parses it meanwhile.

    None where there is none, where a pipe would be emptied, and where OCR might be begun in vain.
    """
    is_plain = not (options.password_file or options.ocr or options.ocr_lang)
    if files and files[0] != STDIN and is_plain and os.path.isfile(files[0]):  # noqa: PTH113 - never raises
        source = Source(files[0], options=options)
        return source, in_thread(partial(_read, source))
    return None


def _read(source: Source, put: Callable[[Stage], None]) -> Document:
    return source.read(
        lambda done, total: put(Stage("reading", done, total, "pages")),
        lambda done, total: put(Stage("recognizing", done, total, "pages")),
    )


def read_settings(
    options: ReadOptions, password: str | None, progress: Progress | None = None, recognizing: Progress | None = None
) -> dict[str, Any]:
    """Arguments for the library's `read` and `read_bytes`."""
    from specextend_cli.documents.ocr import Ocr
    from specextend_cli.documents.request import parse_pages

    return {
        "pages": None if options.pages is None else parse_pages(options.pages),
        "password": password,
        "progress": progress,
        "ocr": None if options.languages is None else Ocr(options.languages, recognizing),
        "full_page": options.full_page,
    }


def is_url(path: str) -> bool:
    """Whether an argument is a web address."""
    return _URL.match(path) is not None


def find_password(file: Path | None) -> str | None:
    """The password in `file`, else in the environment; never on the command line, which other users can see."""
    return os.environ.get(PASSWORD) if file is None else _first_line(file)


@cache
def _first_line(file: Path) -> str:
    """Read only once: the file may be a pipe, as in `<(pass show report)`."""
    try:
        return file.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the password file {file}", why=cause(error)) from error
    except IndexError:
        raise InputError(f"the password file {file} is empty") from None
