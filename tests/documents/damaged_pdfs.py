"""PDFs that are locked, damaged or hostile, and what is right to say of each or to read in it."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping

from pypdf import PdfReader, PdfWriter

from tests.documents.edge_case_pdfs import BRIDGE, FERRY, RIVER, column, drawn
from tests.documents.edge_cases import EdgeCase
from tests.documents.made_pdfs import Sheets, wrap
from tests.documents.raw_pdf import raw_pdf, show


def two_pages(sheets: Sheets) -> None:
    for text in (RIVER, BRIDGE):
        column(sheets, text, 72, 700, width=84)
        sheets.canvas.showPage()


TWO = f"{RIVER}\n\n{BRIDGE}"
plain = drawn(two_pages)


def locked(algorithm: str = "AES-256", password: str = "sesame") -> bytes:
    """With a password for opening; with "" only changing it takes one."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(plain())))
    writer.encrypt(password, owner_password="owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def behind_a_letter() -> bytes:
    """What a web server or a mail program puts before and after a file."""
    return b"HTTP/1.1 200 OK\r\n\r\n" + plain() + b"\r\n--boundary--\r\n" * 20


def updated() -> bytes:
    """Saved twice: the later version of a page counts."""
    data = one_page()
    start = data.rindex(b"startxref\n") + 10
    first, place = data[start:].split(b"\n")[0], len(data)
    data += b"5 0 obj\n" + stream(shown(RIVER)) + b"\nendobj\n"
    table = len(data)
    data += b"xref\n5 1\n%010d 00000 n \ntrailer << /Size 6 /Root 1 0 R /Prev %s >>\n" % (place, first)
    return data + b"startxref\n%d\n%%%%EOF\n" % table


FONTS = b" /Resources << /Font << /F1 4 0 R >> >>"
HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def shown(text: str, width: int = 84) -> bytes:
    lines = (b"(%s) Tj T*" % line.encode("cp1252") for line in wrap(text, width))
    return b"BT /F1 10 Tf 12 TL 72 700 Td " + b" ".join(lines) + b" ET"


def written(objects: Mapping[int, bytes], root: int = 1) -> bytes:
    """A file of these objects, with a cross-reference table."""
    out = b"%PDF-1.4\n"
    places = {}
    for number, data in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, data)
    start, size = len(out), max(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size
    out += b"".join(b"%010d 00000 n \n" % places.get(number, 0) for number in range(1, size))
    return out + b"trailer << /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, root, start)


def stream(data: bytes, extra: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), extra, data)


def one_page(**changes: bytes) -> bytes:
    """One page; objects are changed by their numbers: catalog, pages, page, font, contents, and more."""
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R" + FONTS + b" >>",
        4: HELVETICA,
        5: stream(shown(FERRY)),
    }
    return written(objects | {int(number[1:]): data for number, data in changes.items()})


HEBREW = "הנהר עולה לאט"
PRIVATE = {chr(97 + at): chr(0xE000 + at) for at in range(26)}


def hebrew() -> bytes:
    """Set from left to right, as it stands on paper: the last letter first."""
    codes = {letter: chr(97 + at) for at, letter in enumerate(sorted(set(HEBREW)))}
    text = "".join(codes[letter] for letter in reversed(HEBREW))
    return raw_pdf([show(72, 700, text)], {code: letter for letter, code in codes.items()})


def bomb(size: int) -> bytes:
    """A page whose contents unpack to `size` bytes."""
    data = zlib.compress(zlib.compress(bytes(size), 1), 9)
    return one_page(_5=stream(data, b"/Filter [/FlateDecode /FlateDecode]"))


def recursive() -> bytes:
    """A form that draws itself."""
    content = shown(FERRY) + b" /X Do"
    resources = b"/Resources << /XObject << /X 6 0 R >> /Font << /F1 4 0 R >> >>"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R " + resources + b" >>"
    looped = stream(b"/X Do", b"/Type /XObject /Subtype /Form /BBox [0 0 595 842] " + resources)
    return one_page(_3=page, _5=stream(content), _6=looped)


