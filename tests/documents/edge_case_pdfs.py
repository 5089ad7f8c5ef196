"""PDFs that make readers stumble over their layout, each with the text that a person would read in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont

from tests.documents.edge_cases import EdgeCase, flat
from tests.documents.made_pdfs import HEIGHT, WIDTH, Sheets, wrap

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


# ------------------------------------------------------------------------------------------------------- columns


def interleaved(sheets: Sheets, texts: Sequence[str], width: int, lefts: Sequence[float], top: float = 700) -> None:
    """Columns whose lines are drawn row by row, as some programs do."""
    sheets.canvas.setFont("Helvetica", 10)
    columns = [wrap(text, width) for text in texts]
    for row in range(max(map(len, columns))):
        for left, lines in zip(lefts, columns, strict=True):
            if row < len(lines):
                sheets.canvas.drawString(left, top - 12 * row, lines[row])


def three_columns_by_row(sheets: Sheets) -> None:
    interleaved(sheets, (RIVER, BRIDGE, FERRY), 26, (50, 220, 390))


def columns_under_a_title(sheets: Sheets) -> None:
    sheets._set("Waters and Ways of the Valley", 150, 760, 20)
    interleaved(sheets, (RIVER, BRIDGE), 44, (60, 320), 720)
    column(sheets, FERRY, 60, 500, width=96)


# -------------------------------------------------------------------------------------- heads, feet, page numbers


def numbered(style: Callable[[int], str], pages: int = 6) -> Callable[[Sheets], None]:
    """Pages of prose with a number of some style at the foot."""

    def draw(sheets: Sheets) -> None:
        for number in range(1, pages + 1):
            sheets._set(style(number), WIDTH / 2, 40, 9)
            column(sheets, f"{chr(64 + number) * 3} is the sign of this page. {RIVER}", 72, 700, width=84)
            sheets.canvas.showPage()

    return draw


def numbered_text(pages: int = 6) -> str:
    return "\n\n".join(f"{chr(65 + number) * 3} is the sign of this page. {RIVER}" for number in range(pages))


# ---------------------------------------------------------------------------------------------------- characters


def hyphenated(sheets: Sheets) -> None:
    lines = (
        "The commission found that well-known measures had been for-",
        "gotten in the years of plenty and of peace, and every well-",
        "known measure was taken up again; the long-term new agree-",
        "ment names a third-party auditor. It was again a long-",
        "term plan, set up in the fine and easy years of 1990-",
        "1995, with many small and some large and self-",
        "evident merits, and there was hardly any oppo-",
        "sition to it then or later.",
    )
    sheets.page(list(lines))


def chinese(sheets: Sheets) -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    sheets.canvas.setFont("STSong-Light", 12)
    sheets.canvas.drawString(72, 700, "这条河从山上流下来经过许多田地和村庄然后流入大海人们每天早晨")
    sheets.canvas.drawString(72, 684, "测量它的水位。")


def japanese(sheets: Sheets) -> None:
    pdfmetrics.registerFont(UnicodeCIDFont("HeiseiMin-W3"))
    sheets.canvas.setFont("HeiseiMin-W3", 12)
    sheets.canvas.drawString(72, 700, "この川は山から流れて海に入る。人々は毎朝その水位を測る。")


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


def huge_sheet(sheets: Sheets) -> None:
    sheets.canvas.setPageSize((5000, 14000))
    column(sheets, FERRY, 100, 13000, width=24, size=300)


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


def long_book(pages: int) -> Callable[[Sheets], None]:
    def draw(sheets: Sheets) -> None:
        for number in range(1, pages + 1):
            sheets._set(f"Page {number} of {pages}", 260, 30, 9)
            sheets._set(entry(number), 72, 700, 11)
            sheets.canvas.showPage()

    return draw


def long_book_text(pages: int) -> str:
    return "\n\n".join(map(entry, range(1, pages + 1)))


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


TWO = f"{RIVER}\n\n{BRIDGE}"
LAYOUT = (
    EdgeCase("three-columns-by-row.pdf", drawn(three_columns_by_row), f"{TWO}\n\n{FERRY}"),
    EdgeCase(
        "columns-under-a-title.pdf", drawn(columns_under_a_title), f"Waters and Ways of the Valley\n\n{TWO}\n\n{FERRY}"
    ),
    *(
        EdgeCase(f"number-{at}.pdf", drawn(numbered(style)), numbered_text())
        for at, style in enumerate(
            (
                lambda n: f"{n}/6",
                lambda n: f"[{n}]",
                lambda n: f"p. {n}",
                lambda n: f"A-{n}",
                lambda n: f"Page {n}  |  River Board  |  2026",
                lambda n: f"– {n + 100} –",
            )
        )
    ),
    EdgeCase(
        "hyphenated.pdf",
        drawn(hyphenated),
        flat(
            """The commission found that well-known measures had been forgotten in the years of plenty and of peace,
            and every well-known measure was taken up again; the long-term new agreement names a third-party auditor.
            It was again a long-term plan, set up in the fine and easy years of 1990-1995, with many small and some
            large and self-evident merits, and there was hardly any opposition to it then or later."""
        ),
    ),
    EdgeCase(
        "chinese.pdf", drawn(chinese), "这条河从山上流下来经过许多田地和村庄然后流入大海人们每天早晨测量它的水位。"
    ),
    EdgeCase("japanese.pdf", drawn(japanese), "この川は山から流れて海に入る。人々は毎朝その水位を測る。"),
    *(EdgeCase(f"rotated-{angle}.pdf", drawn(rotated(angle)), TWO) for angle in (90, 180, 270)),
    EdgeCase("tiny.pdf", drawn(sized(1)), FERRY),
    EdgeCase("large.pdf", drawn(sized(40)), FERRY),
    EdgeCase("huge-sheet.pdf", drawn(huge_sheet), FERRY),
    EdgeCase("off-the-page.pdf", drawn(off_the_page), RIVER),
    EdgeCase("blank-between.pdf", drawn(blank_between), TWO),
    EdgeCase("blank.pdf", drawn(blank), error="blank.pdf has no text layer (0 characters on 3 pages, 0 images)"),
    EdgeCase("scanned.pdf", drawn(pictures), error="scanned.pdf has no text layer (0 characters on 4 pages, 4 images)"),
    EdgeCase("scan-with-text.pdf", drawn(scan_with_text), TWO),
    EdgeCase("hundred.pdf", drawn(long_book(100)), long_book_text(100)),
    EdgeCase("thousand.pdf", drawn(long_book(1000)), long_book_text(1000), is_large=True),
    EdgeCase(
        "outlined.pdf", drawn(outlined), f"On the origin of the river\n\n{RIVER}\n\nOn the old bridge\n\n{BRIDGE}"
    ),
    EdgeCase("form.pdf", drawn(form), FERRY),
)
