"""PDFs written by hand: content streams and fonts of which every operator is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from reportlab.pdfbase.pdfmetrics import stringWidth

REGULAR, BOLD, FIXED = range(3)
_FONTS = ("Helvetica", "Helvetica-Bold", "Courier")


def raw_pdf(pages: Sequence[str], unicode: Mapping[str, str] | None = None) -> bytes:
    """Pages of Letter size from content streams; `unicode`: what the fonts say that their characters stand for."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    mapped = b""
    if unicode:
        objects.append(_stream(unicode_map(unicode)))
        mapped = b" /ToUnicode 3 0 R"
    fonts = b""
    for number, name in enumerate(_FONTS):
        font = f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding".encode() + mapped + b" >>"
        objects.append(font)
        fonts += f"/F{number} {len(objects)} 0 R ".encode()
    kids = b""
    for page in pages:
        objects.append(_stream(page))
        box = b"/MediaBox [0 0 612 792] /Resources << /Font << " + fonts + b">> >>"
        objects.append(b"<< /Type /Page /Parent 2 0 R " + box + f" /Contents {len(objects)} 0 R >>".encode())
        kids += f"{len(objects)} 0 R ".encode()
    objects[1] = f"<< /Type /Pages /Count {len(pages)} /Kids [".encode() + kids + b"] >>"
    return _file(objects)


def font_pdf(lines: Sequence[str], font: str, *objects: str) -> bytes:
    """A page of lines in a font with these entries; further objects, streams, are numbered from 6."""
    content = "".join(show(72, 700 - 14 * row, line) for row, line in enumerate(lines))
    page = "/MediaBox [0 0 612 792] /Resources << /Font << /F0 4 0 R >> >> /Contents 5 0 R"
    return _file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>",
            f"<< /Type /Page /Parent 2 0 R {page} >>".encode(),
            f"<< /Type /Font {font} >>".encode(),
            _stream(content),
            *map(_stream, objects),
        ]
    )


def bitmap_font_pdf(lines: Sequence[str], names: Mapping[int, str] | None = None) -> bytes:
    """Lines in a Type 3 font without a map to Unicode, as TeX writes them: the names of glyphs say nothing."""
    named = names or {ord(code): f"a{ord(code)}" for code in sorted(set("".join(lines)))}
    differences = " ".join(f"{code} /{name}" for code, name in named.items())
    glyphs = " ".join(f"/{name} 6 0 R" for name in set(named.values()))
    measures = f"/FontMatrix [.001 0 0 .001 0 0] /FontBBox [0 0 600 700] /Widths [{'600 ' * 256}]"
    encoding = f"/Encoding << /Differences [{differences}] >> /CharProcs << {glyphs} >>"
    font = f"/Subtype /Type3 {measures} /FirstChar 0 /LastChar 255 {encoding}"
    return font_pdf(lines, font, "600 0 0 0 600 700 d1 0 0 500 700 re f")


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


def _stream(content: str) -> bytes:
    data = content.encode("latin-1")
    return f"<< /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream"


def _file(objects: Sequence[bytes]) -> bytes:
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return data + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def show(x: float, y: float, text: str, size: float = 12, font: int = REGULAR) -> str:
    """The operators that draw a text at a position."""
    return f"BT /F{font} {size} Tf 1 0 0 1 {x:.3f} {y:.3f} Tm ({escaped(text)}) Tj ET\n"


def show_apart(glyphs: Sequence[tuple[float, str]], y: float, size: float) -> str:
    """The operators that draw characters at positions as one array."""
    shown, end = "", glyphs[0][0]
    for x, letter in glyphs:
        shown += f"{(end - x) / size * 1000:.1f} ({escaped(letter)}) "
        end = x + width(letter, size)
    return f"BT /F0 {size} Tf 1 0 0 1 {glyphs[0][0]:.3f} {y:.3f} Tm [{shown}] TJ ET\n"


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def width(text: str, size: float, font: int = REGULAR) -> float:
    return float(stringWidth(text, _FONTS[font], size))


def pieces(text: str, x: float, size: float = 12, *, letters: bool = False) -> Iterator[tuple[float, str]]:
    """The words (or letters) of a line, each with its left end."""
    for piece in text if letters else text.split(" "):
        yield x, piece
        x += width(piece if letters else f"{piece} ", size)
