"""The sentences of a document with the place each has in it: candidates for an extractive summary.

Lines that are wrapped inside a paragraph are one text; list items, table rows and code are told apart by their marks
(CommonMark, reStructuredText), because a sentence never crosses from one into another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import regex

from specextend_cli.documents.document import Block, Document
from specextend_cli.summarize.sentences import spans

Kind = Literal["prose", "item", "heading", "table", "code"]

ITEM = regex.compile(r"[ \t]*(?:[-*+•–▪■●]|(?!M\.\s\p{Lu}\p{Ll})\(?(?:\d{1,3}|[a-zA-Z])[.)]|#\.)[ \t]+(?=\S)")
"""The mark of a list's item; "M. Leroy" is a man."""
_FENCE = regex.compile(r"[ \t]*(?:```+|~~~+)")
_RULE = regex.compile(r"[ \t]*([-=~^\"'+*#_.:`])\1{2,}[ \t]*")
_TABLE = regex.compile(r"[ \t]*(?:\||\+[-=]{2,})")
_CELLS = regex.compile(r"\S[ \t]\|[ \t]")
_DIRECTIVE = regex.compile(r"[ \t]*(?:\.\. |:[\w -]+:(?:\s|$)|<!--|<\w|\[\S{1,40}\]:)")
_ENDED = regex.compile(r"""[.!?:;…\p{STerm}]["'\p{Pe}\p{Pf}]*\s*\Z""")
_LOWER = regex.compile(r"[\p{Ll}\p{N}`(\"“'*_\[]")
_UNDERLINED = regex.compile(r"[ \t][-=~^\"'+*#]{4,}[ \t]*\Z")
_WRAPPED, _WIDE = 0.7, 60  # of a block's longest line, characters: a shorter line before a capital ends its sentence
_NARROW = 25  # characters: so does any line that is shorter, because no paragraph is that narrow


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters [start, end) of the document's text: a sentence, or a line that is none.

    `block` and `section` count from 0; `place` is its number among the sentences of its block. A section begins at
    each heading, and `heading` is the heading's text, or "".
    """

    start: int
    end: int
    kind: Kind
    block: int
    place: int
    section: int
    heading: str


def candidates(document: Document) -> list[Candidate]:
    """All sentences of a document, in order."""
    text, found = document.text, list[Candidate]()
    section, heading, last, place = 0, "", -1, 0
    units = [(number, *unit) for number, block in enumerate(_blocks(document)) for unit in _units(text, block)]
    for number, start, end, kind in units:
        # Same length, so that positions stay: a wrapped line ends with a space.
        body = text[start:end].replace("\n", " ")
        if kind == "heading":
            section, heading, last = section + 1, _plain_heading(text[start:end]), -1
            found.append(Candidate(start, end, "heading", number, 0, section, heading))
            continue
        if mark := ITEM.match(body):  # "a." ends no sentence
            body = mark[0].replace(".", ",") + body[mark.end() :]
        place = place if number == last else 0
        for first, after in spans(body) if kind in ("prose", "item") else [(0, end - start)]:
            found.append(Candidate(start + first, start + after, kind, number, place, section, heading))
            place += 1
        last = number
    return found


def _blocks(document: Document) -> Iterator[Block]:
    """The blocks, and what lies between them."""
    end = 0
    for block in document.blocks:
        if document.text[end : block.start].strip():
            yield Block("paragraph", end, block.start)
        yield block
        end = block.end
    if document.text[end:].strip():
        yield Block("paragraph", end, len(document.text))


def _plain_heading(line: str) -> str:
    lines = [part.strip().strip("#").strip() for part in line.split("\n")]
    return " ".join(part for part in lines if part and not _RULE.fullmatch(part))


def _units(text: str, block: Block) -> Iterator[tuple[int, int, Kind]]:
    """Characters [start, end) of each run of lines that is one text, and what it is."""
    if block.kind == "heading":
        yield block.start, block.end, "heading"
        return
    lines = list(_lines(text, block))
    width = max((end - start for start, end in lines), default=0)
    fenced, begun = False, -1
    kind: Kind = "prose"
    for number, (start, end) in enumerate(lines):
        line = text[start:end]
        fence = _FENCE.match(line) is not None
        own = _kind(line, fenced or fence)
        fenced ^= fence
        if begun < 0:
            begun, kind = start, own
        following = text[slice(*lines[number + 1])] if number + 1 < len(lines) else ""
        last = not following or _kind(following, fenced) != "prose" or own not in ("prose", "item")
        if last or _ends(line, following, width):
            yield begun, end, kind
            begun = -1


def _lines(text: str, block: Block) -> Iterator[tuple[int, int]]:
    start = block.start
    for line in text[block.start : block.end].split("\n"):
        if line.strip():
            yield start + len(line) - len(line.lstrip()), start + len(line.rstrip())
        start += len(line) + 1


def _kind(line: str, fenced: bool) -> Kind:
    if fenced or _DIRECTIVE.match(line):
        return "code"
    if _RULE.fullmatch(line) or _TABLE.match(line) or _CELLS.search(line) or _UNDERLINED.search(line):
        return "table"
    return "item" if ITEM.match(line) else "prose"


def _ends(line: str, following: str, width: int) -> bool:
    """Whether a text ends with this line, although no mark says so: it is short, and a capital follows."""
    short = len(line) < max(min(_WRAPPED * width, _WIDE), _NARROW)
    return short and (_ENDED.search(line) is not None or _LOWER.match(following) is None)
