"""Streams that are closed, full or broken, or one and the same; and results for programs."""

from __future__ import annotations

import json
import os
import re

import pytest

from specextend_cli.ui.destination import destination
from specextend_cli.ui.output import Output
from tests.cli.shell import Terminal, bash, run
from tests.ui.fake_stream import SUMMARY

SLOW = {"delay": 0.01}


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "harbour.txt"
    path.write_text("A harbour is a place where ships stay.\n")
    return path


@pytest.mark.parametrize(
    ("stderr", "words"), [("2>&-", "--verbose"), ("2>/dev/full", "-f jsonl"), ("2> >(exec 0<&-; sleep 0.1)", "")]
)
def test_what_becomes_of_stderr_costs_no_word_of_the_result(document, stderr, words):
    done = bash(f'$SPECEXTEND summarize {words} "$F" {stderr}; echo "=$?"', F=str(document))
    assert done.stdout.endswith("\n=0\n")
    assert SUMMARY in (done.stdout if "json" not in words else json.loads(done.stdout.splitlines()[-2])["text"])


def test_the_exit_code_of_an_error_is_the_same_without_stderr(document):
    assert bash('$SPECEXTEND summarize absent.txt 2>/dev/full; echo "=$?"').stdout == "=3\n"


def test_a_closed_stderr_is_no_file_that_is_opened_later(document):
    bash('$SPECEXTEND summarize "$F" -o out.txt 2>&-', F=str(document))
    assert (document.parent / "out.txt").read_text() == SUMMARY + "\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "summarize harbour.txt",
        "extract harbour.txt",
        pytest.param("compare harbour.txt", marks=pytest.mark.full),
        "plan harbour.txt",
        "summarize -h",
    ],
)
def test_a_closed_stdout_is_one_error(document, arguments):
    done = bash(f"$SPECEXTEND {arguments} >&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-3:] == [
        "error: stdout is closed",
        "why:   the result has nowhere to go",
        "try:   redirect it: > FILE, or > /dev/null",
    ]
    assert "part 1" not in done.stderr


def test_a_closed_stdout_does_not_matter_where_the_result_goes_elsewhere(document):
    assert bash("$SPECEXTEND summarize harbour.txt -o out.txt >&-").returncode == 0


@pytest.mark.parametrize("into", ["-o /dev/full", "--json > /dev/full"])
@pytest.mark.parametrize("drawn", [False, True])
def test_what_cannot_be_written_is_not_called_done(document, into, drawn):
    if drawn:
        terminal = Terminal("summarize", document, *into.replace("> ", "-o ").split())
        code, said = terminal.wait(), "\n".join(terminal.screen())
    else:
        done = bash(f"$SPECEXTEND summarize harbour.txt {into}")
        code, said = done.returncode, done.stderr
    assert code == 5
    assert "error: the output could not be written" in said
    assert "done in" not in said


def test_a_closed_stdin_is_an_empty_one(document):
    assert bash("$SPECEXTEND summarize - <&-").returncode == 3


@pytest.mark.parametrize("into", ["> all.txt 2>&1", "2>&1 | cat > all.txt"])
def test_with_both_streams_in_one_place_every_note_has_its_own_line(document, into):
    assert bash(f"$SPECEXTEND summarize harbour.txt {into}").returncode == 0
    lines = (document.parent / "all.txt").read_text().splitlines()
    assert " ".join(lines[-6:-1]).split() == SUMMARY.split()
    assert lines[-1].startswith("done in ")


def test_a_note_behind_an_unfinished_line_begins_a_new_one(tmp_path):
    with (tmp_path / "all.txt").open("w") as stdout, os.fdopen(os.dup(stdout.fileno()), "w") as stderr:
        output = Output(stdout, stderr)
        output.write("half a line")
        output.warn("mind")
        output.write("the rest\n")
        Output(stdout, stderr).note("done")
    assert (tmp_path / "all.txt").read_text() == "half a line\nwarning: mind\nthe rest\ndone\n"


# ------------------------------------------------------------------------------------------------------ for programs


