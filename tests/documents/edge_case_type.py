"""PDFs whose type is set so that words, cells and columns are hard to tell apart."""

from __future__ import annotations

from collections.abc import Callable

from tests.documents.edge_case_pdfs import FERRY, RIVER, column, drawn, wrap
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


def letterspaced(sheets: Sheets) -> None:
    """Headings of letters that are so far apart that PDFium sees words, and letters of an index, with spaces."""
    sheets._set("A N E S T W O", 72, 660, 12)
    column(sheets, RIVER, 72, 600, width=84)
    at = 72.0
    for letter in "WIDE FLOODS":
        if letter != " ":
            sheets._set(letter, at, 700, 12)
        at += sheets.canvas.stringWidth(letter, "Helvetica", 12) + 5


TYPE = (
    EdgeCase("letterspaced.pdf", drawn(letterspaced), f"WIDE FLOODS\n\nA N E S T W O\n\n{RIVER}"),
    EdgeCase("justified.pdf", drawn(one_justified), RIVER),
    *(
        EdgeCase(f"narrow-spaces-{font}-{apart}.pdf", drawn(narrow_spaces(font, apart)), RIVER)
        for font, apart in (("Helvetica", 1.7), ("Helvetica", 1.3), ("Times-Roman", 1.2), ("Times-Roman", 1.35))
    ),
    EdgeCase("spaced-out.pdf", drawn(spaced_out), FERRY),
)
