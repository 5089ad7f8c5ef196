import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.table import Table
from rich.text import Text

from specextend_cli.errors import InputError
from specextend_cli.ui.output import Output, format_error, sanitize
from specextend_cli.ui.tables import cell, table

HOSTILE = [
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;new title\x07text", "text"),
    ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("\x9b2Jcleared", "cleared"),
    ("\x1bPq#0;2;0;0;0\x1b\\image", "image"),
    ("a\rb\x08c\x07d\x00e\x7ff\x85g", "abcdefg"),
    ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ("[bold]markup[/bold] :smile:", "[bold]markup[/bold] :smile:"),
    ("\x1b]an introducer without an end", "an introducer without an end"),
]


@pytest.mark.parametrize(("text", "clean"), HOSTILE)
def test_sanitize(text, clean):
    assert sanitize(text) == clean


@given(st.text(alphabet=st.sampled_from("ab \n\t\x1b[]0;m\x07\\\x9b\x9d\x00\r")), st.integers(1, 5))
def test_no_control_character_survives_in_any_cut(text, size):
    out = "".join(sanitize(text[i : i + size]) for i in range(0, len(text), size))
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in out)


def test_a_stream_that_is_no_terminal_gets_no_colour(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    stderr = io.StringIO()
    output = Output(io.StringIO(), stderr)
    output.warn("[bold]mind\x1b[2J[/bold]")
    assert stderr.getvalue() == "warning: [bold]mind[/bold]\n"
    assert not output.animated
    assert not output.shared


def test_force_color_gives_colour_but_no_animation(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stderr = io.StringIO()
    output = Output(io.StringIO(), stderr)
    output.warn("mind")
    assert "\x1b[33m" in stderr.getvalue()
    assert not output.animated


def test_characters_that_the_encoding_lacks_are_replaced():
    raw = io.BytesIO()
    output = Output(io.TextIOWrapper(raw, encoding="ascii"), io.StringIO())
    output.write("naïve\n")
    assert raw.getvalue() == b"na?ve\n"


def test_errors_and_records_are_inert():
    stderr, stdout = io.StringIO(), io.StringIO()
    Output(stdout, stderr).note(format_error(InputError("a\x1b[2J[b].pdf is \x9b2Jempty", why="no [red]text", fix="b")))
    assert stderr.getvalue() == "error: a[b].pdf is empty\nwhy:   no [red]text\ntry:   b\n"
    Output(stdout, stderr).write_json({"text": "\x1b[2J\x9b2J"})
    assert json.loads(stdout.getvalue()) == {"text": "\x1b[2J\x9b2J"}
    assert not {"\x1b", "\x9b"} & set(stdout.getvalue())


def test_a_table_is_lines_between_tabs_in_a_pipe():
    stdout, stderr = io.StringIO(), io.StringIO()
    headed, grid = table("name", "size"), Table.grid()
    headed.add_row(cell("a\tb\nc"), cell("1\x1b[2J"))
    grid.add_row("start", "1.0 s")
    Output(stdout, stderr).show(Group(headed, Text("two  spaces")))
    Output(stdout, stderr).note(grid)
    assert (stdout.getvalue(), stderr.getvalue()) == ("name\tsize\na b c\t1\ntwo  spaces\n", "start\t1.0 s\n")
