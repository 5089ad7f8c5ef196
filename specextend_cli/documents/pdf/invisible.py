"""Invisible words of a PDF page: white on white, in render mode 3, on a hidden layer, or under a filled box.

Words are left out only where the page, rendered, has a single colour in their place, and no picture: the text of a scan
is invisible too, and is what its picture shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import compress, groupby
from operator import not_
from typing import Any

from specextend_cli.documents.pdf.glyphs import GlyphLine
from specextend_cli.documents.pdf.invisible_objects import Suspects, hide
from specextend_cli.documents.pdf.line_parts import Part, without_parts
from specextend_cli.documents.pdf.rendered_page import Box, RenderedPage

_MOST_LAYERED = 0.5  # of the letters of a page; slides may reveal so many on a click
_LETTERS = 2  # of a word; a full stop or a dash fills its box


def without_invisible(lines: list[GlyphLine], page: Any, suspects: Suspects) -> tuple[list[GlyphLine], list[str]]:
    """The lines of a PDFium text page without invisible words, and these; all lines where nothing else is left.

    Words are invisible if the page is the same without them, and if one of those beside them has a plain box: others
    are drawn on where it has not, and may be copies of them.
    """
    words = [
        (line, word, _ink(line, word) if _is_suspect(line, word, suspects) else None)
        for line in (lines if suspects else ())
        for word in re.finditer(r"\S+", line.body)
    ]
    if not any(box for _, _, box in words):
        return lines, []
    picture = RenderedPage(page.page)
    plain = {id(word) for _, word, box in words if box and _letters(word[0]) >= _LETTERS and picture.is_plain(box)}
    if not plain:  # nearly every page that has suspects
        return lines, []
    hide(suspects)
    rest = RenderedPage(page.page)
    parts: list[Part] = []
    for is_hidden, run in groupby(words, lambda found: found[2] is not None and picture.is_equal(rest, found[2])):
        group = list(run) if is_hidden else []
        if any(id(word) in plain for _, word, _ in group):
            parts += _joined(group)
    total = sum(_letters(line.body) for line in lines)
    on_layers = [suspects.get(line.glyphs.object(line.first + start) or 0, False) for line, start, _ in parts]
    if sum(map(_letters_of, compress(parts, on_layers))) > _MOST_LAYERED * total:
        parts = list(compress(parts, map(not_, on_layers)))
    if not parts or sum(map(_letters_of, parts)) == total:
        return lines, []
    return without_parts(lines, parts), [line.body[start:end] for line, start, end in parts]


def _letters_of(part: Part) -> int:
    line, start, end = part
    return _letters(line.body[start:end])


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _joined(words: Iterable[tuple[GlyphLine, re.Match[str], Any]]) -> Iterator[Part]:
    """The parts that words in a row make, one for each line."""
    for _, run in groupby(words, lambda word: id(word[0])):
        group = list(run)
        yield group[0][0], group[0][1].start(), group[-1][1].end()


def _is_suspect(line: GlyphLine, word: re.Match[str], suspects: Suspects) -> bool:
    return all(line.glyphs.object(line.first + at) in suspects for at in range(*word.span()))


def _ink(line: GlyphLine, word: re.Match[str]) -> Box:
    """The box of what is drawn of a word."""
    lefts, bottoms, rights, tops = zip(*(line.glyphs.ink(line.first + at) for at in range(*word.span())), strict=True)
    return Box(min(lefts), min(bottoms), max(rights), max(tops))
