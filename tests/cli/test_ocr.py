"""`--ocr` at the command line: what it says on the way, and where the result says that it was OCR."""

from __future__ import annotations

import json

import pytest

from tests.documents.made_pdfs import Sheets
from tests.documents.stand_in_ocr import StandIn

LINE = "300 400 46 95 Every station on the river reports its level to the office in the valley."


@pytest.fixture
def scan(tmp_path, monkeypatch):
    """The path of a scan of two pages, and OCR by a program that stands in for tesseract."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    StandIn(folder).tesseract(LINE)
    sheets = Sheets()
    sheets.picture()
    sheets.picture()
    path = tmp_path / "scan.pdf"
    path.write_bytes(sheets.data())
    return path


def test_extract_reads_scans_and_says_so(cli, scan):
    done = cli("extract", scan, "--ocr")
    assert done.returncode == 0
    assert done.stdout.startswith("Every station on the river")
    assert "recognizing · page 1 of 2\nrecognizing · page 2 of 2\n" in done.stderr
    assert "by OCR: 1-2" in done.stderr
    assert json.loads(cli("extract", scan, "--ocr-lang", "deu", "--json", "-q").stdout)["ocr"] == [1, 2]


def test_chunks_and_tokens_and_plans_read_them_too(cli, scan, presets):
    for arguments in (("chunks", scan, "--jsonl"), ("tokens", scan), ("plan", scan, "--json")):
        assert cli(*arguments, "--ocr", "-m", presets["one"]).returncode == 0


def test_a_summary_says_which_pages_were_ocr(cli, scan, presets):
    done = cli("summarize", scan, "--ocr", "-m", presets["one"], "--json", "--no-compile", "--max-tokens", "8")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["coverage"]["ocr"] == [1, 2]
    assert "2 by OCR (1-2)" in done.stderr
    assert all(one["ocr"] for sentence in result["sentences"] for one in sentence["citations"])


@pytest.mark.parametrize("languages", ["-l", "eng --help", "../x", ""])
def test_what_is_no_language_is_2(cli, scan, languages):
    done = cli("extract", scan, f"--ocr-lang={languages}")
    assert done.returncode == 2
    assert "tesseract --list-langs" in done.stderr


def test_without_a_program_it_is_3_and_says_what_to_install(cli, scan, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    for arguments in ((), ("--ocr",)):
        done = cli("extract", scan, *arguments)
        assert done.returncode == 3
        assert "apt install tesseract-ocr" in done.stderr
