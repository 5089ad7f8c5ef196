"""From arguments to documents: which files, or stdin, and the password that opens them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from specextend_cli.errors import Exit, InputError, UsageError

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document

PASSWORD = "SPECEXTEND_PDF_PASSWORD"
STDIN: Literal["-"] = "-"


@dataclass(frozen=True)
class Source:
    """One document to be read: a path, or `-` for stdin. `within` is its path in a directory that was named."""

    path: str
    pages: str | None = None
    password_file: Path | None = None
    within: str = ""

    @property
    def name(self) -> str:
        """How the document is called in messages."""
        return "stdin" if self.path == STDIN else self.within or Path(self.path).name

    def read(self, progress: Callable[[int, int], None] | None = None) -> Document:
        """Read it. `progress(done, total)` counts pages."""
        from specextend_cli.documents.pages import parse_pages
        from specextend_cli.documents.read import read

        pages = parse_pages(self.pages) if self.pages is not None else None
        path = STDIN if self.path == STDIN else Path(self.path)
        return read(path, pages=pages, password=self.password, progress=progress)

    def data(self) -> bytes:
        """The whole file, for a reader elsewhere; InputError where there is none, or too much of it."""
        from specextend_cli.documents.refusals import MAX_BYTES, check_size, unreadable

        if self.path == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        path = Path(self.path)
        try:
            check_size(self.name, path.stat().st_size)
            with path.open("rb") as file:
                return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise unreadable(path, self.name, error) from error

    @property
    def password(self) -> str | None:
        """What opens it, where something was given; InputError where that cannot be read."""
        return _password(self.password_file)


def sources(
    files: Sequence[str] | None, *, example: str, pages: str | None = None, password_file: Path | None = None
) -> list[Source]:
    """What to read. stdin is read only with `-`, or with no file at all and something piped into it."""
    if not files:
        if sys.stdin is None or sys.stdin.isatty():
            command = " ".join(example.split()[:2])
            typer.echo(f"usage: {example}\n       … | {command} -\nhelp:  {command} --help", err=True)
            raise typer.Exit(int(Exit.USAGE))
        files = [STDIN]
    if "" in files:
        raise UsageError("the name of a file is empty", why="perhaps a shell variable is not set", fix=example)
    if list(files).count(STDIN) > 1:
        raise UsageError("stdin can be read only once", fix="give - once")
    return [Source(path, pages, password_file) for path in files]


def one_source(
    file: str | None, *, example: str, pages: str | None = None, password_file: Path | None = None
) -> Source:
    """The same for a command that takes one document."""
    return sources(None if file is None else [file], example=example, pages=pages, password_file=password_file)[0]


def _password(file: Path | None) -> str | None:
    """From the file, else from the environment; never from the command line, which others can see."""
    if file is None:
        return os.environ.get(PASSWORD)
    try:
        return file.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the password file {file}", why=str(error)) from error
    except IndexError:
        raise InputError(f"the password file {file} is empty") from None
