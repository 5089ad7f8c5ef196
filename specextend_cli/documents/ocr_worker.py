"""The process that reads scans: it renders pages and runs the OCR program on them, under the limits set for itself.

Run by `ocr.py` as a separate interpreter. Its first answer is the number of `pages`, or an `error`. It is then told
pages (1-based), one at a time: [number, whether only if a picture fills it]. For each it answers with `lines` and a
`confidence` in percent, with `skipped`, or with an `error`.
"""

from __future__ import annotations

import math
import resource
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypedDict

from specextend_cli.documents import sandbox_worker
from specextend_cli.documents.hocr import Recognized, read_hocr
from specextend_cli.documents.markup import MarkupError
from specextend_cli.documents.names import printable

DPI = 300
_MAX_PIXELS = 40_000_000
_MAX_FILE = 256 << 20
_MAX_COMPLAINT = 4096  # bytes of what a failing program says
_FILLED = 0.5  # of a page, by pictures: its few characters are a stamp on a scan
_MAX_TIFF_PAGES = 10_000


class Job(TypedDict):
    """What to read: `kind` is "pdf" or "image". `command` is the OCR program, `seconds` what a page may take there.

    `folder` is for the files of one page at a time, and is removed by whoever started this process.
    """

    path: str
    password: str | None
    kind: str
    engine: str
    command: str
    languages: str
    turns: bool
    seconds: float
    folder: str
    memory: int


class _FailedError(Exception):
    """A page that could not be read; the message says why."""


def serve() -> None:
    """Answer the one job on stdin."""
    sandbox_worker.serve(answer)


def answer(job: Job) -> Iterator[dict[str, Any]]:
    """The number of pages, then the pages asked for."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    yield from (_pdf if job["kind"] == "pdf" else _image)(job, Path(job["folder"]))


def _pdf(job: Job, folder: Path) -> Iterator[dict[str, Any]]:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(job["path"], password=job["password"])
    except pypdfium2.PdfiumError as error:
        yield {"error": str(error)}
        return
    yield {"pages": len(pdf)}
    picture = folder / "page.png"
    while (asked := sandbox_worker.heard()) is not None:
        number, only_if_filled = asked
        try:
            page = pdf[number - 1]
            width, height = page.get_size()
            if only_if_filled and _filled(page) < _FILLED * width * height:
                yield {"page": number, "skipped": True}
                continue
            scale = min(DPI / 72, math.sqrt(_MAX_PIXELS / max(width * height, 1)))
            bitmap = page.render(scale=scale, grayscale=True)
            picture.write_bytes(png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride))
            bitmap.close()
            page.close()
            (found, *_) = _recognize(job, picture, folder, dpi=max(round(72 * scale), 70), points=1 / scale)
            yield {"page": number, "lines": found.lines, "confidence": found.confidence}
        except _FailedError as error:
            yield {"page": number, "error": str(error)}
        except (pypdfium2.PdfiumError, MemoryError, OSError, ValueError) as error:
            yield {"page": number, "error": str(error) or "out of memory"}


def _image(job: Job, folder: Path) -> Iterator[dict[str, Any]]:
    path = Path(job["path"])
    with path.open("rb") as file:
        count = tiff_pages(file.read(1 << 26))
    yield {"pages": count}
    while (asked := sandbox_worker.heard()) is not None:
        number = asked[0]
        try:
            found = _recognize(job, path, folder, dpi=None, points=72 / DPI, number=number if count > 1 else None)
            yield {"page": number, "lines": found[0].lines, "confidence": found[0].confidence}
        except _FailedError as error:
            yield {"page": number, "error": str(error)}


def _filled(page: Any) -> float:
    """How much of a page pictures cover, in square points; what overlaps counts twice."""
    import pypdfium2

    covered = 0.0
    for picture in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]):
        left, bottom, right, top = picture.get_bounds() if hasattr(picture, "get_bounds") else picture.get_pos()
        covered += max(right - left, 0) * max(top - bottom, 0)
    return covered


def _recognize(
    job: Job, picture: Path, folder: Path, *, dpi: int | None, points: float, number: int | None = None
) -> list[Recognized]:
    """What the OCR program finds on a picture, at least one page."""
    output = folder / "found"
    if job["engine"] == "ocrmypdf":
        made = output.with_suffix(".pdf")
        size = str(dpi or DPI)
        command = [job["command"], "--quiet", "--jobs", "1", "--image-dpi", size, "--output-type", "pdf"]
        _run([*command, "-l", job["languages"], str(picture), str(made)], output, job["seconds"])
        return [_read_pdf(made)]
    # Arguments, never a shell; the paths are absolute, so that none of them is an option.
    command = [job["command"], str(picture), "stdout", "-l", job["languages"], "--psm", "1" if job["turns"] else "3"]
    command += ["--dpi", str(dpi)] if dpi else []
    command += ["-c", f"tessedit_page_number={number - 1}"] if number else []
    _run([*command, "-c", "tessedit_create_hocr=1"], output, job["seconds"])
    try:
        found = read_hocr(output.read_bytes(), points)
    except MarkupError as error:
        raise _FailedError(f"the OCR program answered what is no hOCR ({error})") from None
    if not found:
        raise _FailedError("the OCR program found no page")
    return found


def _run(command: list[str], output: Path, seconds: float) -> None:
    """Run a program, its output into a file; what it says of a failure is in the error."""
    complaint = output.with_suffix(".err")
    try:
        with output.open("wb") as written, complaint.open("wb") as said:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=written, stderr=said, timeout=seconds, check=False
            ).returncode
    except subprocess.TimeoutExpired:
        raise _FailedError(f"OCR took more than {seconds:.0f} seconds") from None
    except OSError as error:
        raise _FailedError(f"the OCR program cannot be run ({error.strerror})") from None
    if code:
        lines = complaint.read_bytes()[-_MAX_COMPLAINT:].decode("utf-8", "replace").split("\n")
        why = next((line.strip() for line in reversed(lines) if line.strip()), f"exit {code}")
        raise _FailedError(f"the OCR program failed: {printable(why)[:200]}")


def _read_pdf(path: Path) -> Recognized:
    import pypdfium2

    from specextend_cli.documents.pdf_lines import lines_of

    try:
        page = pypdfium2.PdfDocument(str(path))[0]
        return Recognized(lines_of(page.get_textpage(), page.get_cropbox())["lines"], 100.0)
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise _FailedError(f"what ocrmypdf wrote cannot be read ({error})") from None


def png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """A picture in shades of grey, a byte a pixel and `stride` bytes a row."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[row * stride : row * stride + width] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows, 1)) + part(b"IEND", b"")


def tiff_pages(data: bytes) -> int:
    """How many pictures a TIFF has, by its chain of directories; 1 for other files."""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None:
        return 1
    seen: set[int] = set()
    (at,) = struct.unpack_from(f"{order}I", data, 4) if len(data) >= 8 else (0,)
    while at and at not in seen and at + 2 <= len(data) and len(seen) < _MAX_TIFF_PAGES:
        seen.add(at)
        following = at + 2 + 12 * struct.unpack_from(f"{order}H", data, at)[0]
        (at,) = struct.unpack_from(f"{order}I", data, following) if following + 4 <= len(data) else (0,)
    return max(len(seen), 1)
