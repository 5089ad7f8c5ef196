"""PDF to lines: pages are parsed in another process, with limits on time and memory, and a second reader in reserve.

PDFium reads; what makes it hang, crash or give up is read again by pypdf, page by page; what neither can read is
reported as failed. This module never parses a file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specextend_cli.documents.line import Line, grid
from specextend_cli.documents.names import argument
from specextend_cli.documents.pages import PageRange
from specextend_cli.documents.process import StoppedError, worker
from specextend_cli.errors import InputError

SECONDS_A_PAGE = 15.0
SECONDS_TO_OPEN = 30.0
MEMORY = 4 << 30
MAX_CRASHES = 8
_CONTEXT_PAGES = 12

_START = "from specextend_cli.documents.pdf_worker import serve; serve()"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one PDF may cost: seconds to open it, seconds a page, bytes of memory."""

    open_seconds: float = SECONDS_TO_OPEN
    page_seconds: float = SECONDS_A_PAGE
    memory: int = MEMORY


@dataclass(slots=True)
class Scan:
    """What came out of a PDF: lines by page, and what to say about the rest.

    `asked` are the pages to be kept. `pages` may hold a few more, read because running heads show only by
    repetition.
    """

    asked: tuple[int, ...]
    title: str = ""
    outline: tuple[str, ...] = ()
    pages: dict[int, list[Line]] = field(default_factory=dict)
    images: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    second_reader: list[int] = field(default_factory=list)
    cut_off: bool = False


def scan(
    path: Path,
    *,
    name: str,
    pages: PageRange | None = None,
    password: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    limits: Limits | None = None,
) -> Scan:
    """Read the lines of `path`. InputError when it is locked, damaged beyond reading, or lacks the pages asked for."""
    limits = limits or Limits()
    reader, head = _open(path, name, password, limits)
    count = int(head["pages"])
    if count == 0:
        raise InputError(f"{name} has no pages")
    asked = pages.numbers(count, name) if pages else tuple(range(1, count + 1))
    found = Scan(asked, str(head["title"] or ""), tuple(map(str, head["outline"])))
    found.cut_off = _is_cut_off(path)
    todo = _with_context(asked, count)
    crashes = 0
    while todo:
        for answer in _read(path, reader, password, tuple(todo), limits):
            number = todo.pop(0)
            _keep(found, number, answer)
            if progress and number in asked:
                progress(sum(page in asked for page in found.pages) + len(found.failed), len(asked))
        if not todo:
            break
        crashes += 1
        if crashes > MAX_CRASHES:
            found.failed.update(dict.fromkeys(todo, "given up after too many failures"))
            break
        found.failed[todo.pop(0)] = "took too long, or too much memory"
    if reader == "pdfium" and crashes <= MAX_CRASHES:
        _try_again(found, path, password, limits)
    found.failed = {number: why for number, why in sorted(found.failed.items()) if number in asked}
    return found


def _open(path: Path, name: str, password: str | None, limits: Limits) -> tuple[str, dict[str, Any]]:
    """The reader that can open the file, and what it says of the document."""
    detail = ""
    for reader in ("pdfium", "pypdf"):
        try:
            with _worker(path, reader, password, [], limits) as answers:
                head = next(answers)
        except StoppedError:
            continue
        match head.get("error"):
            case None:
                return reader, head
            case "password" if password:
                raise InputError(f"{name} is encrypted and the password does not open it", fix=_password_fix(name))
            case "password":
                raise InputError(f"{name} is encrypted", why="it opens only with a password", fix=_password_fix(name))
            case _:
                detail = detail or str(head["detail"])
    if _is_cut_off(path):
        why = "the end of the file is missing: it looks cut off"
        raise InputError(f"{name} is a damaged PDF", why=why, fix="download or copy it again")
    raise InputError(
        f"{name} is a damaged PDF",
        why=detail or "no reader can open it",
        fix=f"qpdf {argument(name)} repaired.pdf, then try again",
    )


def _password_fix(name: str) -> str:
    return f"SPECEXTEND_PDF_PASSWORD=... specextend summarize {argument(name)}  (or --password-file FILE)"


def _is_cut_off(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 2048, 0))
        return b"%%EOF" not in file.read()


def _with_context(asked: Sequence[int], count: int) -> list[int]:
    """The pages asked for and, where they are few, neighbours enough to tell a running head from a line of text."""
    wanted = set(asked)
    reach = 1
    while len(wanted) < min(_CONTEXT_PAGES, count):
        near = {page + step for page in asked for step in (reach, -reach)}
        wanted.update(page for page in near if 1 <= page <= count)
        reach += 1
    return sorted(wanted)


def _try_again(found: Scan, path: Path, password: str | None, limits: Limits) -> None:
    """Read with pypdf the pages that PDFium failed on."""
    for number in [number for number in found.failed if number in found.asked][:MAX_CRASHES]:
        for answer in _read(path, "pypdf", password, [number], limits):
            if "error" not in answer:
                del found.failed[number]
                found.second_reader.append(number)
                _keep(found, number, answer)


def _keep(found: Scan, number: int, answer: dict[str, Any]) -> None:
    if "error" in answer:
        found.failed[number] = str(answer["error"])
    elif "text" in answer:
        found.pages[number] = grid(answer["text"], number)
    else:
        found.pages[number] = [Line(text, number, *where) for text, *where in answer["lines"]]
    if number in found.asked:
        found.images += int(answer.get("images", 0))


def _read(
    path: Path, reader: str, password: str | None, pages: Sequence[int], limits: Limits
) -> Iterator[dict[str, Any]]:
    """One answer a page, in order; fewer where the worker stopped at the next page."""
    try:
        with _worker(path, reader, password, pages, limits) as answers:
            head = next(answers)
            for _ in pages if "error" not in head else ():
                yield next(answers)
    except StoppedError:
        return


def _worker(
    path: Path, reader: str, password: str | None, pages: Sequence[int], limits: Limits
) -> AbstractContextManager[Iterator[dict[str, Any]]]:
    job = {
        "path": str(path.resolve()),
        "password": password,
        "reader": reader,
        "pages": list(pages),
        "memory": limits.memory,
    }
    return worker(_START, job, first=limits.open_seconds, following=limits.page_seconds)
