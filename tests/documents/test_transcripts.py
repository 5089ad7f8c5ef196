"""Line numbers down the margin of transcripts are removed, and the numbers of lists stay."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.made_pdfs import wrap
from tests.documents.raw_pdf import FIXED, raw_pdf, show

TESTIMONY = (
    "Q.  Did you see the water rise on the morning of the ninth of May, when the bell had been rung by the ferryman?",
    "A.  I did.  It had covered the road within the hour, and by noon the mill was cut off from the town.",
    "Q.  Who was with you?",
    "A.  My brother, and two masons who had come to look at the bridge.  They left before it was dark.",
    "MR. STONE:  Objection, your Honor.  The witness has not said when he came to the bridge or who had sent him.",
)
STYLES = ("apart", "one text", "raised", "numbers first", "empty lines")


def hearing(page: int, style: str) -> list[str]:
    """25 lines of a page."""
    lines: list[str] = []
    for at in range(12):
        first, *more = wrap(TESTIMONY[(page + at) % 5], 54)
        lines += [f"     {first[:2]}  {first[3:]}" if first[1] == "." else f"     {first}", *more]
    return ["" if style == "empty lines" and at % 6 == 3 else line for at, line in enumerate(lines[:25])]


def transcript(style: str, pages: int) -> bytes:
    """Pages of testimony in type of one width, with the page number at the top right."""
    made = []
    for page in range(pages):
        numbers, lines = "", ""
        for row, line in enumerate(hearing(page, style)):
            y, number = 695 - 25 * row, f"{row + 1:>2}"
            size, rise = (9, 3) if style == "raised" else (12, 0)
            text = "" if style == "one text" else show(95, y, line, 12, FIXED) if line else ""
            shown = show(60, y + rise, f"{number}  {line}" if style == "one text" else number, size, FIXED)
            numbers, lines = (numbers + shown, lines + text) if style == "numbers first" else ("", lines + shown + text)
        made.append((show(500, 750, str(page + 1), 12, FIXED) if pages > 1 else "") + numbers + lines)
    return raw_pdf(made)


@pytest.mark.parametrize("pages", [1, 3])
@pytest.mark.parametrize("style", STYLES)
def test_line_numbers_are_removed(style: str, pages: int) -> None:
    document = read_bytes("a.pdf", transcript(style, pages))
    wanted = " ".join(line for page in range(pages) for line in hearing(page, style))
    assert document.text.split() == wanted.split()
    assert document.extraction.changes["line number"] == sum(len(hearing(page, style)) for page in range(pages))


@pytest.mark.parametrize("item", ["Item of the mill no. {}", "repair of mill {}", "{}.50\t{}.25"])
def test_numbers_of_lists_stay(item: str) -> None:
    """Short items, even in lower case, and rows of figures: on one page and on several."""
    pages = []
    for page in range(3):
        rows = ""
        for row in range(20):
            number = 20 * page + row + 1
            rows += show(60, 700 - 20 * row, str(number))
            for at, cell in enumerate(item.format(number, number).split("\t")):
                rows += show(90 + 80 * at, 700 - 20 * row, cell)
        pages.append(rows)
    for made in (pages, pages[:1]):
        assert "line number" not in read_bytes("a.pdf", raw_pdf(made)).extraction.changes


def test_the_numbers_of_a_list_of_sentences_stay() -> None:
    """Sentences begin with capitals, so that nothing goes on from line to line."""
    rows = "".join(
        show(60, 700 - 20 * row, f"{row + 1} The council met in the year {1900 + row}.") for row in range(20)
    )
    assert "line number" not in read_bytes("a.pdf", raw_pdf([rows])).extraction.changes
