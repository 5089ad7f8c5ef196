from __future__ import annotations

import io
import os
import re
import subprocess
from pathlib import Path

import pytest

from specextend_cli.documents import read as reader
from specextend_cli.documents import sandbox
from specextend_cli.documents.pdf import read as pdf
from specextend_cli.documents.read import read, read_bytes
from specextend_cli.documents.source import Source, parse_pages
from specextend_cli.errors import InputError, UsageError
from tests.documents import faulty_workers
from tests.documents.edge_case_pdfs import locked
from tests.documents.edge_cases import refusal
from tests.documents.made_files import zipped
from tests.documents.made_pdfs import Sheets, report_bytes

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)
OFFICE = "a Microsoft Office file, an old one or one with a password"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def test_pdf_becomes_pages_and_blocks() -> None:
    seen: list[tuple[int, int]] = []
    document = read_bytes("report.pdf", report_bytes(5), progress=lambda done, total: seen.append((done, total)))
    assert (document.name, document.kind, document.extraction.pages) == ("report.pdf", "pdf", 5)
    assert seen == [(n, 5) for n in range(1, 6)]
    assert [page.number for page in document.pages] == [1, 2, 3, 4, 5]
    place = document.text.index("This is page 3 of the story.")
    assert document.pages_of(place, place + 10) == (3,)
    headings = [document.text[b.start : b.end] for b in document.blocks if b.kind == "heading"]
    assert headings == [f"{n}. Chapter of Water" for n in range(1, 6)]
    assert len(document.blocks) == 15
    assert "Volume II" not in document.text
    assert "of the report" not in document.text
    assert document.extraction.changes["running head"] == document.extraction.changes["running foot"] == 5


def test_pages_asked_for() -> None:
    document = read_bytes("report.pdf", report_bytes(6), pages=parse_pages("2,4-5"))
    assert [page.number for page in document.pages] == [2, 4, 5]
    assert document.extraction.pages == 3
    assert "page 3 of the story" not in document.text
    assert "Volume II" not in document.text  # the other pages still tell what a running head is


def test_scanned_pdf(sheets: Sheets) -> None:
    sheets.page(["A cover with a few words of text on it."])
    for _ in range(4):
        sheets.picture()
    data = sheets.data()
    document = read_bytes("half.pdf", data)
    assert document.extraction.empty == (2, 3, 4, 5)
    assert [page.number for page in document.pages] == [1]
    assert "Pages 2-5 of half.pdf look scanned" in document.extraction.warnings[0]
    assert "--ocr reads" in document.extraction.warnings[0]
    error = refusal(lambda: read_bytes("scan.pdf", data, pages=parse_pages("2-4")))
    assert error.what == "scan.pdf has no text layer (0 characters on 3 pages, 3 images)"
    assert error.why == "it looks scanned"
    assert error.fix.endswith("specextend summarize scan.pdf --ocr")


def test_truncated_pdf() -> None:
    data = report_bytes(5)
    error = refusal(lambda: read_bytes("cut.pdf", data[:300]))
    assert error.what == "cut.pdf is a damaged PDF"
    assert "cut off" in error.why
    assert error.fix
    document = read_bytes("cut.pdf", data.replace(b"%%EOF", b""))
    assert document.extraction.warnings == ("The end of cut.pdf is missing: it looks cut off, and pages may be too.",)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), ("3-5,9", (3, 4, 5, 9)), (" 2 - 3 , 1,1 ", (1, 2, 3)), ("8-", (8, 9, 10)), ("2–4", (2, 3, 4))],
)
def test_ranges_of_pages(text: str, numbers: tuple[int, ...]) -> None:
    assert Source("x.pdf", "pdf", Path(), pages=parse_pages(text)).numbers(10) == numbers


@pytest.mark.parametrize("text", ["", "a", "1,,2", "-3", "0", "0-4", "9-3", "1-2-3", "1.5", "9" * 12])
def test_ranges_that_are_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pages(text)
    assert caught.value.why
    assert caught.value.fix == "--pages 3-10,20"


@pytest.mark.parametrize("text", ["11", "4-11", "12-"])
def test_pages_that_are_not_there(text: str) -> None:
    with pytest.raises(InputError, match=r"x\.pdf has 10 pages: there is no page 1[12]") as caught:
        Source("x.pdf", "pdf", Path(), pages=parse_pages(text)).numbers(10)
    assert caught.value.fix == "--pages 1-10"


