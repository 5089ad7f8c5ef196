"""PDF to lines: pages are parsed in another process, with limits on time and memory, and a second reader in reserve.

PDFium reads; what makes it hang, crash or give up is read again by pypdf, page by page; what neither can read is
reported as failed. This module never parses a file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line, grid, placed
from specextend_cli.documents.names import argument, page_label
from specextend_cli.documents.outline import Outline
from specextend_cli.documents.pages import PageRange
from specextend_cli.documents.process import Conversation, StoppedError, worker
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
    repetition. `labels` are the numbers that pages go by in a viewer ("iv", "A-1"), where they are others than their
    places in the file. `edits` are what was changed while reading.
    """

    asked: tuple[int, ...]
    title: str = ""
    outline: Outline = ()
    pages: dict[int, list[Line]] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    images: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    second_reader: list[int] = field(default_factory=list)
    cut_off: bool = False
    wanted: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = frozenset(self.asked)


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
    with ExitStack() as stack:
        reader, head, conversation = _open(stack, path, name, password, limits)
        count = int(head["pages"])
        if count == 0:
            raise InputError(f"{name} has no pages")
        asked = pages.numbers(count, name) if pages else tuple(range(1, count + 1))
        outline = tuple((str(title), page) for title, page in head["outline"])
        found = Scan(asked, str(head["title"] or ""), outline)
        wanted = found.wanted
        found.cut_off = _is_cut_off(path)
        todo, done = _with_context(asked, count), 0
        answers = _answers(conversation, tuple(todo))
        crashes = 0
        while True:
            for answer in answers:
                number = todo.pop(0)
                _keep(found, number, answer)
                done += number in wanted
                if progress and number in wanted:
                    progress(done, len(asked))
            if not todo:
                break
            crashes += 1
            if crashes > MAX_CRASHES:
                found.failed.update(dict.fromkeys(todo, "given up after too many failures"))
                break
            done += todo[0] in wanted
            found.failed[todo.pop(0)] = "took too long, or too much memory"
            answers = _read(path, reader, password, tuple(todo), limits)
    if reader == "pdfium" and crashes <= MAX_CRASHES:
        _try_again(found, path, password, limits)
    found.failed = {number: why for number, why in sorted(found.failed.items()) if number in wanted}
    return found


def _open(
    stack: ExitStack, path: Path, name: str, password: str | None, limits: Limits
) -> tuple[str, dict[str, Any], Conversation]:
    """The reader that can open the file, what it says of the document, and its worker, which `stack` will end."""
    detail = ""
    for reader in ("pdfium", "pypdf"):
        try:
            with ExitStack() as opening:
                conversation = opening.enter_context(_worker(path, reader, password, limits))
                head = next(conversation)
                if "error" not in head:
                    stack.enter_context(opening.pop_all())
                    return reader, head, conversation
        except StoppedError:
            continue
        if head["error"] != "password":
            detail = detail or str(head["detail"])
        elif password:
            raise InputError(f"{name} is encrypted and the password does not open it", fix=_password_fix(name))
        else:
            raise InputError(f"{name} is encrypted", why="it opens only with a password", fix=_password_fix(name))
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
    for number in [number for number in found.failed if number in found.wanted][:MAX_CRASHES]:
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
        found.pages[number] = placed(answer["lines"], number)
    if number in found.wanted:
        found.images += int(answer.get("images", 0))
        if label := page_label(str(answer.get("label", "")), number):
            found.labels[number] = label
        found.edits += [Edit("hidden text", number, text) for text in answer.get("hidden", ())]
        found.edits += [Edit(kind, number, "", text) for kind, text in answer.get("added", ())]
        found.edits += [Edit(kind, number, before, after) for kind, before, after in answer.get("mended", ())]


def _read(
    path: Path, reader: str, password: str | None, pages: Sequence[int], limits: Limits
) -> Iterator[dict[str, Any]]:
    """The same of a new worker."""
    try:
        with _worker(path, reader, password, limits) as conversation:
            if "error" not in next(conversation):
                yield from _answers(conversation, pages)
    except StoppedError:
        return


def _answers(conversation: Conversation, pages: Sequence[int]) -> Iterator[dict[str, Any]]:
    """One answer a page, in order; fewer where the worker stopped at the next page."""
    with suppress(StoppedError):
        conversation.tell(list(pages))
        for _ in pages:
            yield next(conversation)


def _worker(path: Path, reader: str, password: str | None, limits: Limits) -> AbstractContextManager[Conversation]:
    job = {"path": str(path.resolve()), "password": password, "reader": reader, "memory": limits.memory}
    return worker(_START, job, first=limits.open_seconds, following=limits.page_seconds)
