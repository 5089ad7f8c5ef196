"""PDFs that make readers stumble over their layout, each with the text that a person would read in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont

from tests.documents.edge_cases import EdgeCase
from tests.documents.made_pdfs import HEIGHT, WIDTH, Sheets, wrap
from tests.documents.raw_pdf import raw_pdf, show, width

RIVER = (
    "The river rises in the hills above the old mill and reaches the sea after forty miles of fields, woods and towns. "
    "People have measured its level every morning since the great flood, and they have written it down in a book. "
    "Nobody knows who began it, yet everybody in the valley can say where that book is kept and who has read it."
)
BRIDGE = (
    "A bridge of stone crosses the water below the market, and carts still use it when the ford is too deep. "
    "It was paid for by a tax on salt, which the merchants hated and the farmers never noticed at all. "
    "Its arches are inspected in spring by two masons, who look for cracks and remove the branches caught there."
)
FERRY = (
    "Further down a ferry takes those who have time, and its bell is heard on both banks when the wind is low. "
    "The ferryman lives alone with a dog and many clocks, of which no two agree about the hour of the day."
)


def drawn(draw: Callable[[Sheets], None]) -> Callable[[], bytes]:
    def make() -> bytes:
        sheets = Sheets()
        draw(sheets)
        return sheets.data()

    return make


def column(sheets: Sheets, text: str, left: float, top: float, *, width: int = 44, size: float = 10) -> float:
    """Set a wrapped text; the height where it ends."""
    sheets.canvas.setFont("Helvetica", size)
    for line in wrap(text, width):
        sheets.canvas.drawString(left, top, line)
        top -= 1.2 * size
    return top


# ---------------------------------------------------------------------------------------------------- characters


def chinese(sheets: Sheets) -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    sheets.canvas.setFont("STSong-Light", 12)
    sheets.canvas.drawString(72, 700, "这条河从山上流下来经过许多田地和村庄然后流入大海人们每天早晨")
    sheets.canvas.drawString(72, 684, "测量它的水位。")


# ---------------------------------------------------------------------------------------------- directions, sizes


def rotated(angle: int) -> Callable[[Sheets], None]:
    """Pages that are shown turned, with text that is upright then."""

    def draw(sheets: Sheets) -> None:
        canvas = sheets.canvas
        canvas.setPageRotation(angle)
        if angle == 90:
            canvas.translate(WIDTH, 0)
        elif angle == 180:
            canvas.translate(WIDTH, HEIGHT)
        elif angle == 270:
            canvas.translate(0, HEIGHT)
        canvas.rotate(angle)
        column(sheets, RIVER, 72, 500, width=84)
        column(sheets, BRIDGE, 72, 400, width=84)
        canvas.showPage()

    return draw


def sized(size: float) -> Callable[[Sheets], None]:
    def draw(sheets: Sheets) -> None:
        column(sheets, FERRY, 40, 780, width=max(int(1000 / size), 12), size=size)
        sheets.canvas.showPage()

    return draw


def off_the_page(sheets: Sheets) -> None:
    """The page begins left of and below zero, and some text lies outside of it."""
    sheets.canvas.setPageSize((500, 500))
    sheets.canvas.translate(-1000, -1000)
    column(sheets, RIVER, 1020, 1400, width=84)
    sheets._set("never to be seen", 5000, 5000, 11)


# ------------------------------------------------------------------------------------------------- what is there


def blank_between(sheets: Sheets) -> None:
    for text in (RIVER, "", BRIDGE, "", ""):
        if text:
            column(sheets, text, 72, 700, width=84)
        sheets.canvas.showPage()


def blank(sheets: Sheets) -> None:
    for _ in range(3):
        sheets.canvas.showPage()


def pictures(sheets: Sheets) -> None:
    for _ in range(4):
        sheets.picture()


def scan_with_text(sheets: Sheets) -> None:
    """What OCR leaves: a picture, and invisible text over it."""
    for part in (RIVER, BRIDGE):
        text = sheets.canvas.beginText(60, 700)
        text.setFont("Helvetica", 10)
        text.setTextRenderMode(3)
        for line in wrap(part, 84):
            text.textLine(line)
        sheets.canvas.drawText(text)
        sheets.picture()


def long_book(sheets: Sheets) -> None:
    for number in range(1, 101):
        sheets._set(f"Page {number} of 100", 260, 30, 9)
        sheets._set(entry(number), 72, 700, 11)
        sheets.canvas.showPage()


def entry(number: int) -> str:
    word = "".join(chr(ord("a") + int(digit)) for digit in str(number))
    return f"The {word} of the book says on day {number} that all was well."


def outlined(sheets: Sheets) -> None:
    """Headings set like the text: only the bookmarks say what they are."""
    for number, (title, text) in enumerate((("On the origin of the river", RIVER), ("On the old bridge", BRIDGE))):
        sheets.canvas.bookmarkPage(str(number))
        sheets.canvas.addOutlineEntry(title, str(number), 0)
        sheets.canvas.setFont("Helvetica", 10)
        sheets.canvas.drawString(72, 712, title)
        column(sheets, text, 72, 700, width=84)
        sheets.canvas.showPage()


def form(sheets: Sheets) -> None:
    """Text inside a form object that several pages share."""
    sheets.canvas.beginForm("shared")
    column(sheets, FERRY, 72, 700, width=84)
    sheets.canvas.endForm()
    sheets.canvas.doForm("shared")


# ------------------------------------------------------------------------------------------- words, figures, marks


def spaced_out(sheets: Sheets) -> None:
    """Letters that are all set apart."""
    sheets.canvas.setFont("Helvetica", 10)
    for row, line in enumerate(wrap(FERRY, 70)):
        sheets.canvas.drawString(72, 700 - 14 * row, line, charSpace=1.5)


def rows(sheets: Sheets, table: Sequence[Sequence[str]], places: Sequence[float], *, top: float = 600) -> None:
    """A table with its labels at the left, and the other cells set to the right edges of their columns."""
    sheets.canvas.setFont("Helvetica", 10)
    for row, (label, *cells) in enumerate(table):
        sheets.canvas.drawString(places[0], top - 14 * row, label)
        for right, cell in zip(places[1:], cells, strict=True):
            sheets.canvas.drawRightString(right, top - 14 * row, cell)


CLOSE = (("Old mill", "20.33", "311"), ("Ferry", "18.25", "450"), ("Bridge", "9.40", "117"), ("Market", "7.02", "298"))
CLOSE_ROWS = "\n".join(f"{name}  {one} {other}" for name, one, other in CLOSE)


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


def two_types(sheets: Sheets) -> None:
    """A title and small print beside it, so near to one height that they are taken for one line."""
    sheets._set("Enhancing the Bridge and the", 240, 694, 18)
    sheets._set("Highlights of a report to the", 60, 675.4, 8)
    sheets._set("Ferry Leads to Fewer Floods", 240, 676, 18)
    sheets._set("chairman of the board", 60, 665, 8)
    column(sheets, FERRY, 240, 600, width=60)


def indices(sheets: Sheets) -> None:
    """Lowered digits, behind which PDFium begins another line."""
    at = 72.0
    for number, piece in enumerate(("The H", "2", "O of the river takes up CO", "2", " all year.")):
        size = 7 if number % 2 else 11
        sheets._set(piece, at, 700 - (2 if number % 2 else 0), size)
        at += sheets.canvas.stringWidth(piece, "Helvetica", size)


# ----------------------------------------------------------------------------------- characters that stand for others


def noted_in_gap(before: float, behind: float) -> Callable[[], bytes]:
    """A mark in a gap between words that was left for it, so many points from either, drawn after both."""

    def make() -> bytes:
        mark = 72 + width(NOTED_HEAD, 12) + before
        right = mark + width("3", 7.2) + behind
        rest = "four new limitations on liability for online service providers."
        items = (
            show(72, 700, NOTED_HEAD)
            + show(right, 700, "to create")
            + show(mark, 704.6, "3", 7.2)
            + show(72, 686, rest)
        )
        return raw_pdf([items])

    return make


NOTED_HEAD = "The council adds a new section to the Copyright Act"
NOTED_IN_GAP = f"{NOTED_HEAD} to create four new limitations on liability for online service providers."


PEACE = ("ا", "ل", "س", "لا", "م", " ", "ع", "ل", "ي", "ك", "م")
GOD = ("ا", "لله", " ", "ا", "ك", "ب", "ر")
VOWELS = ("م", "حّ", "م", "د", " ", "لإ", "س", "لا", "م")
HEBREW = ("שׁ", "ל", "ו", "ם", " ", "ע", "ו", "ל", "ם")


def right_to_left(glyphs: Sequence[str], *, reverse: bool) -> Callable[[], bytes]:
    """A line of glyphs in the order of reading; `reverse`: the map has the letters of each in reversed order."""

    def make() -> bytes:
        codes = {letters: chr(65 + at) for at, letters in enumerate(dict.fromkeys(glyphs)) if letters != " "}
        unicode = {code: letters[::-1] if reverse else letters for letters, code in codes.items()} | {" ": " "}
        line = "".join(codes.get(letters, " ") for letters in reversed(glyphs))
        return raw_pdf([show(72, 700, line)], unicode)

    return make


def unnamed() -> bytes:
    """Characters in words that no map names."""
    unicode = {chr(code): chr(code) for code in range(32, 127)} | {"\xa5": "\x01"}
    return raw_pdf([show(72, 700, "The e\xa5ort of xyli\xa5orm.") + show(72, 660, RIVER[:80])], unicode)


TWO = f"{RIVER}\n\n{BRIDGE}"
PDFS = (
    EdgeCase(
        "chinese.pdf", drawn(chinese), "这条河从山上流下来经过许多田地和村庄然后流入大海人们每天早晨测量它的水位。"
    ),
    *(EdgeCase(f"rotated-{angle}.pdf", drawn(rotated(angle)), TWO) for angle in (90, 180, 270)),
    EdgeCase("tiny.pdf", drawn(sized(1)), FERRY),
    EdgeCase("large.pdf", drawn(sized(40)), FERRY),
    EdgeCase("off-the-page.pdf", drawn(off_the_page), RIVER),
    EdgeCase("blank-between.pdf", drawn(blank_between), TWO),
    EdgeCase("blank.pdf", drawn(blank), error="blank.pdf has no text layer (0 characters on 3 pages, 0 images)"),
    EdgeCase("scanned.pdf", drawn(pictures), error="scanned.pdf has no text layer (0 characters on 4 pages, 4 images)"),
    EdgeCase("scan-with-text.pdf", drawn(scan_with_text), TWO),
    EdgeCase("hundred.pdf", drawn(long_book), "\n\n".join(map(entry, range(1, 101)))),
    EdgeCase(
        "outlined.pdf", drawn(outlined), f"On the origin of the river\n\n{RIVER}\n\nOn the old bridge\n\n{BRIDGE}"
    ),
    EdgeCase("form.pdf", drawn(form), FERRY),
    EdgeCase("spaced-out.pdf", drawn(spaced_out), FERRY),
    EdgeCase("indices.pdf", drawn(indices), "The H2O of the river takes up CO2 all year."),
    EdgeCase(
        "two-types.pdf",
        drawn(two_types),
        "Enhancing the Bridge and the Ferry Leads to Fewer Floods\n\n"
        f"Highlights of a report to the chairman of the board\n\n{FERRY}",
    ),
    EdgeCase("close-figures.pdf", drawn(close_figures), f"{FERRY}\n\n{CLOSE_ROWS}"),
    EdgeCase("single-digits.pdf", drawn(single_digits), dashed(DIGITS)),
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
    *(
        EdgeCase(f"late-mark-in-gap-{before}-{behind}.pdf", noted_in_gap(before, behind), NOTED_IN_GAP)
        for before, behind in ((0.5, 3), (4, 4))
    ),
    *(
        EdgeCase(
            f"right-to-left-{name}{'-reversed' * reverse}.pdf",
            right_to_left(glyphs, reverse=reverse),
            "".join(glyphs),
        )
        for name, glyphs in (("peace", PEACE), ("god", GOD), ("vowels", VOWELS), ("hebrew", HEBREW))
        for reverse in (False, True)
    ),
    EdgeCase(
        "unnamed.pdf",
        unnamed,
        "The e\ufffdort of xyli\ufffdorm.\n\n"
        "The river rises in the hills above the old mill and reaches the sea after forty",
        warning="2 characters of unnamed.pdf could not be read",
    ),
)
