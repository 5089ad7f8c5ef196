"""The command line from outside: pipes, terminals, streams that are closed, full, broken, or one and the same."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from specextend_cli.ui.output import Output
from tests.cli.conftest import WORDS
from tests.cli.shell import HIDE, SHOW, Terminal, bash, command, environment
from tests.helpers.error_lines import said
from tests.helpers.grid import but_for
from tests.ui.fake_stream import SUMMARY

SLOW = {"delay": 0.005}
DONE = "done in 18 s · 52 pages · 88 words"


def words(lines):
    return " ".join(" ".join(lines).split())


def test_stdout_holds_the_summary_and_nothing_else():
    done = bash('echo "$WORDS" | $SPECEXTEND summarize', WORDS=WORDS)
    assert (done.returncode, done.stdout) == (0, f"{SUMMARY}\n")
    assert done.stderr.splitlines()[-1].startswith(f"{DONE} · 57 tok/s · ")
    assert "\x1b" not in done.stderr


def test_quiet_is_quiet(fake, document):
    done = fake("summarize", "-q", document, warning="")
    assert (done.stdout, done.stderr) == (f"{SUMMARY}\n", "")


@pytest.mark.parametrize("size", but_for([(80, 24), (40, 12)], [(80, 24), (40, 12), (20, 8), (200, 50)]))
def test_on_a_terminal_the_summary_is_above_the_panel_and_one_line_remains(document, size):
    columns, rows = size
    terminal = Terminal("summarize", document, columns=columns, rows=rows, hang=0.6, **SLOW)
    terminal.until_drawn(b"2/3")
    shown = terminal.screen()
    assert max(map(len, shown)) <= columns
    assert len(shown) <= rows
    assert shown[0].startswith("╭─ harbour.txt ─")
    assert columns < 40 or any(re.match("│ (progress|chunks) ", line) for line in shown)
    assert terminal.wait() == 0
    screen = terminal.screen()
    done = next(number for number, line in enumerate(screen) if line.startswith("done in"))
    assert words(screen[:done]) == words(SUMMARY.splitlines())
    assert words(screen[done:]).startswith(DONE)
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
    assert b"\x1b[36m" in terminal.output  # colour


def test_a_file_is_clean_while_the_panel_is_on_the_terminal(document, tmp_path):
    """Nor has it colours, where nobody wants any."""
    out = tmp_path / "out.txt"
    with out.open("wb") as stdout:
        terminal = Terminal("summarize", document, redirect={"stdout": stdout}, env={"NO_COLOR": "1"}, **SLOW)
        assert terminal.wait() == 0
    assert out.read_text() == f"{SUMMARY}\n"
    assert HIDE in terminal.output
    assert b"accepted" in terminal.output
    assert words(terminal.screen()).startswith(DONE)
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7][;m]|\x1b\[9[0-7]m|\x1b\[38", terminal.output)


def test_nothing_is_drawn_once_a_pipe_has_text_which_its_reader_may_print_on_the_terminal(document):
    """As `| tee FILE` does."""
    document.with_name("river.txt").write_text(WORDS)
    terminal = Terminal("summarize", document, "river.txt", redirect={"stdout": subprocess.PIPE}, **SLOW)
    assert terminal.wait() == 0
    with terminal.process.stdout as pipe:
        assert pipe.read().decode().count(SUMMARY) == 2
    _, after = terminal.output.split(SHOW)  # the panel was shown once
    assert after.rindex(b"\x1b[1A") < after.index(b"done")
    assert b"2/2 river.txt: 52 pages" in after


def test_a_dumb_terminal_gets_plain_lines_in_its_encoding(document):
    env = {"TERM": "dumb", "PYTHONIOENCODING": "ascii"}
    terminal = Terminal("summarize", document, env=env, summary="Ein Gerät.")
    assert terminal.wait() == 0
    assert b"\x1b" not in terminal.output
    assert terminal.output.isascii()
    assert b"3 chunk summaries\r\n" in terminal.output
    assert b"Ein Ger?t." in terminal.output


def test_no_file_and_a_terminal_is_a_usage_error():
    terminal = Terminal("summarize")
    assert terminal.wait() == 2
    assert terminal.screen()[0] == "error: no document is named"


def test_a_table_is_drawn_on_a_terminal_and_loses_no_column(document):
    terminal = Terminal("summarize", document, "-n", columns=40)
    assert terminal.wait() == 0
    shown = terminal.output.decode()
    assert "─" in shown
    assert "\t" not in shown
    assert all(word in shown for word in ("harbour.txt", "900", "levels", "about 42 s", "memory"))


@pytest.mark.parametrize("arguments", [("models", "list"), ("summarize", "-q", "harbour.txt")], ids=["list", "text"])
def test_a_closed_pipe_is_141_without_a_word(document, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command(*arguments), stdout=writer, stderr=subprocess.PIPE, env=environment(), cwd=document.parent
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


def test_a_closed_pipe_under_the_panel_restores_the_terminal(document):
    reader, writer = os.pipe()
    os.close(reader)
    terminal = Terminal("summarize", document, redirect={"stdout": writer}, **SLOW)
    os.close(writer)
    assert terminal.wait() == 141
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0
    assert terminal.screen() == []


@pytest.mark.parametrize("arguments", ["summarize harbour.txt", "extract harbour.txt", "summarize -h"])
def test_a_closed_stdout_is_one_error_before_any_work(document, arguments):
    done = bash(f"$SPECEXTEND {arguments} >&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done) == {
        "error": "stdout is closed",
        "why": "the result has nowhere to go",
        "try": "redirect it: > FILE, or > /dev/null",
    }
    assert "chunk" not in done.stderr


def test_closed_streams_cost_no_word_of_the_result(document):
    """Nor is a closed stderr a file that is opened later."""
    assert bash("$SPECEXTEND summarize harbour.txt -o out.txt <&- >&- 2>&-").returncode == 0
    assert document.with_name("out.txt").read_text() == f"{SUMMARY}\n"
    done = bash('$SPECEXTEND summarize -v harbour.txt 2>/dev/full; echo "=$?"')
    assert done.stdout == f"{SUMMARY}\n=0\n"
    assert bash('$SPECEXTEND summarize - <&- 2>/dev/full; echo "=$?"').stdout == "=3\n"


@pytest.mark.parametrize("drawn", [False, True])
def test_a_full_disk_under_stdout_is_5_and_nothing_is_done(document, drawn):
    if drawn:
        with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - a device
            terminal = Terminal("summarize", document, redirect={"stdout": full})
            code, shown = terminal.wait(), "\n".join(terminal.screen())
    else:
        done = bash("$SPECEXTEND summarize harbour.txt > /dev/full")
        code, shown = done.returncode, done.stderr
    assert code == 5
    assert "error: the output could not be written\nwhy:   No space left on device\n" in f"{shown}\n"
    assert "done in" not in shown


def test_with_both_streams_in_one_place_every_note_has_its_own_line(document):
    assert bash("$SPECEXTEND summarize harbour.txt 2>&1 | cat > all.txt").returncode == 0
    lines = document.with_name("all.txt").read_text().splitlines()
    assert words(lines[-6:-1]) == words(SUMMARY.splitlines())
    assert lines[-1].startswith(DONE)


def test_a_note_behind_an_unfinished_line_begins_a_new_one(tmp_path):
    with (tmp_path / "all.txt").open("w") as stdout, os.fdopen(os.dup(stdout.fileno()), "w") as stderr:
        output = Output(stdout, stderr)
        output.write("half a line")
        output.warn("mind")
        output.write("the rest\n")
        Output(stdout, stderr).note("done")
    assert (tmp_path / "all.txt").read_text() == "half a line\nwarning: mind\nthe rest\ndone\n"