def test_tables_are_lines_between_tabs_in_a_pipe(fake, document):
    long = document.with_name("a name that is much longer than a column of eighty " * 3 + "\tor\nmore.txt")
    long.write_text("Some words.\n")
    lines = fake("plan", document, long).stdout
    header, first, second = lines.splitlines()
    assert header.split("\t")[:3] == ["document", "pages", "tokens"]
    assert first.split("\t")[:3] == ["harbour.txt", "3", "1,234"]
    assert second.split("\t")[0] == " ".join(long.name.split())
    assert len({line.count("\t") for line in lines.splitlines()}) == 1
    names = [line.split("\t")[0] for line in fake("presets", "list").stdout.splitlines()]
    assert names[0] == "preset"
    assert "llama-3.1-8b-eagle3-paper" in names


def test_failures_are_lines_between_tabs_too(fake, document):
    done = fake("summarize", document, "a-name-" * 15 + ".txt", "-q")
    assert f"{'a-name-' * 15}.txt does not exist\n" in done.stderr


def test_on_a_terminal_a_table_is_drawn(document):
    terminal = Terminal("plan", document)
    assert terminal.wait() == 0
    assert "─" in terminal.output.decode()
    assert b"\t" not in terminal.output


def test_on_a_narrow_terminal_a_table_loses_no_column(document):
    terminal = Terminal("plan", document, columns=40)
    assert terminal.wait() == 0
    shown = terminal.output.decode()
    assert all(word in shown for word in ("harbour.txt", "1,234", "levels", "about 42 s", "memory"))


def test_json_of_several_documents_is_one_array(fake, document):
    other = document.parent / "sub" / "harbour.txt"
    other.parent.mkdir()
    other.write_text("Other words.\n")
    done = fake("summarize", document, "absent.txt", other, "--json", "-q")
    assert done.returncode == 6
    assert [record["document"] for record in json.loads(done.stdout)] == ["harbour.txt", "sub/harbour.txt"]
    assert [one["document"] for one in json.loads(fake("summarize", "sub", "--json", "-q").stdout)] == ["harbour.txt"]


def test_an_array_that_ends_early_is_whole():
    written = []
    place = destination(None, "json", [("a", None)], many=True)

    def interrupted():
        with place.all(written.append):
            with place.target(written.append, "a") as write:
                write('{"document": "a"}\n')
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert json.loads("".join(written)) == [{"document": "a"}]


def test_lines_of_json_name_their_document(fake, document):
    other = document.with_name("other.txt")
    other.write_text("Other words.\n")
    done = fake("summarize", document, other, "-f", "jsonl", "-q")
    assert [json.loads(line)["document"] for line in done.stdout.splitlines()] == ["harbour.txt", "other.txt"]


# ------------------------------------------------------------------------------------------------------------- panel


def test_an_encoding_without_block_characters_gets_a_panel_in_ascii(document):
    terminal = Terminal("summarize", document, env={"PYTHONIOENCODING": "ascii"}, **SLOW)
    assert terminal.wait() == 0
    drawn = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", terminal.output)
    assert b"+- harbour.txt -----" in drawn
    assert terminal.output.isascii()
    assert any(row.startswith("done in 18 s ? 52 pages ? 88 words") for row in terminal.screen())


def test_a_low_terminal_shows_the_most_important_rows(document):
    terminal = Terminal("summarize", document, columns=40, rows=6, **SLOW)
    terminal.until(b"writing: ")
    terminal.until_match(rb"(?s)Trade.*\r\x1b\[2K")
    frame, progress, chunks, text, end = terminal.last_frame()
    assert (frame[:13], end[-2:]) == ("╭─ harbour.tx", "─╯")
    assert re.match("│ progress .* left", progress)
    assert re.match(r"│ (chunks   ./3|summary) +\w+", chunks)
    assert text.startswith("│ ")
    assert terminal.wait() == 0
    assert "customs house." in " ".join(" ".join(terminal.screen()).split())


def test_without_a_panel_native_code_writes_to_stderr(document):
    assert run("summarize", document, native="a line\n").stderr.count("a line\n") == 3
