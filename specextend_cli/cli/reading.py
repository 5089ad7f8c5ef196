"""From arguments to documents: files, directories, patterns, addresses or stdin, and the password that opens them."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from specextend_cli.errors import InputError, UsageError

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document
    from specextend_cli.ui.streams import Output

PASSWORD = "SPECEXTEND_PDF_PASSWORD"
STDIN: Literal["-"] = "-"
STDIN_DESCRIPTOR, STDOUT_DESCRIPTOR = 0, 1
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SHOWN = 3
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """One document to be read: a path, a web address, or `-` for stdin. `ocr`: the languages of scans, if wanted;
    `full_page`: of a web page not only its article.

    `within` is its path in a directory that was named, or in the one that it shares with others of its name.
    """

    path: str
    pages: str | None = None
    password_file: Path | None = None
    within: str = ""
    ocr: str | None = None
    full_page: bool = False

    @property
    def name(self) -> str:
        """How the document is called in messages."""
        if self.path == STDIN:
            return "stdin"
        if not _is_url(self.path):
            return self.within or Path(self.path).name
        from specextend_cli.documents.fetch import file_name

        return file_name(self.path)

    def read(self, progress: Progress | None = None, recognizing: Progress | None = None) -> Document:
        """Read it. `progress(done, total)` counts pages, `recognizing` those that go through OCR."""
        from specextend_cli.documents.ocr import Ocr
        from specextend_cli.documents.pages import parse_pages
        from specextend_cli.documents.read import read, read_bytes

        pages = parse_pages(self.pages) if self.pages is not None else None
        ocr = None if self.ocr is None else Ocr(self.ocr, recognizing)
        if _is_url(self.path):
            return read_bytes(
                self.name,
                self.data(),
                pages=pages,
                password=self.password,
                progress=progress,
                ocr=ocr,
                full_page=self.full_page,
            )
        path = STDIN if self.path == STDIN else Path(self.path)
        return read(path, pages=pages, password=self.password, progress=progress, ocr=ocr, full_page=self.full_page)

    def data(self) -> bytes:
        """The whole file, for a reader elsewhere; InputError where there is none, or too much of it."""
        from specextend_cli.documents.read_errors import MAX_BYTES, check_size, unreadable

        if self.path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        if _is_url(self.path):
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
        """What is read, for whoever must not write there: a path, or stdin's descriptor; None for a web address."""
        if self.path == STDIN:
            return STDIN_DESCRIPTOR
        return None if _is_url(self.path) else Path(self.path)

    @property
    def password(self) -> str | None:
        """What opens it, where something was given; InputError where that cannot be read."""
        return _password(self.password_file)


def recognizing(output: Output, done: int, total: int) -> None:
    """Say on stderr that another page has been through OCR: each may take many seconds."""
    output.note(f"recognizing · page {done} of {total}")


def sources(
    files: Sequence[str] | None,
    *,
    example: str,
    pages: str | None = None,
    password_file: Path | None = None,
    allow_url: bool = False,
    offline: bool = False,
    ocr: str | None = None,
    full_page: bool = False,
    results: Path | None = None,
) -> list[Source]:
    """What to read, with the documents in directories; what is left out there is said on stderr.

    stdin is read only with `-`, or with no file at all and something piped into it. `results` is where
    results go: those of earlier runs are left out. UsageError if stdout is redirected into an input.
    """
    from specextend_cli.documents.pages import parse_pages
    from specextend_cli.ui.overwriting import refuse_redirection

    if not files:
        if sys.stdin is None or sys.stdin.isatty():
            command = " ".join(example.split()[:2])
            raise UsageError(
                "no document is named", why="nothing is piped into stdin, either", fix=f"{example}, or: {command} -h"
            )
        files = [STDIN]
    if pages is not None:
        parse_pages(pages)
    if password_file is not None:
        _password(password_file)
    if "" in files:
        raise UsageError("the name of a file is empty", why="perhaps a shell variable is not set", fix=example)
    if list(files).count(STDIN) > 1:
        raise UsageError("stdin can be read only once", fix="give - once")
    for url in filter(_is_url, files):
        _check_url(url, example, allowed=allow_url, offline=offline)
    found: dict[str, str] = {}
    for file in files:
        for path, within in _paths(file):
            found.setdefault(path, within)
    for path in _earlier_results(found, set(files), results):
        del found[path]
    if not found:
        raise InputError("there is no document", why="all that was found is named as a result of an earlier run")
    inputs = _told_apart([Source(path, pages, password_file, within, ocr, full_page) for path, within in found.items()])
    refuse_redirection([source.file for source in inputs if source.file is not None], STDOUT_DESCRIPTOR)
    return inputs


