"""What is read: files, directories, lists, addresses, stdin; scans; `extract`, and what it says was changed."""

from __future__ import annotations

import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from specextend_cli.cli import inputs
from specextend_cli.cli.inputs import Documents, Reading, Source
from specextend_cli.ui.output import Output
from specextend_cli.ui.panel import View
from tests import ROOT
from tests.cli.conftest import WORDS
from tests.cli.shell import bash
from tests.documents.made_files import message
from tests.documents.made_pdfs import Sheets, report_bytes
from tests.documents.stand_in_ocr import StandIn
from tests.ui.fake_stream import SUMMARY

REPORT = ROOT / "docs" / "samples" / "flood-warning.pdf"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with two documents, and with what is none."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "reports"
    (folder / "old" / ".git").mkdir(parents=True)
    (folder / "river.txt").write_text("The river rises.\n")
    (folder / "old" / "bridge.txt").write_text("The bridge stands.\n")
    (folder / "old" / ".git" / "d.txt").write_text("not this")
    (folder / "old" / "photo.jpeg").write_bytes(b"\xff\xd8\xff" + bytes(99))
    (folder / ".draft.txt").write_text("not yet")
    return folder


def planned(done):
    assert done.returncode == 0, done.stderr
    return [plan["document"] for plan in json.loads(done.stdout)]


def test_a_directory_stands_for_its_documents(fake, folder):
    done = fake("summarize", folder, "-n", "--json")
    assert planned(done) == ["river.txt", "old/bridge.txt"]
    assert f"{folder}: 2 documents; skipped: photo.jpeg (an image); 2 hidden\n" in done.stderr
    assert fake("extract", "-q", folder / "old").stdout == "The bridge stands.\n"


def test_a_list_of_files(fake, folder):
    listing = f"{folder}/river.txt\n\n{folder}/old/bridge.txt\n"
    (folder.parent / "list").write_text(listing)
    assert planned(fake("summarize", "-n", "--json", "--files-from", "list")) == ["river.txt", "bridge.txt"]
    assert planned(fake("summarize", "-n", "--json", "--files-from", "-", stdin=listing)) == ["river.txt", "bridge.txt"]
    assert fake("summarize", "--files-from", "-").returncode == 3


def test_stdin_is_read_where_no_file_is_named(fake):
    assert fake("summarize", stdin=WORDS).stdout == f"{SUMMARY}\n"
    assert fake("summarize", "-", stdin=WORDS).stdout == f"{SUMMARY}\n"
    assert fake("summarize").returncode == 3  # an empty pipe


def test_a_loop_over_a_list_keeps_its_list(folder):
    (folder.parent / "list").write_text(f"{folder}/river.txt\n{folder}/old/bridge.txt\n")
    done = bash('while read -r f; do $SPECEXTEND extract -q "$f"; done < list')
    assert done.stdout == "The river rises.\nThe bridge stands.\n"


class Handler(BaseHTTPRequestHandler):
    """A PDF at /r/a.pdf; another address of this machine at /moved."""

    def do_GET(self):
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", f"http://localhost:{self.server.server_port}/r/a.pdf")
        self.end_headers()
        self.wfile.write(report_bytes(1))

    def log_message(self, *_):
        pass


@pytest.fixture
def address():
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_address_that_was_typed_is_read(cli, address):
    done = cli("extract", f"{address}/r/a.pdf", "--json")
    assert json.loads(done.stdout)["document"] == "a.pdf"
    moved = cli("extract", f"{address}/moved")  # to one of the local network that nobody typed
    assert (moved.returncode, moved.stdout) == (3, "")
    assert "why:   it leads to an address of the local network (localhost)" in moved.stderr


@pytest.mark.parametrize(
    ("out", "made"),
    [
        ("papers", ["a.txt.md", "b.md.md", "deep/a.txt.md"]),
        ("papers/out", ["out/a.md", "out/b.md", "out/deep/a.md"]),
    ],
)
def test_results_in_a_directory_of_documents_are_no_documents(fake, folder, out, made):
    papers = folder.with_name("papers")
    for name in ("a.txt", "b.md", "deep/a.txt"):
        (papers / name).parent.mkdir(parents=True, exist_ok=True)
        (papers / name).write_text(WORDS)
    for _ in range(2):
        done = fake("summarize", "papers", "-o", out, "-f", "md")
        assert done.returncode == 0, done.stderr
    assert "left out, as results of an earlier run: " in done.stderr
    assert done.stderr.count(" exists already; --force writes it again") == 3
    names = sorted(path.relative_to(papers).as_posix() for path in papers.rglob("*") if path.is_file())
    assert names == sorted(["a.txt", "b.md", "deep/a.txt", *made])


def test_a_document_beside_results_is_one(fake, folder):
    (folder / "out").mkdir()
    for name in ("gone.txt", "kept.pdf"):
        (folder / "out" / name).write_bytes(report_bytes(1) if name == "kept.pdf" else b"Words.")
    done = fake("summarize", folder, "-o", folder / "out", "-n", "--json")
    assert planned(done) == ["river.txt", "old/bridge.txt", "out/kept.pdf"]
    assert "left out, as results of an earlier run: gone.txt\n" in done.stderr