def test_a_locked_pdf_says_how_to_give_its_password() -> None:
    assert "SPECEXTEND_PDF_PASSWORD" in refusal(lambda: read_bytes("locked.pdf", locked())).fix


@pytest.mark.parametrize(("limit", "what"), [("MAX_CHARACTERS", "text"), ("MAX_LINES", "lines")])
def test_pages_with_too_much_on_them_are_listed(
    limit: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, limit, 10)
    report = tmp_path / "report.pdf"
    report.write_bytes(report_bytes(2))
    found = pdf.parse(Source("report.pdf", "pdf", report, skipped={2: "it is not asked for"}))
    assert found.failed == {1: f"more {what} than a page can hold", 2: "it is not asked for"}


@pytest.mark.usefixtures("own_processes")
def test_pages_that_take_too_long_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WORKER", f"{faulty_workers.__name__}:slow_pdf")
    monkeypatch.setattr(reader, "SECONDS_A_PAGE", 0.1)
    error = refusal(lambda: read_bytes("report.pdf", report_bytes(2)))
    assert error.what == "report.pdf: none of 2 pages could be read"
    assert error.why == "took too long, or too much memory"


@pytest.mark.usefixtures("own_processes")
@pytest.mark.parametrize(("crashes", "failed"), [(1, (2,)), (0, (2, 3, 4))])
def test_a_page_that_kills_its_reader_is_skipped(
    crashes: int, failed: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WORKER", f"{faulty_workers.__name__}:deadly_pdf")
    monkeypatch.setitem(sandbox.begun, reader.WORKER, sandbox.start(reader.WORKER))  # the next ones start when needed
    monkeypatch.setattr(reader, "MAX_CRASHES", crashes)
    document = read_bytes("report.pdf", report_bytes(4))
    assert document.extraction.failed == failed
    assert "could not be read" in document.extraction.warnings[0]
    assert [page.number for page in document.pages] == [n for n in range(1, 5) if n not in failed]
    assert not sandbox.begun


@pytest.mark.usefixtures("own_processes")
@pytest.mark.parametrize(("limit", "value"), [("SECONDS_TO_OPEN", 0.001), ("MEMORY", 1 << 20), ("MAX_RESPONSE", 10)])
def test_seconds_memory_and_responses_are_limited(limit: str, value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, limit, value)
    error = refusal(lambda: read_bytes("report.pdf", report_bytes(2)))
    assert error.what == "report.pdf could not be read"


def test_pipes_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", f"printf 'words from a command' > {tmp_path / 'pipe'}"]):
        assert read(tmp_path / "pipe").text == "words from a command"
    for data, kind in ((report_bytes(2), "pdf"), (b"Plain words.\n", "text")):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        document = read("-")
        assert (document.name, document.kind) == ("standard input", kind)


# -------------------------------------------------------------------------------------------------- what files are


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in (("bin.pdf", b"x"), ("empty.txt", b""), ("blank.txt", b" \n\n")):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "link.txt").symlink_to("gone.txt")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "what", "why", "fix"),
    [
        ("missing.pdf", "missing.pdf does not exist", "", ""),
        ("nowhere/x.pdf", "x.pdf does not exist", "there is no directory", ""),
        ("link.txt", "link.txt leads to a file that does not exist", "it is a link to gone.txt", ""),
        (".", " is a directory", "", "specextend summarize"),
        ("empty.txt", "empty.txt is empty", "it has 0 bytes", ""),
        ("blank.txt", "blank.txt is empty", "it has only white space", ""),
        ("a\x1b[31m.pdf", "31m.pdf does not exist", "", ""),
    ],
)
def test_what_is_no_file_is_said(folder: Path, name: str, what: str, why: str, fix: str) -> None:
    error = refusal(lambda: read(folder / name))
    assert error.what.endswith(what)
    assert why in error.why
    assert fix in error.fix
    assert bool(error.fix) == bool(fix)
    assert "\x1b" not in error.what


@pytest.mark.parametrize("call", ["stat", "open"])
def test_permission_error_is_explained(folder: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, call, refuse)
    error = refusal(lambda: read(folder / "bin.pdf"))
    assert (error.what, error.why) == ("bin.pdf cannot be read", "permission denied")
    assert error.fix.startswith("chmod u+r ")


