"""The head of a table that every page repeats is read once, and running heads above tables are not read."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show

HEAD = "Station Level in metres Reader"
STEP = 18
READERS = ("Ada", "Brown", "Carl Dell")


def pages(count: int, *, above: float) -> list[str]:
    """Pages of rows, with the head `above` the first row of each."""
    contents = []
    for page in range(count):
        content = show(100, 700 + above, HEAD, 10)
        for row in range(30):
            number = 30 * page + row
            cells = (f"Mill {number}", f"{number * 37 % 90 / 10:.1f}", READERS[number % 3])
            content += "".join(show(100 + 90 * at, 700 - STEP * row, cell, 10) for at, cell in enumerate(cells))
        contents.append(content)
    return contents


@pytest.mark.parametrize("count", [2, 5])
def test_the_first_head_stays(count: int) -> None:
    document = read_bytes("a.pdf", raw_pdf(pages(count, above=STEP)))
    assert document.text.startswith(f"{HEAD}\nMill 0  0.0  Ada\n")
    assert document.text.count(HEAD) == 1
    assert document.text.count("Mill") == 30 * count


def test_a_head_in_the_middle_of_a_page_is_the_first() -> None:
    first = show(100, 700, "The stations of the river are these.", 10) + show(100, 682, HEAD, 10)
    first += "".join(show(100 + 90 * at, 664, cell, 10) for at, cell in enumerate(("Spring", "0.1", "Ada")))
    document = read_bytes("a.pdf", raw_pdf([first, *pages(4, above=STEP)]))
    assert document.text.count(HEAD) == 1


def test_running_heads_above_tables_are_removed() -> None:
    assert HEAD not in read_bytes("a.pdf", raw_pdf(pages(5, above=2 * STEP))).text
