"""PDFs whose type is set so that words, cells and columns are hard to tell apart."""

from __future__ import annotations

from collections.abc import Callable

from tests.documents.edge_case_pdfs import BRIDGE, FERRY, RIVER, column, drawn, wrap
from tests.documents.edge_cases import EdgeCase
from tests.documents.made_pdfs import Sheets


def justified(sheets: Sheets, texts: tuple[str, ...], lefts: tuple[float, ...], chars: int, width: float) -> None:
    """Columns set to both edges, drawn row by row: the spaces of a line are as wide as its words leave room."""
    columns = [wrap(text, chars) for text in texts]
    sheets.canvas.setFont("Helvetica", 10)
    for row in range(max(map(len, columns))):
        for left, lines in zip(lefts, columns, strict=True):
            if row < len(lines):
                line = lines[row]
                room = width - sheets.canvas.stringWidth(line, "Helvetica", 10)
                space = room / max(line.count(" "), 1) if row + 1 < len(lines) else 0
                sheets.canvas.drawString(left, 740 - 12 * row, line, wordSpace=space)
    sheets.canvas.showPage()


def one_justified(sheets: Sheets) -> None:
    justified(sheets, (RIVER,), (72,), 34, 200)


def two_justified(sheets: Sheets) -> None:
    for number, texts in enumerate(((RIVER, BRIDGE), (BRIDGE, FERRY), (FERRY, RIVER))):
        sheets._set("Journal of Rivers", 250, 800, 9)
        sheets._set(str(number + 7), 290, 30, 9)
        justified(sheets, texts, (60, 310), 40, 220)


def narrow_spaces(font: str, apart: float) -> Callable[[Sheets], None]:
    """Words so many points apart, without spaces."""

    def draw(sheets: Sheets) -> None:
        sheets.canvas.setFont(font, 10)
        for row, line in enumerate(wrap(RIVER, 80)):
            at = 72.0
            for word in line.split():
                sheets.canvas.drawString(at, 700 - 14 * row, word)
                at += sheets.canvas.stringWidth(word, font, 10) + apart

    return draw


def spaced_out(sheets: Sheets) -> None:
    """Letters that are all set apart."""
    sheets.canvas.setFont("Helvetica", 10)
    for row, line in enumerate(wrap(FERRY, 70)):
        sheets.canvas.drawString(72, 700 - 14 * row, line, charSpace=1.5)


def initial(letter: str, rest: str) -> bytes:
    """A large first letter beside the first two lines."""
    sheets = Sheets()
    sheets._set(letter, 72, 683, 36)
    for row, line in enumerate(wrap(rest, 70)):
        sheets._set(line, 98 if row < 2 else 72, 700 - 14 * row, 11)
    return sheets.data()


def columns_with_notes(sheets: Sheets) -> None:
    sheets._set("Waters", 72, 760, 18)
    for left, text, note in (
        (60, RIVER, "1 See the book of the mill, page 7."),
        (320, BRIDGE, "2 By order of the council."),
    ):
        column(sheets, text, left, 720)
        column(sheets, note, left, 90, size=7)


ROWS = (
    ("Item", "What it is and why it matters to all", "Cost"),
    ("Bridge", "A way over the water for carts and people of the valley", "300"),
    ("Ferry", "A way over the water for those who have time to spare", "20"),
    ("Road", "A way along the water that is often flooded in spring", "500"),
    ("Mill", "A house where corn is ground by the force of water", "40"),
    ("Bell", "A thing that is rung when the water rises at night", "3"),
)


def wide_table(sheets: Sheets) -> None:
    column(sheets, FERRY, 60, 760, width=90)
    for row, cells in enumerate(ROWS):
        for left, cell in zip((60, 130, 450), cells, strict=True):
            sheets._set(cell, left, 690 - 14 * row, 10)


TYPE = (
    EdgeCase("justified.pdf", drawn(one_justified), RIVER),
    EdgeCase("justified-columns.pdf", drawn(two_justified), "\n\n".join((RIVER, BRIDGE, BRIDGE, FERRY, FERRY, RIVER))),
    *(
        EdgeCase(f"narrow-spaces-{font}-{apart}.pdf", drawn(narrow_spaces(font, apart)), RIVER)
        for font, apart in (("Helvetica", 1.7), ("Helvetica", 1.3), ("Times-Roman", 1.2), ("Times-Roman", 1.35))
    ),
    EdgeCase("spaced-out.pdf", drawn(spaced_out), FERRY),
    EdgeCase("initial.pdf", lambda: initial("T", RIVER[1:]), RIVER),
    EdgeCase(
        "initial-word.pdf", lambda: initial("A", f"{BRIDGE[2:]} The bridge stands."), f"{BRIDGE} The bridge stands."
    ),
    EdgeCase(
        "columns-with-notes.pdf",
        drawn(columns_with_notes),
        f"Waters\n\n{RIVER}\n\n1 See the book of the mill, page 7.\n\n{BRIDGE}\n\n2 By order of the council.",
    ),
    EdgeCase("wide-table.pdf", drawn(wide_table), "\n".join([f"{FERRY}\n", *map("  ".join, ROWS)])),
)
