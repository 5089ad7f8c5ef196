"""PDFs whose figures, marks of notes, cells and places on the page are hard to tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.documents.edge_case_pdfs import BRIDGE, FERRY, RIVER, column, drawn, wrap
from tests.documents.edge_cases import EdgeCase
from tests.documents.made_pdfs import Sheets

SENSOR = (
    "The sensor responds to a minimum of force and the USDA report says that it needs 5 N to actuate. "
    "Konstantinopoulos wrote that the measured limit is lower in spring than in autumn, and nobody knows why."
)


def apart(sheets: Sheets, gap: Callable[[int, int], int]) -> None:
    """Letters with a gap behind each, by its place and row."""
    for row, line in enumerate(wrap(SENSOR, 80)):
        gaps = (0 if letter == " " else gap(at, row) for at, letter in enumerate(line))
        shown = "".join(f"({letter}){-gap}" for letter, gap in zip(line, gaps, strict=True))
        sheets.canvas.setFont("Helvetica", 10)
        sheets.canvas._code.append(f"BT /F1 10 Tf 72 {700 - 14 * row} Td [{shown}] TJ ET")


def long_name(sheets: Sheets) -> None:
    """Type whose letters are a little apart, and a name of 17 letters in it."""
    apart(sheets, lambda at, row: (110, 0, 0)[(at + row) % 3])


def rows(sheets: Sheets, table: Sequence[Sequence[str]], places: Sequence[float], *, top: float = 600) -> None:
    """A table with its labels at the left, and the other cells set to the right edges of their columns."""
    sheets.canvas.setFont("Helvetica", 10)
    for row, (label, *cells) in enumerate(table):
        sheets.canvas.drawString(places[0], top - 14 * row, label)
        for right, cell in zip(places[1:], cells, strict=True):
            sheets.canvas.drawRightString(right, top - 14 * row, cell)


CLOSE = (("Old mill", "20.33", "311"), ("Ferry", "18.25", "450"), ("Bridge", "9.40", "117"), ("Market", "7.02", "298"))


def close_figures(sheets: Sheets) -> None:
    """Two columns of figures less than a space apart."""
    column(sheets, FERRY, 72, 760, width=84)
    sheets.canvas.setFont("Helvetica", 10)
    for row, (label, left, right) in enumerate(CLOSE):
        sheets.canvas.drawString(72, 690 - 14 * row, label)
        sheets.canvas.drawRightString(200, 690 - 14 * row, left)
        sheets.canvas.drawString(201.2, 690 - 14 * row, right)


DIGITS = (("Old mill", "3", "0"), ("Ferry", "1", "2"), ("Bridge", "4", "7"), ("Market", "5", "5"))


def single_digits(sheets: Sheets) -> None:
    rows(sheets, DIGITS, (72, 160, 172))


TIGHT = (
    ("Old mill", "", "1,034", "", "7,365"),
    ("Ferry", "6,220", "1,538", "6,387", "35"),
    ("Bridge", "4,364", "3,749", "1,675", "502"),
    ("Market", "", "151", "6,246", "6,916"),
    ("Road", "8,645", "", "8,124", "5,664"),
    ("Bell", "6,624", "2,835", "6,140", ""),
    ("Mill", "1,769", "8,536", "6,071", "485"),
    ("Town", "5,055", "9,719", "2,792", ""),
)


def tight_table(sheets: Sheets) -> None:
    """Columns two points apart, with empty cells."""
    rows(sheets, TIGHT, (72, 145, 172, 199, 226))


def no_size(sheets: Sheets) -> None:
    """Beside the text, figures in type of no size."""
    column(sheets, FERRY, 72, 760, width=84)
    for row in range(4):
        sheets.canvas.setFont("Helvetica", 0)
        sheets.canvas.drawString(72, 600 - 12 * row, "12 34 5a6B")


def dashed(table: Sequence[Sequence[str]]) -> str:
    """Rows as they are read: a dash for each empty cell before the last that is not."""
    ends = (max(at for at, cell in enumerate(row) if cell) + 1 for row in table)
    return "\n".join("  ".join(cell or "—" for cell in row[:end]) for row, end in zip(table, ends, strict=True))


def raised(sheets: Sheets, lines: Sequence[Sequence[str]], *, size: float = 11) -> None:
    """Lines whose second, fourth, ... piece is raised."""
    for row, line in enumerate(lines):
        text = sheets.canvas.beginText(72, 700 - 16 * row)
        for at, piece in enumerate(line):
            text.setFont("Helvetica", 0.64 * size if at % 2 else size)
            text.setRise(0.36 * size if at % 2 else 0)
            text.textOut(piece)
        sheets.canvas.drawText(text)


def exponents(sheets: Sheets) -> None:
    raised(
        sheets,
        (
            ("The lake holds 10", "6", " litres and the sea 10", "12", "; a drop is 10", "-6", " of them, and"),
            ("its surface is x", "2", " or (a + b)", "2", " or 2", "n", " times that of the lake in the hills."),
        ),
    )


def marks(sheets: Sheets) -> None:
    """Marks of four digits, after a year, several at once, and letters."""
    raised(
        sheets,
        (
            ("There were many grants", "1023", " and loans, begun in 1999", "12", ", and grown until 2016;", "3,4", ""),
            ("the total", "a", " was 1,234", "b", " on the 21", "st", " of May, as it was in the 19", "e", " year."),
        ),
    )


def notes_that_begin_with_digits(sheets: Sheets) -> None:
    column(sheets, FERRY, 72, 760, width=84)
    for row, (mark, note) in enumerate((("12", "18 U.S.C. is cited often."), ("1013", "9/12 Letter, by hand."))):
        sheets._set(mark, 72, 93 - 12 * row, 6)
        sheets._set(note, 72 + 3.4 * len(mark), 90 - 12 * row, 9)


def two_types(sheets: Sheets) -> None:
    """A title and small print beside it, so near to one height that they are taken for one line."""
    sheets._set("Enhancing the Bridge and the", 240, 694, 18)
    sheets._set("Highlights of a report to the", 60, 675.4, 8)
    sheets._set("Ferry Leads to Fewer Floods", 240, 676, 18)
    sheets._set("chairman of the board", 60, 665, 8)
    column(sheets, FERRY, 240, 600, width=60)


def interrupted(sheets: Sheets) -> None:
    """A figure between the lines of a sentence, and a table at the head of the next page."""
    first, second = (wrap(text, 84) for text in (RIVER, BRIDGE))
    column(sheets, " ".join(first[:2]), 72, 740, width=84)
    sheets._set("Figure 1: The river and its towns", 72, 690, 8)
    sheets._set("Mill", 120, 640, 7)
    sheets._set("Source: the book of the mill.", 72, 600, 7)
    left = column(sheets, " ".join(first[2:]), 72, 570, width=84)
    column(sheets, " ".join(second[:2]), 72, left - 10, width=84)
    sheets.canvas.showPage()
    sheets._set("Table 1: Levels", 72, 740, 8)
    rows(sheets, CLOSE, (72, 180, 240), top=720)
    column(sheets, " ".join(second[2:]), 72, 640, width=84)
    column(sheets, FERRY, 72, 560, width=84)


def indices(sheets: Sheets) -> None:
    """Lowered digits, behind which PDFium begins another line."""
    at = 72.0
    for number, piece in enumerate(("The H", "2", "O of the river takes up CO", "2", " all year.")):
        size = 7 if number % 2 else 11
        sheets._set(piece, at, 700 - (2 if number % 2 else 0), size)
        at += sheets.canvas.stringWidth(piece, "Helvetica", size)


PRINT = (
    EdgeCase("indices.pdf", drawn(indices), "The H2O of the river takes up CO2 all year."),
    EdgeCase(
        "two-types.pdf",
        drawn(two_types),
        "Enhancing the Bridge and the Ferry Leads to Fewer Floods\n\n"
        f"Highlights of a report to the chairman of the board\n\n{FERRY}",
    ),
    EdgeCase(
        "interrupted.pdf",
        drawn(interrupted),
        f"{RIVER}\n\nFigure 1: The river and its towns\n\nMill\n\nSource: the book of the mill.\n\n{BRIDGE}\n\n"
        f"Table 1: Levels\n\n{dashed(CLOSE)}\n\n{FERRY}",
    ),
    EdgeCase("long-name.pdf", drawn(long_name), SENSOR),
    EdgeCase("close-figures.pdf", drawn(close_figures), f"{FERRY}\n\n{dashed(CLOSE)}"),
    EdgeCase("single-digits.pdf", drawn(single_digits), dashed(DIGITS)),
    EdgeCase("tight-table.pdf", drawn(tight_table), dashed(TIGHT)),
    EdgeCase("no-size.pdf", drawn(no_size), FERRY),
    EdgeCase(
        "exponents.pdf",
        drawn(exponents),
        "The lake holds 10⁶ litres and the sea 10¹²; a drop is 10⁻⁶ of them, and its surface is x² or (a + b)² or 2^n "
        "times that of the lake in the hills.",
    ),
    EdgeCase(
        "marks-of-notes.pdf",
        drawn(marks),
        "There were many grants and loans, begun in 1999, and grown until 2016; the total was 1,234 on the 21st of "
        "May, as it was in the 19e year.",
    ),
    EdgeCase(
        "notes-that-begin-with-digits.pdf",
        drawn(notes_that_begin_with_digits),
        f"{FERRY}\n\n12 18 U.S.C. is cited often.\n1013 9/12 Letter, by hand.",
    ),
)
