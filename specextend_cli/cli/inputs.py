"""From arguments to documents: files, directories, addresses, lists of files and stdin; each is read once."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specextend_cli.documents.document import Document
from specextend_cli.documents.errors import MAX_BYTES, unreadable
from specextend_cli.documents.fetch import fetch, file_name
from specextend_cli.documents.find import find
from specextend_cli.documents.ocr import LANGUAGE, check_languages
from specextend_cli.documents.read import read, read_bytes
from specextend_cli.documents.source import PageRange, parse_pages
from specextend_cli.errors import InputError, SpecextendError, UsageError, cause
from specextend_cli.humanize import format_many, printable
from specextend_cli.runtime.loading_thread import Stage, in_thread, result_of
from specextend_cli.ui import FORMATS

if TYPE_CHECKING:  # a file is read while these are imported
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import View

PASSWORD = "SPECEXTEND_PDF_PASSWORD"
"""The environment variable with the password of PDFs: on the command line other users could see it."""
STDIN = "-"
STDIN_DESCRIPTOR, STDOUT_DESCRIPTOR = 0, 1
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_CHARACTERS = 4  # of a token, roughly
_SHOWN = 3  # names in a message


@dataclass(frozen=True, slots=True)
class Reading:
    """How documents are read: which pages, with OCR for `languages` as tesseract names them; None: all, without OCR.

    `password` opens those that are locked.
    """

    pages: PageRange | None = None
    languages: str | None = None
    password: str | None = field(default_factory=lambda: os.environ.get(PASSWORD), repr=False)

    @classmethod
    def of(cls, pages: str | None, ocr: bool, ocr_languages: str | None) -> Reading:
        """The options of a command. `--ocr-lang` alone asks for OCR, too. UsageError: no pages, or no language."""
        languages = check_languages(ocr_languages) if ocr_languages is not None else LANGUAGE if ocr else None
        return cls(None if pages is None else parse_pages(pages), languages)

    def settings(self, put: Callable[[Stage], None] = lambda stage: None) -> dict[str, Any]:
        """Arguments of the library's `read`; the stages of reading, in pages, go to `put`."""

        def stage(name: str) -> Callable[[int, int], None]:
            return lambda done, total: put(Stage(name, done, total, "pages"))

        settings = {"pages": self.pages, "password": self.password, "ocr": self.languages}
        return {**settings, "progress": stage("reading"), "recognizing": stage("recognizing")}


@dataclass(frozen=True)
class Source:
    """One document to be read: a path, a web address, or `-` for stdin.

    `within` is its path in a directory that was named, or in the one that it shares with others of its name.
    """

    path: str
    within: str = ""
    reading: Reading = field(default_factory=Reading)

    @property
    def name(self) -> str:
        """The document's name in messages and in names of results."""
        if is_url(self.path):
            return file_name(self.path)
        return "stdin" if self.path == STDIN else self.within or Path(self.path).name

    @property
    def file(self) -> Path | int | None:
        """What is read, so that nothing is written there: a path, stdin's descriptor, or None for a web address."""
        return STDIN_DESCRIPTOR if self.path == STDIN else None if is_url(self.path) else Path(self.path)

    def read(self, put: Callable[[Stage], None] = lambda stage: None) -> Document:
        """Read it; the stages go to `put`."""
        settings = self.reading.settings(put)
        return read_bytes(self.name, self.data(), **settings) if is_url(self.path) else read(self.path, **settings)

    def read_shown(self, output: Output) -> Document:
        """Read it with its progress and the warnings on stderr."""
        from specextend_cli.ui.panel import open_view

        with open_view(output, self.name) as view:
            document = self.read(view.add)
        for message in document.extraction.warnings:
            output.warn(message)
        return document

    def data(self) -> bytes:
        """The whole file, for a reader elsewhere; InputError if it cannot be read."""
        if is_url(self.path):
            return fetch(self.path)
        try:
            with open(STDIN_DESCRIPTOR if self.path == STDIN else self.path, "rb", closefd=self.path != STDIN) as file:
                return file.read(MAX_BYTES + 1)  # one more is refused by who reads it
        except OSError as error:
            raise unreadable(Path(self.path), self.name, error) from error


class Documents:
    """Reads documents, each once: the first while modules are imported, or when its size decides about the model."""

    def __init__(self) -> None:
        self._ahead: dict[Source, Callable[[View], Document]] = {}

    def begin(self, files: Sequence[str] | None, reading: Reading) -> None:
        """Begin to read the first of these files in a thread; not stdin, and not where OCR might be begun in vain."""
        if files and files[0] != STDIN and reading.languages is None and os.path.isfile(files[0]):  # noqa: PTH113 - never raises
            source = Source(files[0], reading=reading)
            stages = in_thread(source.read)
            self._ahead[source] = lambda view: result_of(stages, view.add)

    def tokens(self, sources: Sequence[Source], output: Output) -> int | None:
        """About how many tokens the first document has, whatever the vocabulary.

        None: it cannot be read. The error of an only document is raised; those of several are reported in their turn.
        """
        from specextend_cli.ui.panel import open_view

        if not sources:
            return None
        try:
            with open_view(output, sources[0].name) as view:
                document = self.read(sources[0], view)
        except SpecextendError:
            if len(sources) == 1:
                raise
            return None
        self._ahead[sources[0]] = lambda view: document
        return len(document.text) // _CHARACTERS + 1

    def read(self, source: Source, view: View) -> Document:
        """The document, with what is done in the view."""
        ahead = self._ahead.pop(source, None)
        return source.read(view.add) if ahead is None else ahead(view)


