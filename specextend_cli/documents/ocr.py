"""Scans to lines: which pages need OCR, and a conversation with the process that does it, page by page.

A page needs it that has no text; or whose few characters may be a stamp on a picture; or whose text is gibberish.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from specextend_cli.documents.legibility import meaningless
from specextend_cli.documents.line import Line, placed
from specextend_cli.documents.names import places
from specextend_cli.documents.ocr_engine import LANGUAGE, Engine, find_engine
from specextend_cli.documents.process import Conversation, StoppedError, worker
from specextend_cli.errors import InputError

SECONDS_A_PAGE = 120.0
SECONDS_TO_OPEN = 30.0
MEMORY = 4 << 30
MAX_CRASHES = 4
UNCERTAIN = 60.0
"""Percent of confidence; what is read with less deserves a warning."""

_START = "from specextend_cli.documents.ocr_worker import serve; serve()"
_RENDERING = 30.0  # seconds a page, beside those of the OCR program
_STAMP = 150  # letters; a page with more has a text of its own

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Ocr:
    """That pages without text are to be recognized: in which `languages` (tesseract's names, with + between).

    `progress(done, total)` counts those pages. `seconds` is what one may take.
    """

    languages: str = LANGUAGE
    progress: Progress | None = None
    seconds: float = SECONDS_A_PAGE


@dataclass(slots=True)
class Recognition:
    """What OCR made of pages: their lines, how sure it was of each in percent, and why others failed."""

    pages: dict[int, list[Line]] = field(default_factory=dict)
    confidence: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    def warnings(self, name: str) -> list[str]:
        """Sentences for the user."""
        made = []
        if unsure := [number for number, percent in sorted(self.confidence.items()) if percent < UNCERTAIN]:
            made.append(f"OCR is unsure of what it read: {places(unsure)} of {name} may be wrong.")
        if self.failed:
            why = "; ".join(sorted(set(self.failed.values()))[:3])
            made.append(f"{places(tuple(self.failed))} of {name} could not be recognized: {why}.")
        return made


def needed(pages: Mapping[int, Sequence[Line]], asked: Sequence[int], failed: Mapping[int, str]) -> dict[int, bool]:
    """The pages that need OCR: False for certain, True only where a picture fills the page."""
    found: dict[int, bool] = {}
    for number in asked:
        if number in failed:
            continue
        lines = [line.text for line in pages.get(number, ())]
        text = "".join(lines)
        if not text.strip() or meaningless(lines):
            found[number] = False
        elif sum(map(str.isalnum, text)) < _STAMP:
            found[number] = True
    return found


def recognize_pdf(path: Path, pages: Mapping[int, bool], *, name: str, ocr: Ocr, password: str | None) -> Recognition:
    """Read pages of a PDF; InputError where there is no program for it. Pages without a picture are left out."""
    if not pages:
        return Recognition()
    return _recognize(path, "pdf", pages, find_engine(ocr.languages, name), ocr, password)


def recognize_image(
    path: Path, choose: Callable[[int], Sequence[int]], *, name: str, ocr: Ocr
) -> tuple[Sequence[int], Recognition]:
    """Read a picture: the pages that are chosen of so many, and what is on them."""
    engine = find_engine(ocr.languages, name)
    with ExitStack() as stack:
        try:
            total = int(next(_worker(stack, path, "image", engine, ocr, None))["pages"])
        except StoppedError:
            raise InputError(f"{name} is an image that cannot be read", why="it is too large, or damaged") from None
    asked = choose(total)
    return asked, _recognize(path, "image", dict.fromkeys(asked, False), engine, ocr, None)


def _recognize(
    path: Path, kind: str, pages: Mapping[int, bool], engine: Engine, ocr: Ocr, password: str | None
) -> Recognition:
    found = Recognition()
    todo = list(pages.items())
    crashes = 0
    while todo:
        with ExitStack() as stack:
            try:
                conversation = _worker(stack, path, kind, engine, ocr, password)
                if "error" in (head := next(conversation)):
                    found.failed.update(dict.fromkeys(dict(todo), str(head["error"])))
                    return found
                while todo:
                    conversation.tell(todo[0])
                    _keep(found, todo[0][0], next(conversation))
                    todo.pop(0)
                    _report(ocr, len(pages) - len(todo), len(pages))
            except StoppedError:
                crashes += 1
                found.failed[todo.pop(0)[0]] = "OCR took too long, or too much memory"
                if crashes >= MAX_CRASHES:
                    found.failed.update(dict.fromkeys(dict(todo), "given up after too many failures"))
                    return found
                _report(ocr, len(pages) - len(todo), len(pages))
    return found


def _keep(found: Recognition, number: int, answer: dict[str, object]) -> None:
    if "error" in answer:
        found.failed[number] = str(answer["error"])
    elif lines := answer.get("lines"):
        assert isinstance(lines, list)
        found.pages[number] = placed(lines, number)
        found.confidence[number] = float(str(answer["confidence"]))


def _report(ocr: Ocr, done: int, total: int) -> None:
    if ocr.progress:
        ocr.progress(done, total)


def _worker(stack: ExitStack, path: Path, kind: str, engine: Engine, ocr: Ocr, password: str | None) -> Conversation:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="specextend-ocr-"))
    job = {
        "folder": folder,
        "path": str(path.resolve()),
        "password": password,
        "kind": kind,
        "engine": engine.name,
        "command": engine.path,
        "languages": engine.languages,
        "turns": engine.turns,
        "seconds": ocr.seconds,
        "memory": MEMORY,
    }
    return stack.enter_context(worker(_START, job, first=SECONDS_TO_OPEN, following=ocr.seconds + _RENDERING))
