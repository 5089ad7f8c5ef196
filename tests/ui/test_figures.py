import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from specextend_cli.ui.panel import wrap
from specextend_cli.ui.tables import block, density, histogram


def test_histogram_gathers_long_runs_in_the_last_bin():
    assert histogram({1: 1, 2: 2, 6: 3, 9: 4}) == [("1", 0.1), ("2", 0.2), ("3", 0), ("4", 0), ("5", 0), ("6+", 0.7)]


def test_blocks_span_the_whole_height():
    assert block(0.0) == "▁"
    assert block(1.0) == "█"


@given(st.sets(st.integers(0, 500)), st.integers(1, 40))
def test_density_keeps_every_covered_position(positions, cells):
    shares = density(positions, 501, cells)
    assert all(0 <= share <= 1 for share in shares)
    assert sum(shares) * 501 / cells == pytest.approx(len(positions), abs=cells)
    assert all(shares[at * cells // 501] for at in positions)


@given(st.text(alphabet=st.sampled_from("ab cé漢 \n")), st.integers(12, 20), st.integers(1, 7))
def test_wrapping_fits_and_loses_nothing_but_white_space(text, width, size):
    console, done, tail = Console(width=width, file=io.StringIO()), [], ""
    for at in range(0, len(text), size):
        lines, tail = wrap(tail + text[at : at + size], console)
        done += lines
    assert all(cell_len(line) <= width - 4 for line in (*done, tail.rstrip()))
    assert "".join(" ".join((*done, tail)).split()) == "".join(text.split())


def test_lines_break_between_words():
    lines, tail = wrap("the quays silted up; by 1931\n\nonly two ", Console(width=16, file=io.StringIO()))
    assert (lines, tail) == (["the quays", "silted up;", "by 1931", ""], "only two ")
