"""Renders pages and runs the OCR program on them, inside the sandbox: see `ocr.py`.

The first response is the number of `pages`. The one request is a list of [page (1-based), whether to read it only if a
picture fills it]. The response about each has `lines` and a `confidence` in percent, or `skipped`, or an `error`.
"""

from __future__ import annotations

import math
import re
import resource
import struct
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

from specextend_cli.documents.line import Line
from specextend_cli.documents.markup import MarkupError, xml_root
from specextend_cli.humanize import printable

DPI = 300
_MAX_PIXELS = 40_000_000
_MAX_FILE = 256 << 20
_MAX_STDERR = 4096
_COVERED = 0.5  # of a page covered by pictures: its few characters are a stamp on a scan
_MAX_TIFF_PAGES = 10_000


Response = Mapping[str, Any]
Job = dict[str, Any]
"""`path`, `kind` ("pdf" or "image"), `password`; the fields of an `OcrEngine` as `engine`, and its limit of `seconds`
for a page; `folder` for temporary files, which the parent removes.
"""


class _FailedError(Exception):
    """A page that could not be read; the message says why."""


def respond(job: Job, requests: Iterator[Any]) -> Iterator[Response]:
    """The number of pages, then one response a page."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_FILE, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    return (_pdf if job["kind"] == "pdf" else _image)(job, requests)


def _pdf(job: Job, requests: Iterator[Any]) -> Iterator[Response]:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(job["path"], password=job["password"])
    except pypdfium2.PdfiumError as error:
        yield {"pages": 0}
        yield from ({"error": str(error)} for _ in next(requests, ()))
        return
    yield {"pages": len(pdf)}
    picture = Path(job["folder"], "page.png")
    for number, only_if_covered in next(requests, ()):
        try:
            page = pdf[number - 1]
            width, height = page.get_size()
            if only_if_covered and _covered(page) < _COVERED * width * height:
                yield {"skipped": True}
                continue
            scale = min(DPI / 72, math.sqrt(_MAX_PIXELS / max(width * height, 1)))
            bitmap = page.render(scale=scale, grayscale=True)
            picture.write_bytes(png(bytes(bitmap.buffer), bitmap.width, bitmap.height, bitmap.stride))
            bitmap.close()
            page.close()
            yield _recognize(job, picture, number, dpi=max(round(72 * scale), 70), points=1 / scale)
        except _FailedError as error:
            yield {"error": str(error)}
        except (pypdfium2.PdfiumError, MemoryError, OSError, ValueError) as error:
            yield {"error": str(error) or "out of memory"}


def _image(job: Job, requests: Iterator[Any]) -> Iterator[Response]:
    path = Path(job["path"])
    with path.open("rb") as file:
        count = tiff_pages(file.read(1 << 26))
    yield {"pages": count}
    for number, _ in next(requests, ()):
        page_of_file = number if count > 1 else 0
        try:
            yield _recognize(job, path, number, points=72 / DPI, page_of_file=page_of_file)
        except _FailedError as error:
            yield {"error": str(error)}


def _covered(page: Any) -> float:
    """The area of the pictures on a page in square points; overlaps count twice."""
    import pypdfium2

    covered = 0.0
    for picture in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE]):
        left, bottom, right, top = picture.get_bounds() if hasattr(picture, "get_bounds") else picture.get_pos()
        covered += max(right - left, 0) * max(top - bottom, 0)
    return covered


def _recognize(
    job: Job, picture: Path, number: int, *, points: float, dpi: int = 0, page_of_file: int = 0
) -> Recognized:
    """The response about page `number`: what the OCR program finds on a picture whose pixels are `points` large."""
    output, engine = Path(job["folder"], "found"), job["engine"]
    program, languages = engine["path"], ["-l", engine["languages"]]
    if engine["name"] == "ocrmypdf":
        made = output.with_suffix(".pdf")
        command = [program, "--quiet", "--jobs", "1", "--image-dpi", str(dpi or DPI), "--output-type", "pdf"]
        _run([*command, *languages, str(picture), str(made)], output, job["seconds"])
        return _read_pdf(made, number)
    # Arguments, never a shell; the paths are absolute, so that none of them is an option.
    command = [program, str(picture), "stdout", *languages, "--psm", "1" if engine["turns"] else "3"]
    command += ["--dpi", str(dpi)] if dpi else []
    command += ["-c", f"tessedit_page_number={page_of_file - 1}"] if page_of_file else []
    _run([*command, "-c", "tessedit_create_hocr=1"], output, job["seconds"])
    try:
        found = read_hocr(output.read_bytes(), points, number)
    except MarkupError as error:
        raise _FailedError(f"the OCR program answered what is no hOCR ({error})") from None
    if found is None:
        raise _FailedError("the OCR program found no page")
    return found


def _run(command: list[str], output: Path, seconds: float) -> None:
    """Run a program with its output to a file; the error has the last line of its stderr."""
    stderr, no_input = output.with_suffix(".err"), subprocess.DEVNULL
    try:
        with output.open("wb") as out, stderr.open("wb") as err:
            done = subprocess.run(command, stdin=no_input, stdout=out, stderr=err, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise _FailedError(f"OCR took more than {seconds:.0f} seconds") from None
    except OSError as error:
        raise _FailedError(f"the OCR program cannot be run ({error.strerror})") from None
    if done.returncode:
        lines = stderr.read_bytes()[-_MAX_STDERR:].decode("utf-8", "replace").split("\n")
        why = next((line.strip() for line in reversed(lines) if line.strip()), f"exit {done.returncode}")
        raise _FailedError(f"the OCR program failed: {printable(why)[:200]}")


def _read_pdf(path: Path, number: int) -> Recognized:
    import pypdfium2

    from specextend_cli.documents.pdf.lines import lines_of

    try:
        page = pypdfium2.PdfDocument(str(path))[0]
        return {"lines": lines_of(page.get_textpage(), page.get_cropbox(), number)["lines"], "confidence": 100.0}
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise _FailedError(f"what ocrmypdf wrote cannot be read ({error})") from None


def png(pixels: bytes, width: int, height: int, stride: int) -> bytes:
    """A PNG of a greyscale picture with a byte a pixel and `stride` bytes a row."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[row * stride : row * stride + width] for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows, 1)) + part(b"IEND", b"")