def is_url(path: str) -> bool:
    """Whether an argument is a web address."""
    return _URL.match(path) is not None


def sources(
    files: Sequence[str] | None,
    reading: Reading,
    *,
    command: str,
    listed: str | None = None,
    offline: bool = False,
    results: Path | None = None,
) -> list[Source]:
    """What to read: `files` and those in the list `listed` (`-`: stdin), with the documents in directories.

    stdin is read only with `-`, or with no file at all and something piped into it. Results of earlier runs in
    `results` are left out. UsageError if stdout is redirected into an input.
    """
    from specextend_cli.ui.destination import refuse_inputs

    files = _named(files, listed, command)
    for url in filter(is_url, files):
        _check_url(url, offline=offline)
    found: dict[str, str] = {}
    for file in files:
        is_folder = file != STDIN and not is_url(file) and Path(file).is_dir()
        for path, within in _in_directory(Path(file), results) if is_folder else [(file, "")]:
            found.setdefault(path, within)
    inputs = _with_distinct_names([Source(path, within, reading) for path, within in found.items()])
    refuse_inputs([STDOUT_DESCRIPTOR], [source.file for source in inputs if source.file is not None])
    return inputs


def one_source(file: str | None, reading: Reading, *, command: str, offline: bool = False) -> Source:
    """The same for a command that takes one document."""
    found = sources(None if file is None else [file], reading, command=command, offline=offline)
    if len(found) > 1:
        why = _some([source.path for source in found])
        raise UsageError(f"{file} has {len(found):,} documents", why=why, fix=f"name one: specextend {command} FILE")
    return found[0]


def read_files(*named: Path | str | int | None) -> list[Path | int]:
    """The paths and open descriptors among `named`: what a command reads, and must not write over."""
    return [one if isinstance(one, int) else Path(one).expanduser() for one in named if one not in (None, "-")]


def _named(files: Sequence[str] | None, listed: str | None, command: str) -> Sequence[str]:
    """The arguments and the lines of the list; stdin if there are neither."""
    example = f"specextend {command} FILE"
    if [*(files or ()), listed].count(STDIN) > 1:
        raise UsageError("stdin can be read only once", fix="give - once")
    if listed is not None:
        files = [*(files or ()), *_lines(listed)]
        if not files:
            raise InputError(f"{'the list' if listed == STDIN else listed} names no file")
    if not files:
        if sys.stdin is None or sys.stdin.isatty():
            fix = f"{example}, or: specextend {command} -h"
            raise UsageError("no document is named", why="nothing is piped into stdin, either", fix=fix)
        return [STDIN]
    if "" in files:
        raise UsageError("the name of a file is empty", why="perhaps a shell variable is not set", fix=example)
    return files


def _lines(listed: str) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if listed == STDIN else Path(listed).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the list {listed}", why=cause(error)) from error
    return [line for line in os.fsdecode(data).splitlines() if line.strip()]


def _with_distinct_names(found: Sequence[Source]) -> list[Source]:
    """Files with the same name are named by their paths below the innermost directory that they share."""
    names = Counter(source.name for source in found)
    twice = [one for one in found if names[one.name] > 1 and one.path != STDIN and not is_url(one.path)]
    real = {source: Path(source.path).parent.resolve() / Path(source.path).name for source in twice}
    top = os.path.commonpath([path.parent for path in real.values()]) if twice else ""
    return [replace(one, within=real[one].relative_to(top).as_posix()) if one in real else one for one in found]


def _check_url(url: str, *, offline: bool) -> None:
    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{printable(url)} cannot be fetched", why="only http and https are")
    if offline:
        raise UsageError(f"{printable(url)} cannot be fetched offline", fix="leave --offline out, or give a file")


def _some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(map(printable, names[:_SHOWN])) + more


def _in_directory(folder: Path, results: Path | None) -> Iterator[tuple[str, str]]:
    """The documents, each with its path below the directory, without results of earlier runs.

    Those are what is in the directory `results` below it, and report.pdf.md for report.pdf.
    """
    from specextend_cli.ui.output import Output

    found = find(folder)
    documents = set(found.documents)
    below = None if results is None or results.resolve() == folder.resolve() else results.resolve()
    earlier = {
        path
        for path in documents
        if path.suffix in FORMATS and (path.with_suffix("") in documents or below in path.resolve().parents)
    }
    if not documents - earlier:
        why = f"skipped: {found.account}" if found.account else "every file is a result" if earlier else "it is empty"
        raise InputError(f"there is no document in {folder}", why=why, fix="name a file, or a directory with documents")
    if found.account:
        Output().note(f"{folder}: {format_many(len(found.documents), 'document')}; skipped: {found.account}")
    if earlier:
        Output().note(f"left out, as results of an earlier run: {_some(sorted(path.name for path in earlier))}")
    yield from ((str(path), path.relative_to(folder).as_posix()) for path in found.documents if path not in earlier)
