"""PDFs written by hand: content streams, fonts and objects of which every byte is known. A character is a byte."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence

from pypdf import PdfWriter
from reportlab.pdfbase.pdfmetrics import stringWidth

LETTER = "/MediaBox [0 0 612 792]"
ASCII = {chr(code): chr(code) for code in range(32, 127)}


def raw_pdf(pages: Sequence[str], unicode: Mapping[str, str] | None = None, page: str = LETTER) -> bytes:
    """Pages from content streams; `unicode`: what the fonts say that their characters stand for."""
    mapped = "/ToUnicode 3 0 R" if unicode else ""
    font = f"/Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding {mapped}"
    return font_pdf(pages, font, unicode_map(unicode or {}), page=page)


def font_pdf(pages: Sequence[str], font: str, *streams: str, page: str = LETTER) -> bytes:
    """Pages with a font F0 of these entries; `streams` are the objects from 3 on, `page` entries of pages."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", *map(stream, streams)]
    objects.append(f"<< /Type /Font {font} >>")
    kids, resources = [], f"/Resources << /Font << /F0 {len(objects)} 0 R >> >>"
    for content in pages:
        entries = f"/Contents {len(objects) + 1} 0 R {resources} {page}"
        objects += [stream(content), f"<< /Type /Page /Parent 2 0 R {entries} >>"]
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(kids)}] >>"
    return pdf_file(objects)


def bitmap_font_pdf(lines: Sequence[str], names: Mapping[int, str] | None = None) -> bytes:
    """Lines in a Type 3 font without a map to Unicode, as TeX writes them: the names of glyphs say nothing."""
    named = names or {ord(code): f"a{ord(code)}" for code in sorted(set("".join(lines)))}
    differences = " ".join(f"{code} /{name}" for code, name in named.items())
    glyphs = " ".join(f"/{name} 3 0 R" for name in set(named.values()))
    measures = f"/FontMatrix [.001 0 0 .001 0 0] /FontBBox [0 0 600 700] /Widths [{'600 ' * 256}]"
    encoding = f"/Encoding << /Differences [{differences}] >> /CharProcs << {glyphs} >>"
    font = f"/Subtype /Type3 {measures} /FirstChar 0 /LastChar 255 {encoding}"
    return font_pdf([show_lines(lines)], font, "600 0 0 0 600 700 d1 0 0 500 700 re f")


def unicode_map(unicode: Mapping[str, str]) -> str:
    codes = "\n".join(
        f"<{ord(code):02X}> <{''.join(f'{ord(letter):04X}' for letter in letters)}>"
        for code, letters in unicode.items()
    )
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <FF> endcodespacerange\n{len(unicode)} beginbfchar\n{codes}\nendbfchar\n"
        "endcmap end end"
    )


def stream(content: str, entries: str = "") -> str:
    return f"<< /Length {len(content)} {entries} >>\nstream\n{content}\nendstream"


def pdf_file(objects: Sequence[str]) -> bytes:
    """A file of these objects, numbered from 1, with a cross-reference table."""
    data, table = "%PDF-1.4\n", ""
    for number, body in enumerate(objects, 1):
        table += f"{len(data):010} 00000 n \n"
        data += f"{number} 0 obj\n{body}\nendobj\n"
    size = len(objects) + 1
    end = f"trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return f"{data}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode("latin-1")


def changed_pdf(data: bytes, change: Callable[[PdfWriter], object]) -> bytes:
    """A PDF with a change by pypdf."""
    writer, made = PdfWriter(clone_from=io.BytesIO(data)), io.BytesIO()
    change(writer)
    writer.write(made)
    return made.getvalue()


def show(x: float, y: float, text: str, size: float = 12) -> str:
    """The operators that draw a text at a position."""
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /F0 {size} Tf 1 0 0 1 {x:.3f} {y:.3f} Tm ({escaped}) Tj ET\n"


def show_lines(lines: Sequence[str], size: float = 12, *, step: float = 14) -> str:
    """The operators that draw lines below each other."""
    return "".join(show(72, 700 - step * row, line, size) for row, line in enumerate(lines))


def width(text: str, size: float) -> float:
    return float(stringWidth(text, "Helvetica", size))
