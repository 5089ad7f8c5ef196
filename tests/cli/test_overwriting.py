"""No command writes over what it reads, nor over anything that exists unless it is told to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from specextend_cli.errors import UsageError
from specextend_cli.ui.destination import atomic
from tests.cli.shell import bash

WORDS = "A harbour is a place where ships stay.\n"


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "report.txt"
    path.write_text(WORDS)
    return path


def refused(done, *says):
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: " in done.stderr
    assert all(text in done.stderr for text in says), done.stderr


def link(document, kind):
    name = document.parent / "other.txt"
    {"symbolic": name.symlink_to, "hard": name.hardlink_to}[kind](document)
    return name


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("command", ["summarize", "extract"])
@pytest.mark.parametrize("output", ["report.txt", "./report.txt", "symbolic", "hard"])
def test_an_output_that_is_the_input_is_2(cli, document, command, output, force):
    output = link(document, output) if output in ("symbolic", "hard") else output
    refused(cli(command, document, "-o", output, *force), "is read by this command")
    assert document.read_text() == WORDS


def test_an_output_that_an_input_links_to_is_2(cli, document):
    refused(cli("summarize", link(document, "symbolic"), "-o", document, "--force"))
    assert document.read_text() == WORDS


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_a_result_in_a_directory_that_is_the_input_is_2(cli, document, kind):
    out = document.parent / "out"
    out.mkdir()
    result = out / "report.txt"
    {"symbolic": result.symlink_to, "hard": result.hardlink_to}[kind](document)
    refused(cli("summarize", document, "-o", out, "--force"), "is read by this command")
    assert document.read_text() == WORDS


def test_a_result_that_would_be_another_input_is_2(cli, document):
    other = document.parent / "report.txt.txt"
    other.write_text(WORDS)
    refused(cli("summarize", document, other, "-o", document.parent, "--force"), "report.txt.txt")
    assert other.read_text() == WORDS


@pytest.mark.parametrize("option", ["--template", "--files-from", "--password-file", "--model"])
def test_an_output_that_is_any_other_file_read_is_2(cli, document, option):
    file = document.parent / "mine.toml"
    file.write_text(f"{{document}} {document}\n" if option != "--files-from" else f"{document}\n")
    before = file.read_text()
    refused(cli("summarize", document, option, file, "-o", file, "--force"))
    assert file.read_text() == before


@pytest.mark.parametrize(
    "redirection",
    [
        'extract "$F" >> "$F"',
        'summarize -q - < "$F" >> "$F"',
        'summarize - < "$F" -o "$F" --force',
        'tokens "$F" >> "$F"',
    ],
)
def test_redirections_onto_the_input_are_2(document, redirection):
    done = bash(f"$SPECEXTEND {redirection}", F=str(document))
    refused(done, "report.txt" if "-o" in redirection or "- " not in redirection else "stdin")
    assert document.read_text() == WORDS


def test_an_emptied_input_is_said_to_be_so(document):
    refused(bash('$SPECEXTEND extract "$F" > "$F"', F=str(document)), "stdout")


@pytest.mark.parametrize("command", ["summarize", "extract"])
def test_a_file_is_overwritten_when_forced_only(fake, document, command):
    out = document.parent / "out.txt"
    out.write_text("mine")
    refused(fake(command, document, "-o", out), "out.txt exists already", "--force")
    assert out.read_text() == "mine"
    assert fake(command, document, "-o", out, "--force").returncode == 0
    assert out.read_text() != "mine"


@pytest.mark.parametrize("command", ["summarize", "extract"])
def test_no_text_is_written_under_the_name_of_another_format(fake, document, command):
    refused(fake(command, document, "-o", "my out.docx"), "names a format that is only read", "try:   --output 'my out.txt'")
    assert [path.name for path in document.parent.iterdir()] == ["report.txt"]
    assert fake(command, document, "-o", "out.summary").returncode == 0


def test_an_extract_is_not_taken_for_done_because_a_summary_of_its_name_is_there(cli, document):
    out = document.parent / "out"
    assert cli("summarize", document, "-o", f"{out}/", "--mode", "extractive").returncode == 0
    summary = (out / "report.txt").read_text()
    refused(cli("extract", document, "-o", out), "report.txt exists already", "--force")
    assert (out / "report.txt").read_text() == summary


def test_what_appears_meanwhile_is_not_overwritten(tmp_path):
    out = tmp_path / "out.txt"

    def meanwhile():
        with atomic(out) as write:
            write("ours")
            out.write_text("mine")

    with pytest.raises(UsageError, match="exists already"):
        meanwhile()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_link_is_followed_not_replaced(fake, document):
    (document.parent / "there.txt").write_text("old")
    out = document.parent / "out.txt"
    out.symlink_to("there.txt")
    assert fake("summarize", document, "-o", out, "--force", "-q").returncode == 0
    assert out.is_symlink()
    assert (document.parent / "there.txt").read_text().startswith("The report")


def test_devices_and_pipes_are_written_to(fake, document):
    fifo = document.parent / "fifo"
    os.mkfifo(fifo)
    done = bash('$SPECEXTEND summarize -q "$F" -o "$P" & cat "$P"; wait $!', F=str(document), P=str(fifo))
    assert (done.returncode, done.stdout[:10]) == (0, "The report")
    before = Path("/dev/null").stat().st_mode
    assert fake("summarize", "-q", document, "-o", "/dev/null").returncode == 0
    assert Path("/dev/null").stat().st_mode == before
    assert fake("summarize", "-q", document, "-o", "-").stdout.startswith("The report")


def test_results_in_a_directory_of_documents_are_no_documents(fake, document):
    folder = document.parent / "papers"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.txt", "b.md", "deep/a.txt"):
        (folder / name).write_text(WORDS)
    for out in ("papers", "papers/out", "papers/out"):
        done = fake("summarize", "papers", "-o", out, "-f", "md")
        assert done.returncode == 0, done.stderr
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    made = ["a.txt.md", "b.md.md", "deep/a.txt.md"]
    assert names == sorted(["a.txt", "b.md", "deep/a.txt", *made, *(f"out/{name}" for name in made)])
    planned = fake("plan", "papers", "--json")
    assert [plan["document"] for plan in json.loads(planned.stdout)] == ["a.txt", "b.md", "deep/a.txt"]
    assert "a.txt.md" in planned.stderr


@pytest.mark.parametrize("pattern", ["papers", "papers/**/*.txt"])
def test_a_result_whose_document_is_gone_is_none_and_a_document_beside_it_is_one(fake, document, pattern):
    folder = document.parent / "papers"
    (folder / "out").mkdir(parents=True)
    for name in ("a.txt", "out/gone.txt.txt", "out/b.txt"):
        (folder / name).write_text(WORDS)
    done = fake("summarize", pattern, "-o", "papers/out", "-q")
    assert done.returncode == 0
    assert "left out, named as results of an earlier run: gone.txt.txt\n" in done.stderr
    made = {path.name for path in (folder / "out").rglob("*") if path.is_file()}
    assert made == {"a.txt.txt", "b.txt", "b.txt.txt", "gone.txt.txt"}


def test_an_empty_output_is_no_directory(cli, document):
    refused(cli("summarize", document, "-o", ""), "perhaps a shell variable is not set")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--input", "old.json", "-o", "old.json"),
        ("--compare", "old.json", "-o", "old.json"),
        ("--dataset", "old.json", "-o", "old.json"),
    ],
)
def test_a_benchmark_never_overwrites_its_input(cli, document, arguments):
    for name in ("old.json", "mine.toml"):
        (document.parent / name).write_text("{}")
    refused(cli("bench", *arguments, "--force"), "is read by this command")


@pytest.mark.parametrize("arguments", [("-o", "old.json"), ("--report", "page")])
def test_a_benchmark_overwrites_nothing_without_force(cli, document, arguments):
    for name in ("old.json", "mine.toml", "page/index.html"):
        path = document.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    refused(cli("bench", *arguments), "exists already", "--force")
