"""Scans, by a program that stands in for ocrmypdf and by ocrmypdf itself where it is installed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader

from specextend_cli.documents import ocr
from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import UsageError
from tests.documents.edge_cases import refusal
from tests.documents.made_pdfs import SENTENCES, Sheets
from tests.documents.stand_in_ocr import StandIn

REAL = ocr.program()
STORY = "The water rises slowly at first and then within an hour it covers the road."


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ocr, "find_spec", lambda name: None)
    return StandIn(folder)


def story(*pages: str) -> bytes:
    made = Sheets()
    for text in pages:
        made.page([text])
    return made.data()


def scan(*texts: str) -> bytes:
    """A page for each text, which is a picture with a stamp; "" stands for a picture alone."""
    made = Sheets()
    for at, text in enumerate(texts):
        image = Image.new("L", (300, 400), 255)
        ImageDraw.Draw(image).text((20, 20 + at), "a page", fill=0)
        made.canvas.drawImage(ImageReader(image), 0, 0, 595, 842)
        made.canvas.drawString(72, 810, text)
        made.canvas.showPage()
    return made.data()


def test_only_pages_without_a_text_of_their_own_are_recognized(program: StandIn, sheets: Sheets) -> None:
    program.makes(story(SENTENCES[0] * 3, STORY, STORY))
    sheets.page([SENTENCES[0] * 3])
    sheets.picture()
    sheets.picture()
    data, seen = sheets.data(), list[tuple[int, int]]()
    document = read_bytes("a.pdf", data, ocr="deu+eng", recognizing=lambda *found: seen.append(found))
    assert document.text.endswith(STORY)
    assert document.extraction.ocr == (2, 3)
    assert document.extraction.empty == document.extraction.warnings == ()
    assert {total for _, total in seen} == {2}
    assert "-l deu+eng" in program.asked[0]
    assert "--pages 2,3 --force-ocr" in program.asked[0]
    assert read_bytes("a.pdf", story(SENTENCES[0]), ocr="eng").extraction.ocr == ()
    assert len(program.asked) == 1  # a document with a text needs no program


def test_a_result_is_kept_by_what_was_read(program: StandIn) -> None:
    program.makes(story(STORY))
    for _ in range(2):
        assert read_bytes("a.pdf", scan(""), ocr="eng").text == STORY
    assert len(program.asked) == 1
    read_bytes("a.pdf", scan(""), ocr="deu")
    read_bytes("a.pdf", scan("", "")[:-1] + b"\n", ocr="deu")
    assert len(program.asked) == 3


@pytest.mark.parametrize("texts", [("Filed: 1 May", "Filed: 2 May", "Filed: 3 May"), ("Case 7, page 1", "", "")])
def test_pages_with_a_stamp_only_are_not_read_and_said(texts: tuple[str, ...]) -> None:
    document = read_bytes("a.pdf", scan(*texts))
    assert len(document.extraction.empty) + document.extraction.unread == 3
    assert document.extraction.warnings[0].startswith("Pages 1-3 of a.pdf look scanned")
    assert "--ocr reads" in document.extraction.warnings[0]


def test_a_background_is_no_scan(sheets: Sheets) -> None:
    for text in ("The river in spring", "Levels and warnings", "What is to be done"):
        sheets.canvas.drawImage(ImageReader(Image.new("L", (300, 400), 220)), 0, 0, 595, 842)
        sheets.canvas.drawString(72, 500, text)
        sheets.canvas.showPage()
    found = read_bytes("slides.pdf", sheets.data()).extraction
    assert (found.unread, found.warnings) == (0, ())


def test_images_are_read(program: StandIn) -> None:
    program.makes(story(STORY, STORY))
    data = io.BytesIO()
    Image.new("L", (64, 64), 255).save(data, "png")
    document = read_bytes("page.png", data.getvalue(), ocr="eng")
    assert (document.kind, document.text, document.extraction.ocr) == ("image", f"{STORY}\n\n{STORY}", (1, 2))
    assert "--image-dpi 300" in program.asked[0]
    assert refusal(lambda: read_bytes("page.png", data.getvalue())).fix == "specextend summarize page.png --ocr"


def test_what_to_install_is_said_and_what_was_not_found(program: StandIn) -> None:
    error = refusal(lambda: read_bytes("a.pdf", scan(""), ocr="eng"))
    assert error.what == "a.pdf needs OCR, and there is no program for it"
    assert "specextend-cli[ocr]" in error.fix
    assert "tesseract" in error.fix
    program.makes(story("", ""))
    error = refusal(lambda: read_bytes("a.pdf", scan("", ""), ocr="eng"))
    assert error.what == "a.pdf: OCR found no text on 2 pages"
    assert "--ocr-lang" in error.fix


def test_what_the_program_says_and_how_long_it_takes(program: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    program.makes(story(STORY), "sys.exit('there is no data for: xyz')")
    assert refusal(lambda: read_bytes("a.pdf", scan(""), ocr="xyz")).why == "there is no data for: xyz"
    program.makes(story(STORY), f"open({str(program.folder / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    for limit in ("_SECONDS", "SECONDS_A_PAGE"):
        monkeypatch.setattr(ocr, limit, 0.5)
    assert "took too long" in refusal(lambda: read_bytes("a.pdf", scan(""), ocr="eng")).why
    with pytest.raises(ProcessLookupError):
        os.kill(int((program.folder / "pid").read_text()), 0)


def test_languages_that_are_none_are_refused() -> None:
    assert ocr.check_languages("deu+chi_sim") == "deu+chi_sim"
    for languages in ("", "-x", "a b", "eng+", "../eng"):
        with pytest.raises(UsageError, match="names no languages"):
            ocr.check_languages(languages)


@pytest.mark.full
@pytest.mark.skipif(REAL is None, reason="needs ocrmypdf and tesseract")
def test_by_the_program_itself(sheets: Sheets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    image = Image.new("L", (1240, 1754), 255)
    ImageDraw.Draw(image).text((100, 200), "The river rises again", font=ImageFont.load_default(60), fill=0)
    sheets.canvas.drawImage(ImageReader(image), 0, 0, 595, 842)
    sheets.canvas.showPage()
    document = read_bytes("scan.pdf", sheets.data(), ocr="eng")
    assert (document.text, document.extraction.ocr) == ("The river rises again", (1,))
