"""OCR of scanned pages and images: a process in the sandbox renders the pages and runs the OCR program, page by page.

A page needs OCR when it has no text, when its few characters may be a stamp on a picture, or when they are meaningless.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from specextend_cli.documents.cleaning import clean_lines
from specextend_cli.documents.document import Document, Extraction
from specextend_cli.documents.errors import nothing_recognized, places
from specextend_cli.documents.line import Line, lines_from_json
from specextend_cli.documents.ocr_engine import Ocr as Ocr
from specextend_cli.documents.ocr_engine import OcrEngine, find_engine
from specextend_cli.documents.pdf.legibility import unreadable_share
from specextend_cli.documents.request import ReadRequest
from specextend_cli.documents.sandbox import DIED, SandboxError, SandboxProcess, page_responses, sandbox
from specextend_cli.errors import InputError

SECONDS_TO_OPEN = 30.0
MEMORY = 4 << 30
MAX_CRASHES = 4
UNCERTAIN = 60.0
"""Percent; pages recognized with less confidence cause a warning."""

_WORKER = "specextend_cli.documents.ocr_worker:respond"
_RENDERING = 30.0  # seconds a page, in addition to those of the OCR program
_STAMP = 150  # letters; a page with more has a text of its own


@dataclass(slots=True)
class Recognition:
    """The result of OCR by page: lines, confidence in percent, and why pages failed."""

    pages: dict[int, list[Line]] = field(default_factory=dict)
    confidence: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    def warnings(self, name: str) -> Iterator[str]:
        """Sentences for the user."""
        if unsure := [number for number, percent in sorted(self.confidence.items()) if percent < UNCERTAIN]:
            yield f"OCR is unsure of what it read: {places(unsure)} of {name} may be wrong."
        if self.failed:
            why = "; ".join(sorted(set(self.failed.values()))[:3])
            yield f"{places(tuple(self.failed))} of {name} could not be recognized: {why}."

    def add(self, number: int, response: dict[str, Any]) -> None:
        """Keep the response of the sandbox about one page."""
        if "error" in response:
            self.failed[number] = f"OCR {DIED}" if response["error"] == DIED else str(response["error"])
        elif lines := response.get("lines"):
            self.pages[number] = lines_from_json(lines)
            self.confidence[number] = float(response["confidence"])


def pages_needing_ocr(
    pages: Mapping[int, Sequence[Line]], requested: Sequence[int], failed: Mapping[int, str]
) -> dict[int, bool]:
    """The pages that need OCR; True for those that need it only where a picture fills the page."""
    found: dict[int, bool] = {}
    for number in (number for number in requested if number not in failed):
        lines = [line.text for line in pages.get(number, ())]
        text = "".join(lines)
        if not text.strip() or unreadable_share(lines):
            found[number] = False
        elif sum(map(str.isalnum, text)) < _STAMP:
            found[number] = True
    return found


def read_image(request: ReadRequest) -> Document:
    """A picture of a page, or a TIFF of several."""
    name, ocr = request.name, request.ocr or Ocr()
    engine = find_engine(ocr.languages, name)
    try:
        with _process(request, ocr, engine) as process:
            total = int(process.head["pages"])
    except SandboxError:
        raise InputError(f"{name} is an image that cannot be read", why="it is too large, or damaged") from None
    numbers = request.numbers(total)
    recognized = recognize(request, ocr, dict.fromkeys(numbers, False), engine)
    pages = sorted(recognized.pages)
    cleaned = clean_lines(name, [recognized.pages[number] for number in pages], [], pages)
    if not cleaned.text.text:
        raise nothing_recognized(name, len(numbers), recognized.failed)
    warnings, failed = tuple(recognized.warnings(name)), tuple(sorted(recognized.failed))
    empty = tuple(number for number in numbers if number not in recognized.pages and number not in recognized.failed)
    extraction = Extraction(len(numbers), empty, failed, warnings=warnings, ocr=tuple(pages))
    return cleaned.document(name, "image", extraction)


def recognize(request: ReadRequest, ocr: Ocr, pages: Mapping[int, bool], engine: OcrEngine) -> Recognition:
    """Recognize pages one by one; pages of a PDF without a picture are left out where that is asked for.

    A page on which the process dies has failed; a new process reads the next one.
    """
    found = Recognition()
    processes = (_process(request, ocr, engine) for _ in range(MAX_CRASHES))
    with closing(page_responses(processes, pages.items())) as responses:
        for done, ((number, _), response) in enumerate(responses, 1):
            found.add(number, response)
            if ocr.progress:
                ocr.progress(done, len(pages))
    return found


@contextmanager
def _process(request: ReadRequest, ocr: Ocr, engine: OcrEngine) -> Iterator[SandboxProcess]:
    with tempfile.TemporaryDirectory(prefix="specextend-ocr-") as folder:
        job: dict[str, Any] = {"path": str(request.path.resolve()), "password": request.password, "kind": request.kind}
        job |= {"engine": asdict(engine), "seconds": ocr.seconds, "folder": folder, "memory": MEMORY}
        with sandbox(_WORKER, job, first=SECONDS_TO_OPEN, following=ocr.seconds + _RENDERING) as process:
            yield process
