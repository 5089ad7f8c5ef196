"""A PDFium text page to lines: with their positions, superscripts, and tabs in the gaps between cells and columns."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from struct import unpack
from typing import Any, NamedTuple

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN, Line
from specextend_cli.documents.pdf.fonts import MappedPages, is_doubtful
from specextend_cli.documents.pdf.gaps import find_cells, parts, put_spaces
from specextend_cli.documents.pdf.glyphs import Glyph, GlyphLine, Glyphs, Repair
from specextend_cli.documents.pdf.invisible import Box, without_invisible
from specextend_cli.documents.pdf.legibility import UNREAD, read_ligatures
from specextend_cli.documents.pdf.letters import (
    RIGHT_TO_LEFT,
    is_superscript,
    mark_superscripts,
    order_letters,
    place_late_marks,
    put_together,
)

_WIDE = re.compile("[\U00010000-\U0010ffff]")
_SPACE = "\x03"  # its number in most fonts
_ALONE = re.compile(rf"(?<!\S){UNREAD}(?!\S)")  # a bullet, or a part of a formula
_BACK = 0.5  # sizes: what follows begins so far left of the end of what is before it
_LEVEL = 0.1  # sizes between the base lines of cells of one row
_JUMP = re.compile(r"(?<=\S) (?=\S)")
_DOUBLED = re.compile(r"(?:([^\W_])\1){3}")
_COPY = "\u200b"  # keeps the place of a letter that is left out
_LINE = re.compile(rf"[^\s{HYPHEN}](?:[^\n{HYPHEN}]*[^\s{HYPHEN}])?(?:[^\S\n]*{HYPHEN})?")


class PageLines(NamedTuple):
    """The lines in the order of the file, what was repaired and left out, and the share of characters without a map."""

    lines: list[Line]
    edits: list[Edit]
    unmapped: float


def page_lines(text: Any, number: int, maps: MappedPages) -> PageLines:
    """What the PDFium text page of page `number` holds; where it is doubtful, with maps for its fonts."""
    box = Box(*text.page.get_cropbox())
    found = _lines(text, box, number)
    if is_doubtful("\n".join(line.text for line in found.lines), found.unmapped) and (mapped := maps.page(number)):
        return _lines(mapped.get_textpage(), box, number)
    return found


def _lines(page: Any, box: Box, number: int) -> PageLines:
    glyphs = Glyphs(page)
    repairs: list[Repair] = []
    text, replaced = mark_superscripts(glyphs, _text_of(page, repairs))
    replaced |= put_together(glyphs, text)
    lines_of_text = [(match[0], match.start()) for match in _LINE.finditer(text)]
    found = [_glyph_line(glyphs, part, first) for part, first in split_at_jumps(glyphs, lines_of_text)]
    repairs += _without_copies(found)
    find_cells(found)
    found = _split_by_size(found)
    for line in found if replaced else ():
        for place in replaced.keys() & range(line.first, line.first + len(line.body)):
            at = place - line.first
            line.changed[at] = line.changed.get(at, text[place]).replace(text[place], replaced[place], 1)
    repairs += put_spaces(found) + order_letters(found)
    found = place_late_marks(found)
    found, invisible = without_invisible(found, page)
    # Where no line is inside, the box of the page is wrong.
    inside = [line for line in found if not (_outside(line.head, box) and _outside(line.tail, box))] or found
    kept = set(map(id, inside))
    lines = [_line(line, number, repairs) for line in inside]
    once: dict[object, Line] = {}
    for one in lines:
        if once.setdefault((one.text, round(one.left), round(one.base)), one) is not one:
            repairs.append(("double strike", one.text, ""))
    invisible += [line.text for line in found if id(line) not in kept]
    repairs += [("hidden text", text, "") for text in invisible]
    edits = [Edit(kind, number, _from_units(before), _from_units(after)) for kind, before, after in repairs]
    return PageLines(list(once.values()), edits, glyphs.unmapped())


def _text_of(page: Any, repairs: list[Repair]) -> str:
    """The text of a page by PDFium's characters, each at its own position; what ends a divided word is `HYPHEN`.

    PDFium's text lacks characters of fonts that map them to controls: then each is asked for.
    """
    from pypdfium2 import raw

    text = _to_units(page.get_text_range()).replace("\ufffe", HYPHEN)
    if len(text) < (total := page.count_chars()):
        letters = [chr(raw.FPDFText_GetUnicode(page.raw, at)) for at in range(total)]
        for at, letter in enumerate(letters):
            if letter < " " and raw.FPDFText_GetTextIndexFromCharIndex(page.raw, at) < 0:
                letters[at] = " " if letter == _SPACE else UNREAD
        text, lone = _ALONE.subn(" ", "".join(letters))
        repairs += [("unreadable character", UNREAD, "")] * lone
    return text.replace("\r\n", " \n")  # of the same length


def _glyph_line(glyphs: Glyphs, body: str, first: int) -> GlyphLine:
    """The line of this text; a superscript at an end says nothing about its type."""
    last = len(body.rstrip(HYPHEN)) - 1
    head, tail = ends = glyphs.at(first), glyphs.at(first + last)
    if is_superscript(body[0]) or is_superscript(body[last]):
        level = [at for at, letter in enumerate(body[: last + 1]) if not (letter.isspace() or is_superscript(letter))]
        head, tail = (glyphs.at(first + level[0]), glyphs.at(first + level[-1])) if level else ends
    left, right = ends[0].left, ends[1].right
    if left > right and RIGHT_TO_LEFT.search(body):
        left, right = ends[1].left, ends[0].right
    return GlyphLine(glyphs, body, first, left, right, head, tail)


def _without_copies(lines: Iterable[GlyphLine]) -> Iterator[Repair]:
    """Leave out what is drawn again a little apart, to be bold: words on words, letters on the one before."""
    for line in lines:
        body, first, glyphs, near = line.body, line.first, line.glyphs, 0.15 * line.size
        if _DOUBLED.search(body) or not glyphs.returns.isdisjoint(range(first, first + len(body))):
            places = pairwise(sorted((letter, glyphs.box(first + at)[:2], at) for at, letter in enumerate(body)))
            below = {max(i, j): min(i, j) for (a, p, i), (b, q, j) in places if a == b and math.dist(p, q) < near}
            copies = {
                at for at in below if below[at] == at - 1 and glyphs.box(first + at) != glyphs.box(first + at - 1)
            }
            for start, end in (match.span() for match in re.finditer(r"\S+", body)):
                if all(below.get(at, start) < start for at in range(start, end)):
                    copies.update(range(start - 1, end))  # with the space, at which the text goes back
            if copies:
                line.body = "".join(_COPY if at in copies else letter for at, letter in enumerate(body))
                yield "double strike", body, line.body.replace(_COPY, "")


def _split_by_size(lines: list[GlyphLine]) -> list[GlyphLine]:
    """Split lines of different sizes that PDFium joined; the part that continues the column above comes first."""
    found: list[GlyphLine] = []
    for line in lines:
        pieces = parts(line)
        if len(pieces) == 1:
            found.append(line)
            continue
        made = [_glyph_line(line.glyphs, line.body[start:end], line.first + start) for start, end in pieces]
        for piece in made:
            piece.gaps = [gap for gap in line.gaps if piece.left < gap[0] and gap[1] < piece.right]
        if found:
            above = found[-1]
            made.sort(key=lambda piece: not (abs(piece.left - above.left) < 2 and abs(piece.size - above.size) < 0.5))
        found += made
    return found


def _line(line: GlyphLine, page: int, repairs: list[Repair]) -> Line:
    last = line.first + len(line.body.rstrip(HYPHEN)) - 1
    bold = line.glyphs.bold(line.first) and line.glyphs.bold(last)
    text = read_ligatures(_from_units(line.text.replace(_COPY, "")), repairs).strip()
    measures = (line.left, line.right, line.base, line.size)
    return Line(text, page, *measures, bold, line.head.slanted, line.gaps, line.head.turn)


def _outside(glyph: Glyph, box: Box) -> bool:
    """True if a character is completely outside of the page."""
    (x, y), size = glyph.center, glyph.size
    low, high = sorted((box.left, box.right)), sorted((box.bottom, box.top))
    return not (low[0] - size < x < low[1] + size and high[0] - size < y < high[1] + size)


# PDFium counts positions in UTF-16 code units: a character beyond U+FFFF is two of them, a surrogate pair.


def _to_units(text: str) -> str:
    """Characters beyond U+FFFF as surrogate pairs."""
    return _WIDE.sub(lambda match: "".join(map(chr, unpack("<2H", match[0].encode("utf-16-le")))), text)


def _from_units(text: str) -> str:
    """Surrogate pairs as their characters."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def split_at_jumps(glyphs: Glyphs, lines: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The lines of a page, divided where the text goes back to the left, as PDFium joins what is drawn in a row."""
    for body, first in lines:
        cuts = [match.start() for match in _JUMP.finditer(body) if _goes_back(glyphs, body, match.start(), first)]
        yield from ((body[start + 1 : end], first + start + 1) for start, end in pairwise([-1, *cuts, len(body)]))


def _goes_back(glyphs: Glyphs, body: str, space: int, first: int) -> bool:
    before, after = first + space - 1, first + space + 1
    if not glyphs.may_jump(before, after):
        return False
    if any(unicodedata.bidirectional(body[at]) in ("R", "AL", "AN", "NSM") for at in (space - 1, space + 1)):
        return False  # that script runs to the left
    a, b = glyphs.at(before), glyphs.at(after)
    size = max(a.size, b.size)
    if a.turn != b.turn or a.slanted or b.slanted or size <= 0 or b.left >= a.right - _BACK * size:
        return False
    if abs(a.base - b.base) < _LEVEL * size:  # a cell that is drawn after those to the right of it stays in its row
        glyphs.returns.add(after)
    return after not in glyphs.returns
