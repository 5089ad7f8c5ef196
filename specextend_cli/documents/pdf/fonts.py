"""Maps to Unicode for fonts whose dictionaries say more about their characters than PDFium reads.

These are ligatures of which the map gives one letter and the name of the glyph all ("T_h"), Type 3 fonts whose glyphs
have the names of letters, and symbolic TrueType fonts without an encoding, whose codes are Windows'.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

_MOST_IN_VAIN = 3  # pages in a row without such a font
_MOST_NAMES = 1_000  # of the glyphs of a font
_SYMBOLIC = 4  # a flag of a font
_UNREADABLE = 0.05  # of the characters of a page

# What words become that lose a letter of their ligatures, and letters of Windows read as those of a Mac.
_DAMAGED = re.compile(
    r"\b(?:irst|inal(?:ly)?|inan\w+|ive|ields?|igures?|looded|loods?|lour|loors?|frst|fnal(?:ly)?|fnan\w+|fve|felds?|fgures?"
    r"|fnd)\b|iican|ifcan|eciic|ecifc|\bproits?\b|eneits?\b|enefts?\b|deini|defni|entii|entif[ce]|oicia|ofci?[ae]|eicien|uicien"
    r"|iicul|\bofer|difer|efect|efort|sufer|\bafect|relect|onlict|inluen|\. h(?:e|is|ese|ere|ey)\b"
    r"|[a-z][ÈËÁÒÌÛÙ](?![A-Z])|[a-km-z][·˙ˆ¸‰‡][a-z]|nít\b|[b-df-hjkmpqstv-xz]ís\b|ì[a-z]+î"
)
_ENOUGH = 2  # of them on a page
_BITMAP = re.compile(r"[a-zA-Z]{0,2}\d+")  # the number of a glyph is no name
_UNICODE = re.compile(r"(?:uni|u)((?:[0-9A-F]{4}){1,4}|[0-9A-F]{5,6})")
_SINGLE = re.compile(rb"<([0-9A-Fa-f]{2})>(\s*(?:<\1>)?\s*)<([0-9A-Fa-f]{4})>")


def is_doubtful(text: str, unmapped: float) -> bool:
    """True if a page may have such fonts; `unmapped`: the share of its characters that have no map."""
    return unmapped > _UNREADABLE or len(list(islice(_DAMAGED.finditer(text), _ENOUGH))) == _ENOUGH


class MappedPages:
    """Pages of a PDF file whose fonts have been given maps, by pypdf."""

    def __init__(self, path: Path, password: str | None) -> None:
        self._path, self._password = path, password
        self._reader: Any = None
        self._in_vain = 0

    def page(self, number: int) -> Any:
        """Page `number` (1-based) as a page of PDFium, without its annotations; None where no font gets a map."""
        if self._in_vain >= _MOST_IN_VAIN:
            return None
        import pypdfium2

        self._in_vain += 1
        try:
            data = self._mended(number - 1)
            page = None if data is None else pypdfium2.PdfDocument(data)[0]
        except Exception:  # whatever fails in a broken file, the page is then read with the maps that it has
            return None
        self._in_vain = self._in_vain if page is None else 0
        return page

    def _mended(self, index: int) -> bytes | None:
        from pypdf import PdfReader, PdfWriter
        from pypdf.generic import DecodedStreamObject, NameObject

        if self._reader is None:
            self._reader = PdfReader(self._path, password=self._password)
        page = self._reader.pages[index]
        for entry in ("/Annots", "/B", "/StructParents", "/Metadata", "/PieceInfo"):  # they lead to other pages
            page.pop(entry, None)
        writer = PdfWriter()
        maps = [(font, _map(font)) for font in _fonts(writer.add_page(page)["/Resources"], set())]
        for font, data in maps:
            if data:
                stream = DecodedStreamObject()
                stream.set_data(data)
                font[NameObject("/ToUnicode")] = writer._add_object(stream)
        if not any(data for _, data in maps):
            return None
        written = BytesIO()
        writer.write(written)
        return written.getvalue()


def _fonts(resources: Any, seen: set[int]) -> Iterator[Any]:
    """The font dictionaries of resources, and of the forms in them that are not `seen`."""
    seen.add(id(resources))
    for font in (_entry(resources, "/Font") or {}).values():
        yield font.get_object()
    for form in (_entry(resources, "/XObject") or {}).values():
        inner = _entry(form.get_object(), "/Resources")
        if inner is not None and id(inner) not in seen:
            yield from _fonts(inner, seen)


def _entry(dictionary: Any, key: str) -> Any:
    """What an entry refers to; None without it."""
    value = dictionary.get(key)
    return None if value is None else value.get_object()


def _map(font: Any) -> bytes | None:
    """A better map to Unicode for a font; None where it needs none."""
    kind, names = _entry(font, "/Subtype"), _glyph_names(font)
    letters = {code: found for code, name in names.items() if (found := meaning(name))}
    if "/ToUnicode" in font:
        data: bytes = font["/ToUnicode"].get_data()
        better = _SINGLE.sub(lambda match: _whole_ligature(match, letters), data)
        return better if better != data else None
    if kind == "/Type3":
        return _written(letters) if 2 * len(letters) > len(names) else None
    symbolic = int(_entry(_entry(font, "/FontDescriptor") or {}, "/Flags") or 0) & _SYMBOLIC
    if kind == "/TrueType" and symbolic and "/Encoding" not in font:
        codes = range(32, 256)
        return _written({code: bytes([code]).decode("cp1252", "ignore") or "\ufffd" for code in codes})
    return None


def _glyph_names(font: Any) -> dict[int, str]:
    """The names of glyphs that a font of one-byte codes gives itself, by code."""
    encoding, names, code = _entry(font, "/Encoding"), dict[int, str](), 0
    differences = _entry(encoding, "/Differences") if isinstance(encoding, dict) else None
    for entry in islice(differences or (), _MOST_NAMES):
        if isinstance(entry, str):
            names[code] = entry.removeprefix("/")
            code += 1
        else:
            code = int(entry)
    return names


def meaning(name: str) -> str:
    """The letters of a glyph by its name, as the Adobe Glyph List has them: "T_h" is "Th"; "" for other names."""
    from pypdf._codecs.adobe_glyphs import adobe_glyphs

    found = []
    for part in name.partition(".")[0].split("_"):
        if code := _UNICODE.fullmatch(part):
            size = 4 if len(code[1]) % 4 == 0 else len(code[1])
            points = (int(code[1][at : at + size], 16) for at in range(0, len(code[1]), size))
            found.append("".join(chr(point) for point in points if point < 0x110000))
        else:
            found.append("" if _BITMAP.fullmatch(part) else adobe_glyphs.get(f"/{part}", ""))
    return unicodedata.normalize("NFKC", "".join(found)) if all(found) else ""


def _whole_ligature(match: re.Match[bytes], letters: Mapping[int, str]) -> bytes:
    """An entry of a map, with all letters of a ligature of which it has one."""
    ligature = letters.get(int(match[1], 16), "")
    if len(ligature) > 1 and ligature.isalpha() and chr(int(match[3], 16)) in ligature:
        return b"<" + match[1] + b">" + match[2] + b"<" + ligature.encode("utf-16-be").hex().encode() + b">"
    return match[0]


def _written(letters: Mapping[int, str]) -> bytes:
    """A map for one-byte codes."""
    entries = "\n".join(
        f"<{code:02x}> <{text.encode('utf-16-be', 'surrogatepass').hex()}>"
        for code, text in letters.items()
        if 0 <= code < 256
    )
    return (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Named def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <ff> endcodespacerange\n{len(letters)} beginbfchar\n{entries}\nendbfchar\n"
        "endcmap end end"
    ).encode()
