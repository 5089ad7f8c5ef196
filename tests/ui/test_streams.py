import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.ui.streams import Output, Sanitizer, sanitize

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


@pytest.mark.parametrize(("text", "clean"), HOSTILE[:-1])
def test_sequences_cut_anywhere_are_still_removed(text, clean):
    for cut in range(len(text) + 1):
        sanitizer = Sanitizer()
        assert sanitizer.feed(text[:cut]) + sanitizer.feed(text[cut:]) + sanitizer.close() == clean


@given(st.text(alphabet=st.sampled_from("ab \n\t\x1b[]0;m\x07\\\x9b\x9d\x00\r")), st.integers(1, 5))
def test_no_control_character_survives_in_any_cut(text, size):
    sanitizer = Sanitizer()
    out = "".join(sanitizer.feed(text[i : i + size]) for i in range(0, len(text), size)) + sanitizer.close()
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
