"""Directories, patterns and web addresses as arguments, and what `extract --diff` shows."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.shell import Terminal
from tests.documents.made_pdfs import Sheets, report_bytes


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "reports"
    (folder / "old").mkdir(parents=True)
    (folder / "river.txt").write_text("The river rises.\n")
    (folder / "old" / "bridge.txt").write_text("The bridge stands.\n")
    (folder / "old" / "photo.jpeg").write_bytes(b"\xff\xd8\xff" + bytes(99))
    (folder / ".draft.txt").write_text("not yet")
    return folder


def planned(done) -> list[str]:
    return [plan["document"] for plan in json.loads(done.stdout)]


def test_a_directory_stands_for_its_documents(cli, presets, folder):
    done = cli("plan", folder, "--json", "-m", presets["one"])
    assert planned(done) == ["river.txt", "old/bridge.txt"]
    assert done.stderr == f"{folder}: 2 documents; skipped: photo.jpeg (an image); 1 hidden\n"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("*.txt", ["river.txt"]), ("**/*.txt", ["bridge.txt", "river.txt"]), ("*", ["bridge.txt", "river.txt"])],
)
def test_quoted_patterns(cli, presets, folder, pattern, names):
    (folder / "old" / "photo.jpeg").unlink()
    second = folder / "old" / "bridge.txt"
    assert planned(cli("plan", folder / pattern, second, "--json", "-m", presets["one"]))[: len(names)] == names


def test_a_pattern_without_a_match_is_3(cli, folder):
    done = cli("extract", folder / "*.pdf")
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: nothing matches {folder}/*.pdf\ntry:   another pattern")


def test_a_file_whose_name_looks_like_a_pattern(cli, tmp_path):
    path = tmp_path / "[a]*.txt"
    path.write_text("The river.")
    assert cli("extract", "-q", path).stdout == "The river.\n"


def test_one_document_where_one_is_read(cli, folder):
    done = cli("extract", folder)
    assert done.returncode == 2
    assert f"error: {folder} are 2 documents\nwhy:   {folder}/river.txt, {folder}/old/bridge.txt\n" in done.stderr
    assert cli("extract", "-q", folder / "old").stdout == "The bridge stands.\n"


@pytest.mark.parametrize("command", ["summarize", "plan", "extract", "tokens", "chunks", "compare"])
def test_nothing_is_fetched_unasked(cli, command):
    done = cli(command, "https://example.org/a.pdf")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: https://example.org/a.pdf is a web address\n" in done.stderr
    assert f"try:   specextend {command} --allow-url https://example.org/a.pdf\n" in done.stderr


def test_other_schemes_and_offline_are_2(cli):
    assert cli("extract", "file:///etc/passwd", "--allow-url").returncode == 2
    done = cli("plan", "https://example.org/a.pdf", "--allow-url", "--offline")
    assert done.returncode == 2
    assert "cannot be fetched offline" in done.stderr


def test_a_fetched_document(cli, monkeypatch):
    fetched = []
    monkeypatch.setattr("specextend_cli.documents.fetch.fetch", lambda url: fetched.append(url) or report_bytes(1))
    done = cli("extract", "https://example.org/r/a.pdf", "--allow-url", "--json")
    assert json.loads(done.stdout)["document"] == "a.pdf"
    assert fetched == ["https://example.org/r/a.pdf"]


# -------------------------------------------------------------------------------------------------------------- diff


@pytest.fixture
def hyphened(tmp_path):
    book = Sheets()
    for word in ("autumn", "winter", "spring"):
        lines = [
            f"In {word} the river rises to the level that the govern-",
            "ment has written down in all of its books.",
        ]
        book.page(lines, head="Levels of the River", foot="Page #")
    path = tmp_path / "levels.pdf"
    path.write_bytes(book.data())
    return path


def test_diff_shows_what_was_removed_and_counts_it(cli, hyphened):
    done = cli("extract", "--diff", hyphened)
    first, second, third = re.split(r"^(?=@@)", done.stdout, flags=re.M)[1:]
    assert first.splitlines() == [
        "@@ page 1 · running head × 1 · page number × 1 · hyphen joined × 1 @@",
        "-Levels of the River",
        "-Page 1",
        "-In autumn the river rises to the level that the govern-",
        "-ment has written down in all of its books.",
        "+In autumn the river rises to the level that the government",
        "+has written down in all of its books.",
    ]
    assert "winter" in second
    assert "spring" in third
    assert "running head × 3" in done.stderr
    assert "hyphen joined × 3" in done.stderr


def test_diff_is_red_on_a_terminal_only(hyphened):
    terminal = Terminal("extract", "--diff", hyphened, columns=100, real=True)
    assert terminal.wait() == 0
    assert b"\x1b[31m-Page 1\x1b[0m" in terminal.output


def test_diff_and_json_contradict(cli, hyphened):
    assert cli("extract", "--diff", "--json", hyphened).returncode == 2


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        (
            "a.txt",
            b"The o\xef\xac\x83ce.\n\nIt stays.\n",
            "@@ page 1 · ligature × 1 @@\n-The oﬃce.\n+The office.\n It stays.\n",
        ),
        ("a.md", b"# One\n\nso\xc2\xadft\n", "@@ text · soft hyphen × 1 @@\n # One\n-so\u00adft\n+soft\n"),
        (
            "a.html",
            b"<html><nav>Home</nav><h1>One</h1><p>Levels<sup>3</sup> rose.</p>",
            "@@ text · navigation × 1 · note mark × 1 @@\n-Home\n One\n-Levels³ rose.\n+Levels rose.\n",
        ),
        ("plain.txt", b"Nothing to do here.\n", ""),
    ],
)
def test_diff_of_other_kinds(cli, tmp_path, name, data, shown):
    path = tmp_path / name
    path.write_bytes(data)
    assert cli("extract", "-q", "--diff", path).stdout == shown