@pytest.mark.parametrize(
    ("name", "data", "what", "fix"),
    [
        ("a.pdf", zipped({"ppt/presentation.xml": ""}), "a PowerPoint presentation, not a PDF", "soffice"),
        ("b.zip", zipped({"notes.txt": "words"}), "a ZIP archive", "unzip"),
        ("c.doc", OLE, OFFICE, "soffice"),
        ("locked.docx", OLE, f"{OFFICE}, not a Word document (DOCX)", "without a password"),
        ("d.rtf", b"{\\rtf1 hello}", "an RTF document", "pandoc --from=rtf"),
        ("e.png", b"\x89PNG\r\n\x1a\n" + bytes(99), "an image", "specextend summarize e.png --ocr"),
        ("f.txt", b"\x1f\x8b\x08" + bytes(99), "a compressed file, not a text", "gunzip"),
        ("g.bin", bytes(range(256)) * 4, "a binary file, not a document", "PDF"),
        ("g.dat", b"8=FIX\x019=178\x0135=D\x0149=SENDER\x01" * 9, "a binary file, not a document", "PDF"),
        ("g", "Où\0 est la rive ? ".encode() * 20, "a binary file, not a document", "PDF"),
        ("h.txt", b"\x01\x02\x03\x04words" * 50, "a binary file, not a document, not a text", "PDF"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, data: bytes, what: str, fix: str) -> None:
    error = refusal(lambda: read_bytes(name, data))
    assert error.what == f"{name} is {what}"
    assert fix in error.fix


def test_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.pdf"
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(600 << 20)
    assert refusal(lambda: read(path)).what == "huge.pdf is larger than 512 MB"
    with path.open("wb") as file:
        file.write(b"words " * 99)
        file.truncate(70 << 20)
    assert refusal(lambda: read(path)).what == "huge.pdf is larger than 64 MB"


# ----------------------------------------------------------------------------------------------------- text files


def test_form_feeds_separate_pages() -> None:
    document = read_bytes("a.txt", b"First page.\n\fSecond page.\n\f\fFourth page.\n\f")
    assert [page.number for page in document.pages] == [1, 2, 4]
    assert (document.extraction.pages, document.extraction.empty) == (4, (3,))
    assert document.text == "First page.\n\nSecond page.\n\nFourth page."
    only = read_bytes("a.txt", b"First page.\n\fSecond page.\n", pages=parse_pages("2"))
    assert only.text == "Second page."
    error = refusal(lambda: read_bytes("a.txt", b"One page.", pages=parse_pages("2")))
    assert error.what == "a.txt has 1 page: there is no page 2"


def test_markdown_keeps_its_layout_and_knows_its_headings() -> None:
    source = "# Title\n\nSome *text*\nin two lines.\n\n```\n# no heading\n\ncode\n```\n\n"
    source += "Under\n=====\n- a\n- b\n\n\n## Last\nEnd.\n"
    document = read_bytes("notes.md", source.encode())
    assert document.kind == "markdown"
    assert document.text == re.sub("\n{3,}", "\n\n", source).strip()
    found = [(b.kind, document.text[b.start : b.end]) for b in document.blocks]
    assert [text for kind, text in found if kind == "heading"] == ["# Title", "Under", "## Last"]
    assert ("paragraph", "```\n# no heading\n\ncode\n```") in found
    assert found[-1] == ("paragraph", "End.")
    assert (document.unit, [page.title for page in document.pages]) == ("section", ["Title", "Under", "Last"])
    assert document.text[document.pages[1].start :].startswith("Under\n=====")
    nameless = read_bytes("-", b"# One\n\ntext\n\n# Two\n\nmore\n")
    assert nameless.kind == "markdown"


@pytest.mark.parametrize("name", ["evil.txt", "evil.md"])
def test_escapes_never_reach_the_text(name: str) -> None:
    evil = (
        "\x1b[31mRed\x1b[0m and \x1b]0;title\x07 and \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x9b2J \x1bc\n"
        "bell\x07 null-free \x7f [bold]markup[/bold] :smile: \x85next\n"
        "right\u202eto left\u2066x\u2069 zero\u200bwidth soft\u00adhyphen \U000e0041tag\n"
    )
    document = read_bytes(name, evil.encode())
    assert not CONTROLS.search(document.text)
    assert "[bold]markup[/bold]" in document.text
    assert "Red and  and link" in document.text.replace("Red and and", "Red and  and")
    assert "zerowidth softhyphen tag" in document.text
    assert "\u202e" not in document.text
    kinds = document.extraction.changes
    assert kinds["escape sequence"] >= 7
    assert (kinds["soft hyphen"], kinds["invisible character"]) == (1, 5)