def tiff_pages(data: bytes) -> int:
    """The number of pictures of a TIFF, by its chain of directories; 1 for other files."""
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


_LINES = ("ocr_line", "ocr_caption", "ocr_header", "ocr_textfloat")
_WIDE = 2.0  # of the size: a space between columns of a table
_SAME_SIZE = 0.25  # relative difference of measured sizes of one type
_MIN_CONFIDENCE = 30.0  # percent; a line with less confidence is part of a picture, or a stain


class Recognized(TypedDict):
    """The response about a page: its lines, and the confidence in percent."""

    lines: list[Line]
    confidence: float


def read_hocr(data: bytes, points: float, number: int = 1) -> Recognized | None:
    """The first page, if any; `points` is the size of a pixel. MarkupError where it is no hOCR."""
    page = next((element for element in xml_root(data).iter() if element.get("class") == "ocr_page"), None)
    if page is None:
        return None
    height = _numbers(page.get("title", ""), "bbox", 4)[3]
    lines, confidence = [], list[float]()
    for element in page.iter():
        if element.get("class") in _LINES:
            line, words = _line(element, points, height, number)
            if words and sum(words) / len(words) >= _MIN_CONFIDENCE:
                lines.append(line)
                confidence += words
    percent = round(sum(confidence) / len(confidence), 1) if confidence else 0.0
    return {"lines": _even_sizes(lines), "confidence": percent}


def _line(element: Any, points: float, height: float, number: int) -> tuple[Line, list[float]]:
    """A line, and the confidence in each of its words."""
    title = element.get("title", "")
    left, top, right, bottom = _numbers(title, "bbox", 4)
    angle = _numbers(title, "textangle", 1)[0]
    size = _numbers(title, "x_size", 1)[0] or (right - left if angle in (90, 270) else bottom - top)
    base = height - bottom - _numbers(title, "baseline", 2)[1]
    turned = {
        90.0: (height - bottom, height - top, -right),
        180.0: (-right, -left, top - height),
        270.0: (top - height, bottom - height, left),
    }
    left, right, base = turned.get(angle, (left, right, base))
    parts, gaps, confidence = list[str](), list[tuple[float, float]](), list[float]()
    end = 0.0
    for word in element.iter():
        text = " ".join("".join(word.itertext()).split()) if word.get("class") == "ocrx_word" else ""
        if not text:
            continue
        box = _numbers(word.get("title", ""), "bbox", 4)
        if parts:
            wide = angle == 0 and box[0] - end > _WIDE * size
            parts.append("\t" if wide else " ")
            gaps += [(round(end * points, 2), round(box[0] * points, 2))] * wide
        parts.append(text)
        end = box[2]
        confidence.append(_numbers(word.get("title", ""), "x_wconf", 1)[0])
    left, right, base, size = (round(value * points, 2) for value in (left, right, base, size))
    return Line("".join(parts), number, left, right, base, size, gaps=gaps), confidence


def _even_sizes(lines: list[Line]) -> list[Line]:
    """The lines with one size for all that are close to the body size: measured sizes vary from line to line."""
    if not lines:
        return lines
    body = median(line.size for line in lines for _ in range(min(len(line.text), 200)))
    sizes = [round(body, 1) if abs(line.size - body) <= _SAME_SIZE * body else round(line.size) for line in lines]
    return [line._replace(size=size) for line, size in zip(lines, sizes, strict=True)]


def _numbers(title: str, key: str, count: int) -> list[float]:
    """The numbers of a property; zeros where it is missing."""
    found = re.search(rf"(?:^|;)\s*{key}((?:\s+-?\d{{1,9}}(?:\.\d+)?){{{count}}})", title)
    return [float(number) for number in found[1].split()] if found else [0.0] * count