def boxed(box: bytes) -> bytes:
    return one_page(_3=b"<< /Type /Page /Parent 2 0 R /MediaBox [" + box + b"] /Contents 5 0 R" + FONTS + b" >>")


def looped_outline() -> bytes:
    """Bookmarks that follow each other in a circle."""
    item = b"<< /Title (The ferry) /Parent 6 0 R /Next %d 0 R /First 7 0 R /Dest [3 0 R /Fit] >>"
    return one_page(
        _1=b"<< /Type /Catalog /Pages 2 0 R /Outlines 6 0 R >>",
        _6=b"<< /Type /Outlines /First 7 0 R /Last 8 0 R /Count 2 >>",
        _7=item % 8,
        _8=item % 7,
    )


def bad_stream() -> bytes:
    """Of two streams that make up a page, one is damaged."""
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents [5 0 R 6 0 R]" + FONTS + b" >>"
    return one_page(_3=page, _6=stream(b"not deflated at all", b"/Filter /FlateDecode"))


def many_characters() -> bytes:
    """A page with more text than any page has."""
    text = b"(" + b"words " * 500 + b") Tj "
    return one_page(_5=stream(b"BT /F1 1 Tf 72 700 Td " + text * 800 + b"ET"))


CONTROLS = {"a": "\x1b", "b": "[", "c": "2", "d": "J", "e": "A", "g": "B", "h": "\u202e"}
DAMAGED = (
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
    EdgeCase("behind-a-letter.pdf", behind_a_letter, TWO),
    EdgeCase("updated.pdf", updated, RIVER),
    EdgeCase("hebrew.pdf", hebrew, HEBREW),
    EdgeCase("controls.pdf", lambda: raw_pdf([show(72, 700, "ebegabcdhe")], CONTROLS), "A[ABA"),
    EdgeCase("private.pdf", lambda: raw_pdf([show(72, 700, "ab")], PRIVATE), "\ue000\ue001", warning="have no meaning"),
    EdgeCase("bomb.pdf", lambda: bomb(1 << 25), error="bomb.pdf"),
    EdgeCase("large-bomb.pdf", lambda: bomb(1 << 28), error="large-bomb.pdf", is_large=True),
    EdgeCase("recursive.pdf", recursive, FERRY),
    EdgeCase(
        "looped-pages.pdf",
        lambda: one_page(_2=b"<< /Type /Pages /Kids [3 0 R 2 0 R] /Count 2 >>"),
        FERRY,
        warning="Page 2 of looped-pages.pdf could not be read.",
    ),
    EdgeCase("claimed-pages.pdf", lambda: one_page(_2=b"<< /Type /Pages /Kids [3 0 R] /Count 2000000000 >>"), FERRY),
    EdgeCase("looped-outline.pdf", looped_outline, FERRY),
    EdgeCase("bad-stream.pdf", bad_stream, FERRY),
    EdgeCase(
        "many-characters.pdf",
        many_characters,
        error="many-characters.pdf: none of 1 page could be read",
        is_large=True,
    ),
    EdgeCase("no-box.pdf", lambda: boxed(b"0 0 0 0"), FERRY),
    EdgeCase("flipped-box.pdf", lambda: boxed(b"595 842 0 0"), FERRY),
    EdgeCase(
        "infinite.pdf",
        lambda: one_page(_5=stream(b"1e38 0 0 1e38 0 0 cm " + shown(FERRY))),
        error="infinite.pdf has no text layer",
    ),
    EdgeCase("no-pages.pdf", lambda: one_page(_2=b"<< /Type /Pages /Kids [] /Count 0 >>"), error="no-pages.pdf"),
    EdgeCase("no-root.pdf", lambda: one_page(_1=b"null"), error="no-root.pdf is a damaged PDF"),
    EdgeCase("named.docx", plain, TWO, warning="named.docx is a PDF, not a Word document (DOCX)."),
    EdgeCase("only-a-head.pdf", lambda: b"%PDF-1.7\n%%EOF\n", error="only-a-head.pdf is a damaged PDF"),
)