def one_source(
    file: str | None,
    *,
    example: str,
    pages: str | None = None,
    password_file: Path | None = None,
    allow_url: bool = False,
    ocr: str | None = None,
    full_page: bool = False,
) -> Source:
    """The same for a command that takes one document."""
    found = sources(
        None if file is None else [file],
        example=example,
        pages=pages,
        password_file=password_file,
        allow_url=allow_url,
        ocr=ocr,
        full_page=full_page,
    )
    if len(found) > 1:
        names = ", ".join(source.path for source in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        raise UsageError(f"{file} are {len(found):,} documents", why=f"{names}{more}", fix=f"name one: {example}")
    return found[0]


def _earlier_results(paths: Iterable[str], named: Collection[str], results: Path | None) -> list[str]:
    """Which of `paths`, except those that were `named` themselves, are called as the result on another: a.pdf.txt.

    In the directory `results`, where it is below another, the other need not be there any more. They are said on
    stderr: summaries of an earlier run lie in a directory of documents, and are no documents of it.
    """
    from specextend_cli.documents.find import NAMES
    from specextend_cli.documents.names import printable
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.writers import SUFFIX

    suffixes = set(SUFFIX.values())
    others = {f"{Path(path).name}{suffix}" for path in paths for suffix in suffixes}
    folders = [Path(name).resolve() for name in named if results is not None and Path(name).is_dir()]
    below = results is not None and results.resolve() not in folders

    def is_result(path: Path) -> bool:
        if path.name in others:
            return True
        like_one = path.suffix in suffixes and Path(path.stem).suffix.lower() in NAMES
        return like_one and below and results is not None and results.resolve() in path.resolve().parents

    found = [path for path in paths if path not in named and is_result(Path(path))]
    if found:
        names = ", ".join(printable(Path(path).name) for path in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        Output().note(f"left out, named as results of an earlier run: {names}{more}")
    return found


def _told_apart(found: Sequence[Source]) -> list[Source]:
    """Files of one name are called by their paths below the innermost directory that has them all."""
    folders: dict[str, list[Path]] = {}
    for source in found:
        if source.path != STDIN and not _is_url(source.path):
            folders.setdefault(source.name, []).append(Path(source.path).parent.resolve())
    shared = {name: os.path.commonpath(parents) for name, parents in folders.items() if len(parents) > 1}

    def below(path: Path, folder: str) -> str:
        return (path.parent.resolve().relative_to(folder) / path.name).as_posix()

    return [
        replace(source, within=below(Path(source.path), shared[source.name])) if source.name in shared else source
        for source in found
    ]


def _is_url(path: str) -> bool:
    return _URL.match(path) is not None


def _check_url(url: str, example: str, *, allowed: bool, offline: bool) -> None:
    from specextend_cli.documents.names import argument, printable

    command = " ".join(example.split()[:2])
    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{printable(url)} is no web address that can be fetched", why="only http and https are")
    if offline:
        raise UsageError(f"{printable(url)} cannot be fetched offline", fix="leave --offline out, or give a file")
    if not allowed:
        flag = f"{command} --allow-url {argument(url)}"
        other = f"curl -sL {argument(url)} | {command} -"
        fix = flag if "FILES" in example or "extract" in example else other
        raise UsageError(f"{printable(url)} is a web address", why="nothing is fetched unless you allow it", fix=fix)


def _paths(file: str) -> Iterator[tuple[str, str]]:
    """The documents that an argument means: itself, those in a directory, or what a quoted pattern matches.

    Each with its path in the directory that was named, if one was.
    """
    path = Path(file)
    if file == STDIN or _is_url(file):
        yield file, ""
    elif path.is_dir():
        yield from _in_directory(path)
    elif glob.has_magic(file) and not path.exists():
        matches = sorted(glob.glob(file, recursive=True))  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise InputError(f"nothing matches {file}", why="** stands for any directories, one below the other")
        for match in map(Path, matches):
            if not match.is_dir():
                yield str(match), ""
            elif "**" not in file:  # there its files match too
                yield from _in_directory(match)
    else:
        yield file, ""


def _in_directory(folder: Path) -> Iterator[tuple[str, str]]:
    from specextend_cli.documents.find import find
    from specextend_cli.ui.streams import Output

    found = find(folder)
    if not found.documents:
        raise InputError(
            f"there is no document in {folder}",
            why=f"skipped: {found.account}" if found.account else "it is empty",
            fix="name a file, or a directory with documents",
        )
    if found.account:
        Output().note(f"{folder}: {found}")
    for path in found.documents:
        yield str(path), path.relative_to(folder).as_posix()


def _password(file: Path | None) -> str | None:
    """From the file, else from the environment; never from the command line, which others can see."""
    return os.environ.get(PASSWORD) if file is None else _first_line(file)


@cache
def _first_line(file: Path) -> str:
    """Read once: it may be a pipe, as `<(pass show report)` is."""
    try:
        return file.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the password file {file}", why=str(error)) from error
    except IndexError:
        raise InputError(f"the password file {file} is empty") from None
