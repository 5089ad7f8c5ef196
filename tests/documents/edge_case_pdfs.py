"""PDFs that make readers stumble: over their layout, their fonts, or because they are locked, damaged or hostile.

Each with the text that a person would read in it, or with what is right to say of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import partial

from pypdf import PdfWriter
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont

from tests.documents.edge_cases import EdgeCase
from tests.documents.made_pdfs import Sheets, wrap
from tests.documents.raw_pdf import ASCII, changed_pdf, pdf_file, raw_pdf, show, show_lines, stream, width

RIVER = (
    "The river rises in the hills above the old mill and reaches the sea after forty miles of fields, woods and towns. "
    "People have measured its level every morning since the great flood, and they have written it down in a book."
)
BRIDGE = (
    "A bridge of stone crosses the water below the market, and carts still use it when the ford is too deep. "
    "It was paid for by a tax on salt, which the merchants hated and the farmers never noticed at all."
)
FERRY = (
    "Further down a ferry takes those who have time, and its bell is heard on both banks when the wind is low. "
    "The ferryman lives alone with a dog and many clocks, of which no two agree about the hour of the day."
)
TITLES = ("On the origin of the river", "On the old bridge")
TWO = f"{RIVER}\n\n{BRIDGE}"


def prose(text: str, size: float = 10, columns: int = 84) -> str:
    return show_lines(wrap(text, columns), size, step=1.2 * size)


def plain() -> bytes:
    return raw_pdf([prose(RIVER), prose(BRIDGE)])


# --------------------------------------------------------------------------------------------- pages and what is there


def rotated(angle: int, turn: str) -> bytes:
    """A page that is shown turned, with text that is upright then."""
    upright = f"1 0 0 1 0 -200 cm {prose(RIVER)} 1 0 0 1 0 -100 cm {prose(BRIDGE)}"
    return raw_pdf([f"{turn} cm {upright}"], page=f"/MediaBox [0 0 612 792] /Rotate {angle}")


def off_the_page() -> bytes:
    """The page begins left of and below zero, and some text lies outside of it."""
    content = f"1 0 0 1 -1000 -1000 cm {prose(RIVER)} {show(5000, 5000, 'never to be seen')}"
    return raw_pdf([content], page="/MediaBox [-1000 -1000 -388 -208]")


def outlined() -> bytes:
    """Headings set like the text: only the bookmarks say what they are."""
    pages = [show(72, 712, title, 10) + prose(text) for title, text in zip(TITLES, (RIVER, BRIDGE), strict=True)]

    def mark(writer: PdfWriter) -> None:
        for number, title in enumerate(TITLES):
            writer.add_outline_item(title=title, page_number=number)

    return changed_pdf(raw_pdf(pages), mark)


def chinese() -> bytes:
    sheets = Sheets()
    pdfmetrics.registerFont(UnicodeCIDFont("STSong-Light"))
    sheets.canvas.setFont("STSong-Light", 12)
    for row, line in enumerate((CHINESE[:30], CHINESE[30:])):
        sheets.canvas.drawString(72, 700 - 16 * row, line)
    return sheets.data()


CHINESE = "这条河从山上流下来经过许多田地和村庄然后流入大海人们每天早晨测量它的水位。"


# ------------------------------------------------------------------------------------------------- words and figures

CLOSE = (("Old mill", "20.33", "311"), ("Ferry", "18.25", "450"), ("Bridge", "9.40", "117"), ("Market", "7.02", "298"))
DIGITS = (("Old mill", "3", "0"), ("Ferry", "1", "2"), ("Bridge", "4", "7"), ("Market", "5", "5"))


def table(rows: Sequence[Sequence[str]], *rights: float) -> bytes:
    """A table with its labels at the left, and the other cells set to the right edges of their columns."""
    drawn = ""
    for row, (label, *cells) in enumerate(rows):
        drawn += show(72, 600 - 14 * row, label, 10)
        for right, cell in zip(rights, cells, strict=True):
            drawn += show(right - width(cell, 10), 600 - 14 * row, cell, 10)
    return raw_pdf([drawn])


def joined(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(map("  ".join, rows))


def no_size() -> bytes:
    """Beside the text, figures in type of no size."""
    return raw_pdf([prose(FERRY) + "".join(show(72, 600 - 12 * row, "12 34 5a6B", 0) for row in range(4))])


def two_types() -> bytes:
    """A title and small print beside it, so near to one height that they are taken for one line."""
    drawn = show(240, 694, "Enhancing the Ferry", 18) + show(60, 675.4, "Told to", 8)
    drawn += show(240, 676, "Leads to Fewer Floods", 18) + show(60, 665, "the chairman", 8)
    return raw_pdf([f"{drawn} 1 0 0 1 168 -100 cm {prose(FERRY, 10, 60)}"])


PEACE = ("ا", "ل", "س", "لا", "م", " ", "ع", "ل", "ي", "ك", "م")
GOD = ("ا", "لله", " ", "ا", "ك", "ب", "ر")
VOWELS = ("م", "حّ", "م", "د", " ", "لإ", "س", "لا", "م")
HEBREW = ("שׁ", "ל", "ו", "ם", " ", "ע", "ו", "ל", "ם")


def right_to_left(glyphs: Sequence[str], step: int = 1) -> bytes:
    """A line of glyphs in the order of reading, set from left to right; the map has the letters of each in steps."""
    codes = {letters: chr(65 + at) for at, letters in enumerate(dict.fromkeys(glyphs)) if letters != " "}
    unicode = {code: letters[::step] for letters, code in codes.items()} | {" ": " "}
    return raw_pdf([show(72, 700, "".join(codes.get(letters, " ") for letters in reversed(glyphs)))], unicode)


def ligatures() -> bytes:
    """What maps of some producers have for ligatures, and characters that none of them names."""
    line = "The e\xa1ort, the ac\xa2on, the le\xa3er and the li\xa4 of xyli\xa5orm, \xa5nd zu\xa5ib."
    unicode = ASCII | dict(zip("\xa1\xa2\xa3\xa4\xa5", "↵ƟƩŌ\x01", strict=True))
    return raw_pdf([show(72, 700, line) + show(72, 660, RIVER[:79])], unicode)


LIGATURES = f"The effort, the action, the letter and the lift of xyli\ufffdorm, \ufffdnd zu\ufffdib.\n\n{RIVER[:79]}"


# ------------------------------------------------------------------------------------------ locked, damaged or hostile


def locked(algorithm: str = "AES-256", password: str = "sesame") -> bytes:
    """With a password for opening; with "" only changing it takes one."""
    return changed_pdf(
        plain(), partial(PdfWriter.encrypt, user_password=password, owner_password="owner", algorithm=algorithm)
    )


def updated() -> bytes:
    """Saved twice: the later version of a page counts."""
    data = one_page()
    first, place = data.split()[-2], len(data)
    data += f"5 0 obj\n{stream(prose(RIVER))}\nendobj\n".encode()
    table = len(data)
    data += b"xref\n5 1\n%010d 00000 n \ntrailer << /Size 6 /Root 1 0 R /Prev %s >>\n" % (place, first)
    return data + b"startxref\n%d\n%%%%EOF\n" % table


def page(box: str = "0 0 595 842", contents: str = "5 0 R", forms: str = "") -> str:
    resources = f"<< /Font << /F0 4 0 R >> /XObject << {forms} >> >>"
    return f"<< /Type /Page /Parent 2 0 R /MediaBox [{box}] /Contents {contents} /Resources {resources} >>"


CATALOG, PAGES, PAGE, FONT, CONTENTS = range(1, 6)


def one_page(changes: Mapping[int, str] | None = None) -> bytes:
    """One page; its objects are changed by their numbers, and there may be more."""
    objects = {
        CATALOG: "<< /Type /Catalog /Pages 2 0 R >>",
        PAGES: "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        PAGE: page(),
        FONT: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        CONTENTS: stream(prose(FERRY)),
    }
    return pdf_file(list((objects | dict(changes or {})).values()))


def bomb(size: int) -> bytes:
    """A page whose contents unpack to `size` bytes."""
    data = zlib.compress(zlib.compress(bytes(size), 1), 9).decode("latin-1")
    return one_page({CONTENTS: stream(data, "/Filter [/FlateDecode /FlateDecode]")})


def form(content: str, drawn: str) -> bytes:
    """A page that draws a form object, which may draw itself."""
    resources = "/Resources << /XObject << /X 6 0 R >> /Font << /F0 4 0 R >> >>"
    made = stream(drawn, f"/Type /XObject /Subtype /Form /BBox [0 0 595 842] {resources}")
    return one_page({PAGE: page(forms="/X 6 0 R"), CONTENTS: stream(f"{content} /X Do"), 6: made})


def looped_outline() -> bytes:
    """Bookmarks that follow each other in a circle."""
    item = "<< /Title (The ferry) /Parent 6 0 R /Next {} 0 R /First 7 0 R /Dest [3 0 R /Fit] >>"
    outlines = "<< /Type /Outlines /First 7 0 R /Last 8 0 R /Count 2 >>"
    catalog = "<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>"
    return one_page({CATALOG: catalog, 6: outlines, 7: item.format(8), 8: item.format(7)})


def bad_stream() -> bytes:
    """Of two streams that make up a page, one is damaged."""
    return one_page({PAGE: page(contents="[5 0 R 6 0 R]"), 6: stream("not deflated at all", "/Filter /FlateDecode")})


def many_characters() -> bytes:
    """A page with more text than any page has."""
    text = f"({'words ' * 500}) Tj "
    return one_page({CONTENTS: stream(f"BT /F0 1 Tf 72 700 Td {text * 800}ET")})


def of_pages(kids: str, count: int) -> bytes:
    return one_page({PAGES: f"<< /Type /Pages /Kids [{kids}] /Count {count} >>"})


CONTROLS = {"a": "\x1b", "b": "[", "c": "2", "d": "J", "e": "A", "g": "B", "h": "\u202e"}
PRIVATE = {chr(97 + at): chr(0xE000 + at) for at in range(26)}
TURNS = {90: "0 1 -1 0 612 0", 180: "-1 0 0 -1 612 792", 270: "0 -1 1 0 0 792"}
PDFS = (
    EdgeCase("chinese.pdf", chinese, CHINESE),
    *(EdgeCase(f"rotated-{angle}.pdf", partial(rotated, angle, turn), TWO) for angle, turn in TURNS.items()),
    EdgeCase("tiny.pdf", lambda: raw_pdf([prose(FERRY, 1, 1000)]), FERRY),
    EdgeCase("large.pdf", lambda: raw_pdf([prose(FERRY, 40, 25)]), FERRY),
    EdgeCase("off-the-page.pdf", off_the_page, RIVER),
    EdgeCase("blank-between.pdf", lambda: raw_pdf([prose(RIVER), "", prose(BRIDGE), "", ""]), TWO),
    EdgeCase("blank.pdf", lambda: raw_pdf([""] * 3), error="blank.pdf has no text layer (0 characters on 3 pages, 0"),
    EdgeCase("outlined.pdf", outlined, f"{TITLES[0]}\n\n{RIVER}\n\n{TITLES[1]}\n\n{BRIDGE}"),
    EdgeCase("form.pdf", lambda: form("", prose(FERRY)), FERRY),
    EdgeCase("spaced-out.pdf", lambda: raw_pdf([f"1.5 Tc {prose(FERRY, 10, 70)}"]), FERRY),
    EdgeCase(
        "two-types.pdf", two_types, f"Enhancing the Ferry Leads to Fewer Floods\n\nTold to the chairman\n\n{FERRY}"
    ),
    EdgeCase(
        "close-figures.pdf", partial(table, CLOSE, 200, 217.88), "\n".join("{}  {} {}".format(*row) for row in CLOSE)
    ),
    EdgeCase("single-digits.pdf", partial(table, DIGITS, 160, 172), joined(DIGITS)),
    EdgeCase("no-size.pdf", no_size, FERRY),
    *(
        EdgeCase(f"right-to-left-{name}{step}.pdf", partial(right_to_left, glyphs, step), "".join(glyphs))
        for name, glyphs in (("peace", PEACE), ("god", GOD), ("vowels", VOWELS), ("hebrew", HEBREW))
        for step in (1, -1)
    ),
    EdgeCase("ligatures.pdf", ligatures, LIGATURES, warning="3 characters of ligatures.pdf could not be read"),
    EdgeCase("locked.pdf", locked, error="locked.pdf is encrypted"),
    EdgeCase("wrong.pdf", locked, error="wrong.pdf is encrypted and the password does not open it", password="guess"),
    EdgeCase("opened.pdf", locked, TWO, password="sesame"),
    EdgeCase("opened-by-owner.pdf", locked, TWO, password="owner"),
    EdgeCase("opened-long-ago.pdf", lambda: locked("RC4-40"), TWO, password="sesame"),
    EdgeCase("only-owned.pdf", lambda: locked("AES-128", ""), TWO),
    EdgeCase("needless-password.pdf", plain, TWO, password="sesame"),
    EdgeCase("broken-xref.pdf", lambda: plain().replace(b"startxref\n", b"startxref\n7"), TWO),
    EdgeCase("scrambled-xref.pdf", lambda: plain().replace(b"xref\n0 ", b"xref\n0 " + b"9" * 40), TWO),
    EdgeCase("no-trailer.pdf", lambda: plain().split(b"xref\n0")[0], error="no-trailer.pdf is a damaged PDF"),
    EdgeCase("half.pdf", lambda: plain()[: len(plain()) // 2], error="half.pdf is a damaged PDF"),
    EdgeCase("behind-a-letter.pdf", lambda: b"HTTP/1.1 200 OK\r\n\r\n" + plain() + b"\r\n--boundary--\r\n" * 20, TWO),
    EdgeCase("updated.pdf", updated, RIVER),
    EdgeCase("controls.pdf", lambda: raw_pdf([show(72, 700, "ebegabcdhe")], CONTROLS), "A[ABA"),
    EdgeCase("private.pdf", lambda: raw_pdf([show(72, 700, "ab")], PRIVATE), "\ue000\ue001", warning="have no meaning"),
    EdgeCase("bomb.pdf", lambda: bomb(1 << 25), error="bomb.pdf"),
    EdgeCase("large-bomb.pdf", lambda: bomb(1 << 28), error="large-bomb.pdf", is_large=True),
    EdgeCase("recursive.pdf", lambda: form(prose(FERRY), "/X Do"), FERRY),
    EdgeCase(
        "looped-pages.pdf", partial(of_pages, "3 0 R 2 0 R", 2), FERRY, warning="Page 2 of looped-pages.pdf could"
    ),
    EdgeCase("claimed-pages.pdf", partial(of_pages, "3 0 R", 2_000_000_000), FERRY),
    EdgeCase("looped-outline.pdf", looped_outline, FERRY),
    EdgeCase("bad-stream.pdf", bad_stream, FERRY),
    EdgeCase("crowded.pdf", many_characters, error="crowded.pdf: none of 1 page could be read", is_large=True),
    EdgeCase("no-box.pdf", lambda: one_page({PAGE: page("0 0 0 0")}), FERRY),
    EdgeCase("flipped-box.pdf", lambda: one_page({PAGE: page("595 842 0 0")}), FERRY),
    EdgeCase(
        "infinite.pdf",
        lambda: raw_pdf([f"1e38 0 0 1e38 0 0 cm {prose(FERRY)}"]),
        error="infinite.pdf has no text layer",
    ),
    EdgeCase("no-pages.pdf", partial(of_pages, "", 0), error="no-pages.pdf"),
    EdgeCase("no-root.pdf", lambda: one_page({CATALOG: "null"}), error="no-root.pdf is a damaged PDF"),
    EdgeCase("only-a-head.pdf", lambda: b"%PDF-1.7\n%%EOF\n", error="only-a-head.pdf is a damaged PDF"),
)