@pytest.mark.parametrize(("option", "languages"), [(("--ocr",), "eng"), (("--ocr-lang", "deu"), "deu")])
def test_scans_are_recognized_where_that_is_asked_for(cli, tmp_path, monkeypatch, option, languages):
    """By a program that stands in for ocrmypdf."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("specextend_cli.documents.ocr.find_spec", lambda name: None)
    made = Sheets()
    made.page(["Every station on the river reports its level to the office."])
    engine = StandIn(tmp_path).makes(made.data())
    sheets = Sheets()
    sheets.picture()
    (tmp_path / "scan.pdf").write_bytes(sheets.data())
    done = cli("extract", tmp_path / "scan.pdf", *option)
    assert done.stdout.startswith("Every station on the river")
    assert done.stderr.endswith(" · 1 page by OCR (1)\n")
    assert f"-l {languages} " in engine.asked[-1]


def test_extract_prints_what_the_model_would_see_and_its_size(cli, document):
    done = cli("extract", document)
    assert (done.stdout, done.stderr) == (WORDS, "reading\n1 page · 8 words\n")
    assert json.loads(cli("extract", document, "--json").stdout)["text"] == WORDS.rstrip("\n")
    document.with_name("a.html").write_text(f"<html><nav>Home and more</nav><p>{WORDS}</p><p hidden>secret</p></html>")
    assert cli("extract", "a.html").stderr.endswith(" · 4 words left out\n")


def test_what_was_not_read_of_a_file_is_said(cli, tmp_path):
    path = tmp_path / "mail.eml"
    path.write_bytes(bytes(message("See there.", a_pdf=b"x")))
    done = cli("extract", path)
    assert "See there." in done.stdout
    assert "warning: 1 attachment was not read: a.pdf." in done.stderr
    assert done.stderr.endswith(" · 1 part not read\n")
    path = tmp_path / "a.txt"
    path.write_bytes("A naïve café.\n".encode("cp1252"))
    done = cli("extract", path)
    assert (done.returncode, done.stdout) == (0, "A naïve café.\n")
    assert "a.txt is not UTF-8: read as Windows-1252" in done.stderr


def test_escapes_and_markup_do_not_pass_through_a_pipe(cli, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("A \x1b[2J\x1b]0;owned\x07\x9b31m[bold red]red[/] [link=x] :smile: harbour.\n")
    for arguments in ((), ("--diff",), ("--json",)):
        done = cli("extract", path, *arguments)
        assert ("[bold red]red[/] [link=x] :smile: harbour." in done.stdout) == ("--diff" not in arguments)
        assert not re.search("[\x1b\x9b\x07]", done.stdout + done.stderr)


def test_diff_shows_what_was_removed_and_counts_it(cli, tmp_path):
    book = Sheets()
    for word in ("autumn", "winter", "spring"):
        lines = [f"In {word} the river rises to the level that the govern-", "ment has written down in its books."]
        book.page(lines, head="Levels of the River", foot="Page #")
    path = tmp_path / "levels.pdf"
    path.write_bytes(book.data())
    done = cli("extract", "--diff", path)
    first, second, third = re.split(r"^(?=@@)", done.stdout, flags=re.M)[1:]
    assert first.splitlines() == [
        "@@ page 1 @@",
        "running head",
        "-Levels of the River",
        "page number",
        "-Page 1",
        "hyphen joined",
        "-govern-",
        "-ment",
        "+government",
    ]
    assert "-Page 2" in second
    assert "-Page 3" in third
    assert "running head × 3" in done.stderr
    assert cli("extract", "--diff", path, "-o", tmp_path / "diff").returncode == 0
    assert (tmp_path / "diff").read_text() == done.stdout


class Stages(View):
    """Keeps the stages."""

    def __init__(self):
        super().__init__(Output(quiet=True), "")
        self.found = []

    def add(self, event):
        self.found.append(event)


def begun(*names, reading=None):
    documents = Documents()
    documents.begin(names, reading or Reading())
    return documents


def test_a_document_that_is_read_while_modules_are_imported_is_the_same(monkeypatch):
    """With the same stages; another one is read when it is asked for."""
    reading, ahead, later = Reading.of("1", False, None), Stages(), Stages()
    one = Source(str(REPORT), reading=reading)
    documents, expected = begun(str(REPORT), reading=reading), Documents().read(one, later)
    with monkeypatch.context() as patch:
        patch.setattr(inputs.Source, "read", lambda *_: pytest.fail("read twice"))
        assert documents.read(one, ahead) == expected
    assert ahead.found == later.found != []
    other = Source(str(REPORT), reading=Reading.of("2", False, None))
    assert begun(str(REPORT), reading=reading).read(other, Stages()) != expected


def test_what_is_there_only_once_is_not_read_ahead(tmp_path, monkeypatch):
    """Nor what is no file, nor what OCR may take minutes for."""
    monkeypatch.chdir(tmp_path)
    Path("-").touch()
    os.mkfifo("pipe")
    for name in ("-", "pipe", ".", "missing", "", "a\0b", "a" * 5000, "https://example.org"):
        assert not begun(name)._ahead
    assert not begun(str(REPORT), reading=Reading(languages="eng"))._ahead
