"""Scans, by a program that stands in for tesseract and by tesseract itself where it is installed."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import struct
import time
from pathlib import Path

import pypdfium2
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader

from specextend_cli.documents import ocr
from specextend_cli.documents.line import Line
from specextend_cli.documents.ocr import Ocr, pages_needing_ocr
from specextend_cli.documents.ocr_engine import check_languages
from specextend_cli.documents.ocr_worker import png, read_hocr, tiff_pages
from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.request import parse_pages
from specextend_cli.errors import InputError, UsageError
from tests.documents.edge_cases import refusal
from tests.documents.made_pdfs import SENTENCES, Sheets
from tests.documents.stand_in_ocr import StandIn

STORY = (
    "300 400 46 95 The water rises slowly at first and then within an hour it covers the road, which",
    "300 460 42 95 nobody had expected.",
    "300 600 45 96 Every station on the river reports its level.",
)
TEXT = (
    "The water rises slowly at first and then within an hour it covers the road, which nobody had expected.\n\n"
    "Every station on the river reports its level."
)
REAL = shutil.which("tesseract")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return StandIn(folder)


def scan(sheets: Sheets, pages: int = 1) -> bytes:
    for _ in range(pages):
        sheets.picture()
    return sheets.data()


def refused(data: bytes, asked: Ocr | None = None, name: str = "scan.pdf") -> InputError:
    return refusal(lambda: read_bytes(name, data, ocr=asked))


def test_a_scan_is_read_page_by_page(program: StandIn, sheets: Sheets) -> None:
    program.tesseract(*STORY)
    seen: list[tuple[int, int]] = []
    asked = Ocr("deu+eng", lambda done, total: seen.append((done, total)))
    document = read_bytes("scan.pdf", scan(sheets, 2), ocr=asked)
    assert document.text == f"{TEXT}\n\n{TEXT}"
    assert [page.number for page in document.pages] == [1, 2]
    assert document.extraction.ocr == (1, 2)
    assert document.extraction.empty == document.extraction.failed == document.extraction.warnings == ()
    assert seen == [(1, 2), (2, 2)]
    assert len(program.asked) == 2
    width, height, *arguments = program.asked[0].split()
    assert (int(width), int(height)) == (2481, 3508)  # A4 at 300 dots an inch
    assert arguments[:4] == ["stdout", "-l", "deu+eng", "--psm"]
    assert "--dpi" in arguments


def test_only_pages_without_text_are_recognized(program: StandIn, sheets: Sheets) -> None:
    program.tesseract(*STORY)
    sheets.page([SENTENCES[0], SENTENCES[1]] * 3)
    sheets.picture()
    sheets.page(["Short, and whole."])
    sheets.canvas.drawImage(io_image(), 0, 0, 600, 850)
    sheets._set("GAO-0042", 72, 30, 9)
    document = read_bytes("mixed.pdf", sheets.data(), ocr=Ocr())
    assert document.extraction.ocr == (2, 4)
    assert len(program.asked) == 2
    assert "Short, and whole." in document.text
    assert document.text.count("nobody had expected") == 2
    program.tesseract(*STORY, body="raise SystemExit(9)")
    assert read_bytes("a.pdf", report(), ocr=Ocr()).extraction.ocr == ()


def io_image() -> object:
    return ImageReader(Image.new("L", (32, 32), 128))


def report() -> bytes:
    made = Sheets()
    made.page([SENTENCES[0]] * 9)
    return made.data()


def test_pages_asked_for(program: StandIn, sheets: Sheets) -> None:
    program.tesseract(*STORY)
    document = read_bytes("scan.pdf", scan(sheets, 5), pages=parse_pages("2-3"), ocr=Ocr())
    assert document.extraction.ocr == (2, 3)
    assert len(program.asked) == 2


def test_pages_without_text_or_with_gibberish_need_ocr() -> None:
    words = "The river rises slowly at first. " * 3
    pages = {n: [Line(text, n, 0, 9, 0)] for n, text in enumerate((words * 9, "\x01\x02" * 40, "stamp", words), 1)}
    assert pages_needing_ocr({**pages, 5: []}, range(1, 8), {6: "damaged"}) == {
        2: False,
        3: True,
        4: True,
        5: False,
        7: False,
    }


def test_without_a_program_the_error_says_what_to_install(program: StandIn, sheets: Sheets) -> None:
    data = scan(sheets, 2)
    error = refused(data)
    assert error.what == "scan.pdf has no text layer (0 characters on 2 pages, 2 images)"
    assert "apt install tesseract-ocr" in error.fix
    assert error.fix.endswith("specextend summarize scan.pdf --ocr")
    error = refused(data, Ocr())
    assert error.what == "scan.pdf needs OCR, and there is no program for it"
    assert "apt install tesseract-ocr" in error.fix
    assert read_bytes("a.pdf", report(), ocr=Ocr()).extraction.ocr == ()  # where it is not needed, nobody asks for it
    program.tesseract(*STORY)
    assert refused(data).fix == "specextend summarize scan.pdf --ocr"


def test_languages(program: StandIn, sheets: Sheets) -> None:
    program.tesseract(*STORY)
    error = refused(scan(sheets), Ocr("eng+chi_sim"))
    assert error.why == "tesseract has no data for chi_sim; it has deu, eng, osd"
    assert "apt install tesseract-ocr-chi-sim" in error.fix
    for wrong in ("", "-psm", "eng --help", "eng\n", "../../etc", "eng++deu", "a" * 99):
        with pytest.raises(UsageError):
            check_languages(wrong)
    assert check_languages("script/Latin+eng") == "script/Latin+eng"


def test_a_page_that_takes_too_long_is_reported(program: StandIn, sheets: Sheets) -> None:
    slow = "import os\nif len(open(%r).readlines()) == 2: open(%r, 'w').write(str(os.getpid())); time.sleep(300)"
    pid = program.folder / "pid"
    program.tesseract(*STORY, body=slow % (str(program.folder / "asked"), str(pid)))
    document = read_bytes("scan.pdf", scan(sheets, 3), ocr=Ocr(seconds=1.0))
    assert document.extraction.failed == (2,)
    assert document.extraction.ocr == (1, 3)
    assert "Page 2 of scan.pdf could not be recognized: OCR took more than 1 seconds." in document.extraction.warnings
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.usefixtures("own_processes")
def test_what_a_killed_worker_started_ends_with_it(
    program: StandIn, sheets: Sheets, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = program.folder / "pid"
    deaf = (
        f"import os, signal\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\nos.kill(os.getppid(), {signal.SIGSTOP})"
    )
    program.tesseract(*STORY, body=f"{deaf}\ntime.sleep(300)")

    monkeypatch.setattr(ocr, "_RENDERING", 1.0)
    error = refused(scan(sheets), Ocr(seconds=0.5))
    assert error.why == "OCR took too long, or too much memory"
    for _ in range(100):
        state = Path(f"/proc/{pid.read_text()}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("the OCR program goes on")


def test_a_program_that_fails_is_reported(program: StandIn, sheets: Sheets) -> None:
    data = scan(sheets)
    program.tesseract(*STORY, body="print('\\x1b[31mno such data', file=sys.stderr); raise SystemExit(1)")
    error = refused(data, Ocr())
    assert error.what == "scan.pdf: OCR found no text on 1 page"
    assert error.why == "the OCR program failed: �[31mno such data"
    program.tesseract(*STORY, body="print('<html><not closed'); raise SystemExit(0)")
    assert "no hOCR" in refused(data, Ocr()).why
    program.tesseract(*STORY, body="print('<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>'); raise SystemExit(0)")
    assert "entities" in refused(data, Ocr()).why
    program.tesseract()
    assert refused(data, Ocr()).why == "its pages are blank, or pictures"


def test_stains_go_and_doubts_are_said(program: StandIn, sheets: Sheets) -> None:
    program.tesseract("300 300 40 12 |. ~ ;", *(line.replace(" 9", " 4", 1) for line in STORY[2:]))
    document = read_bytes("scan.pdf", scan(sheets), ocr=Ocr())
    assert document.text == "Every station on the river reports its level."
    assert document.extraction.warnings == ("OCR is unsure of what it read: Page 1 of scan.pdf may be wrong.",)


def test_ocrmypdf_where_only_that_is_there(program: StandIn, sheets: Sheets) -> None:
    made = Sheets()
    made.page([SENTENCES[0]])
    program.ocrmypdf(made.data())
    document = read_bytes("scan.pdf", scan(sheets, 2), ocr=Ocr("deu"))
    assert document.text == f"{SENTENCES[0]}\n\n{SENTENCES[0]}"
    assert document.extraction.ocr == (1, 2)
    assert "-l deu" in program.asked[0]


def test_images(program: StandIn, tmp_path: Path) -> None:
    program.tesseract(*STORY)
    files = {}
    for kind in ("png", "jpeg", "tiff"):
        data = io.BytesIO()
        Image.new("L", (64, 64), 255).save(data, kind)
        files[kind] = data.getvalue()
    for kind, data in files.items():
        assert refused(data, name=f"a.{kind}").fix == f"specextend summarize a.{kind} --ocr"
        document = read_bytes(f"a.{kind}", data, ocr=Ocr())
        assert (document.text, document.kind, document.extraction.ocr) == (TEXT, "image", (1,))
    many = io.BytesIO()
    pages = [Image.new("L", (64, 64), 255) for _ in range(3)]
    pages[0].save(many, "tiff", save_all=True, append_images=pages[1:])
    document = read_bytes("fax.tiff", many.getvalue(), ocr=Ocr(), pages=parse_pages("2-"))
    assert [page.number for page in document.pages] == [2, 3]
    assert "tessedit_page_number=2" in program.asked[-1]


def test_tiffs_that_lie_about_their_pages() -> None:
    assert tiff_pages(b"II*\0") == tiff_pages(b"MM\0*\0\0\0\xff") == tiff_pages(b"\x89PNG") == tiff_pages(b"") == 1
    ring = b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 0) + struct.pack("<I", 8)
    assert tiff_pages(ring) == 1


def test_pictures_are_written_as_they_are() -> None:
    made = Image.open(io.BytesIO(png(bytes(range(12)), 3, 3, 4)))
    assert (made.size, made.mode, made.tobytes()) == ((3, 3), "L", bytes((0, 1, 2, 4, 5, 6, 8, 9, 10)))


def hocr(*lines: str) -> bytes:
    page = '<div class="ocr_page" title="bbox 0 0 1000 2000">' + "".join(lines) + "</div>"
    return f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{page}</body></html>'.encode()


def test_places_of_lines_and_cells() -> None:
    word = '<span class="ocrx_word" title="bbox {} 100 {} 140; x_wconf 90">{}</span>'
    row = word.format(100, 200, "Rain") + word.format(215, 260, "in") + word.format(500, 600, "812")
    head = 'title="bbox 100 100 600 140; baseline 0.001 -8; x_size 40; x_descenders 8"'
    page = read_hocr(hocr(f'<span class="ocr_line" {head}>{row}</span>'), 0.24)
    assert page
    assert page["confidence"] == 90
    text, _, left, right, base, size, bold, slanted, gaps, _ = page["lines"][0]
    assert (text, left, right, size) == ("Rain in\t812", 24, 144, 9.6)
    assert base == pytest.approx((2000 - 140 + 8) * 0.24)
    assert (bold, slanted, gaps) == (False, False, [(62.4, 120.0)])
    turned = head.replace('"bbox', '"textangle 90; bbox').replace("100 100 600 140", "100 100 140 600")
    page = read_hocr(hocr(f'<span class="ocr_line" {turned}>{word.format(100, 140, "up")}</span>'), 1.0)
    assert page
    assert page["lines"][0][2:5] == (1400, 1900, -140)
    assert read_hocr(hocr('<span class="ocr_line" title="nonsense"/>'), 1.0) == {"lines": [], "confidence": 0.0}
    assert read_hocr(b"<html/>", 1.0) is None


@pytest.mark.skipif(REAL is None, reason="tesseract is not installed (apt install tesseract-ocr)")
def test_tesseract_itself_reads_a_rendered_page() -> None:
    words = [word for sentence in SENTENCES for word in sentence.split()]
    lines: list[tuple[str, float, float] | str] = [(sentence, 11, 8) for sentence in SENTENCES]
    written, scanned = Sheets(), Sheets()
    written.page(lines)
    picture = pypdfium2.PdfDocument(written.data())[0].render(scale=200 / 72, grayscale=True).to_pil()
    width, height = scanned.canvas._pagesize
    scanned.canvas.drawImage(ImageReader(picture), 0, 0, width, height)
    document = read_bytes("scan.pdf", scanned.data(), ocr=Ocr())
    found = re.findall(r"\S+", document.text)
    assert len(set(words) & set(found)) >= 0.95 * len(set(words))
    assert document.extraction.ocr == (1,)
