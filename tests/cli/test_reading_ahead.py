"""The first document is read while the command starts, with the same outcome, and its process never stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from specextend_cli.cli.source import Documents, Source, begin_reading

from specextend_cli.cli import source
from specextend_cli.cli.options import ReadOptions
from specextend_cli.errors import Exit, InputError
from specextend_cli.summarize.events import Stage
from specextend_cli.ui.output import Output
from specextend_cli.ui.panel import View
from tests import ROOT
from tests.cli.shell import LIMIT, environment

REPORT = ROOT / "docs" / "samples" / "flood-warning.pdf"
HANGING = """
import sys, time
from specextend_cli.cli import options
from specextend_cli.cli.main import main
from specextend_cli.documents import pdf, sandbox

length = options.length

def wait(text):
    while not sandbox._running:
        time.sleep(0.01)
    print(next(iter(sandbox._running)).pid, flush=True)
    return length(text)

options.length = wait
pdf._WORKER = "tests.documents.faulty_workers:slow_pdf"
main()
"""
"""The command line, whose first check waits for a parser that hangs, and prints its number."""


class Stages(View):
    """Keeps the stages."""

    def __init__(self) -> None:
        super().__init__(Output(quiet=True), "")
        self.found: list[Stage] = []

    def add(self, event: object) -> None:
        assert isinstance(event, Stage)
        self.found.append(event)


@pytest.mark.parametrize("pages", [None, "1"])
def test_a_document_read_ahead_is_the_same(pages: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same stages; another one is read when it is asked for."""
    options = ReadOptions(pages=pages)
    begun = begin_reading([str(REPORT)], options)
    assert begun is not None
    ahead, later = Stages(), Stages()
    documents = Documents(Output(quiet=True), begun)
    one = Source(str(REPORT), options=options)
    expected = Documents(Output(quiet=True)).read(one, later)
    monkeypatch.setattr(source, "_read", lambda *_: pytest.fail("read twice"))
    assert documents.read(one, ahead) == expected
    assert ahead.found == later.found != []
    monkeypatch.undo()
    documents = Documents(Output(quiet=True), begin_reading([str(REPORT)], options))
    assert documents.read(Source(str(REPORT), options=ReadOptions(pages="2")), Stages()) != expected


def test_an_error_is_that_of_reading_later(tmp_path: Path) -> None:
    file = tmp_path / "a.pdf"
    file.write_bytes(b"%PDF-1.7\nnothing that could be read\n")
    said = []
    for begun in (begin_reading([str(file)], ReadOptions()), None):
        with pytest.raises(InputError) as raised:
            Documents(Output(quiet=True), begun).read(Source(str(file)), Stages())
        said.append((str(raised.value), raised.value.exit))
    assert said[0] == said[1]


def test_what_is_there_only_once_is_not_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what is no file, nor what OCR may take minutes for."""
    monkeypatch.chdir(tmp_path)
    Path("-").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", "pipe", ".", "missing", "", "a\0b", "a" * 5000, "https://example.org"):
        assert begin_reading([name], ReadOptions()) is None
    for options in (ReadOptions(password_file=Path("pipe")), ReadOptions(ocr=True), ReadOptions(ocr_lang="eng")):
        assert begin_reading([str(REPORT)], options) is None
    assert begin_reading(None, ReadOptions()) is begin_reading([], ReadOptions()) is None


@pytest.mark.parametrize(("length", "code"), [("nonsense", Exit.USAGE), ("100", Exit.TIMEOUT)])
def test_a_process_that_parses_ends_with_the_command(length: str, code: Exit) -> None:
    """By an error before the document is asked for, and while it is waited for."""
    words = ["summarize", REPORT, "--mode", "extractive", "--length", length, "--timeout", 1, "--no-cache"]
    done = subprocess.run(
        [sys.executable, "-c", HANGING, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(real=True),
        check=False,
    )
    assert done.returncode == code, done.stderr
    until = time.monotonic() + LIMIT / 4  # it sleeps for longer
    with suppress(psutil.NoSuchProcess):
        parser = psutil.Process(int(done.stdout))
        while parser.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.01)
