"""The table on a terminal: at any width, without colour, whatever it is called."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from specextend_cli.bench.rows import summarize
from specextend_cli.ui.bench import report, table
from tests.bench.made_benchmark import benchmark, realistic, record
from tests.bench.untrusted_text import controls, untrusted_benchmark


def shown(renderable: RenderableType, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, markup=True, highlight=False)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 64, 80, 120, 200])
def test_the_table_fits_the_width_of_the_terminal(width: int) -> None:
    text = shown(report(realistic(documents=2, lengths=(512,)), width), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for needed in ("512", "tokens", "specextend", "×", "2 of 2", "Small n"):
        assert needed in text


def test_a_wide_terminal_shows_more() -> None:
    made = realistic(documents=2, lengths=(512,))
    assert "memory" in shown(table(summarize(made)))
    assert "memory" not in shown(table(summarize(made), 80), 80)
    assert "end to end" in shown(table(summarize(made), 80), 80)


def test_what_is_bad_needs_no_colour() -> None:
    text = shown(table(summarize(benchmark(record(), record("bad", tokens=(1,) * 10, decode_seconds=18.0)))))
    assert "0 of 1" in text
    assert "0.50×" in text


def test_untrusted_text_is_harmless() -> None:
    text = shown(report(untrusted_benchmark()), 400)
    assert not controls(text)
    assert "[red]x[/red]<script>" in text


def test_an_empty_benchmark_has_a_table() -> None:
    assert "method" in shown(report(benchmark()))
