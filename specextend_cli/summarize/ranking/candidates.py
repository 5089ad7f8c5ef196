"""The sentences of a document, where each stands and, in a conversation, who says it: candidates for an extract.

Lines that are wrapped inside a paragraph are one text; list items, table rows and code are told apart by their marks
(CommonMark, reStructuredText), because a sentence never crosses from one into another.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from specextend_cli.documents.document import Block, Document
from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.words import length_of

Kind = Literal["prose", "item", "heading", "table", "code"]

ITEM = regex.compile(r"[ \t]*(?:[-*+•–▪■●]|(?!M\.\s\p{Lu}\p{Ll})\(?(?:\d{1,3}|[a-zA-Z])[.)]|#\.)[ \t]+(?=\S)")
"""The mark of a list's item; "M. Leroy" is a man."""
_LINE = re.compile(r"\S(?:.*\S)?")  # without the white space around it
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


_SPEAKER = regex.compile(
    r"""\W{0,3}(?P<name>[\p{Lu}\p{Lo}][\p{L}\p{M}\p{N}.'’ ・-]{0,38})
      (?:\ \([^()]{1,30}\)|（[^（）]{1,30}）)?(?::\ |：)(?=\S)""",
    regex.VERBOSE,
)
# A label of minutes before a colon, which is nobody's name.
_LABEL = regex.compile(
    r"(?:Decision|Action(?: item| point)?|Motion|Resolution|Vote|Beschluss|Aufgabe|Antrag|Décision|Acuerdo|Decisión"
    r"|Tarea|Decisione|Decisão|Tarefa|Решение|Поручение)s?(?: \d+)?(?=:)"
)
_TURNS = 0.2  # of a conversation's paragraphs, at least, begin with the name of somebody who speaks more than once
_LEAST = 2  # turns of such a speaker, and speakers of a conversation
_WORDS = 4  # of a name, at most
_FILLERS = regex.compile(
    r"""\b(?:u[hm]+|e[rh]m*|mm+|hm+|oh|ah|huh|yeah|yep|yes|no|okay|ok|well|so|right|alright|like|just|actually|basically
      |really|I\ (?:mean|guess|think|dunno|know)|you\ know|kind\ of|sort\ of|kinda|sorta|and|but)\b[,.;:!?-]*""",
    regex.VERBOSE | regex.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Characters [start, end) of the document's text: a sentence, or a line that is none.

    `block` and `section` count from 0; `place` is its number among the sentences of its block. A section begins at
    each heading, and `heading` is the heading's text, or "". One that `is_quoted` stands in what a mail quotes.
    """

    start: int
    end: int
    kind: Kind
    block: int
    place: int
    section: int
    heading: str
    is_quoted: bool = False


def candidates(document: Document) -> list[Candidate]:
    """All sentences of a document, in order."""
    text, found = document.text, list[Candidate]()
    section, heading = 0, ""
    for number, block in enumerate(_blocks(document)):
        place, is_quoted = 0, block.kind == "quote"
        for start, end, kind in _units(text, block):
            # Same length, so that positions stay: a wrapped line ends with a space.
            body = text[start:end].replace("\n", " ")
            if kind == "heading":
                section, heading = section + 1, _plain_heading(text[start:end])
            elif mark := ITEM.match(body):  # "a." ends no sentence
                body = mark[0].replace(".", ",") + body[mark.end() :]
            for first, after in spans(body) if kind in ("prose", "item") else [(0, end - start)]:
                places = (start + first, start + after, kind, number, place)
                found.append(Candidate(*places, section, heading, is_quoted))
                place += 1
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
    found = list(_LINE.finditer(text, block.start, block.end))
    lines = [match[0] for match in found]
    width = max(map(len, lines), default=0)
    fenced, begun = False, -1
    kind: Kind = "prose"
    for match, line, following in zip(found, lines, [*lines[1:], ""], strict=False):
        fence = _FENCE.match(line) is not None
        own = _kind(line, fenced or fence)
        fenced ^= fence
        if begun < 0:
            begun, kind = match.start(), own
        last = not following or _kind(following, fenced) != "prose" or own not in ("prose", "item")
        if last or _ends(line, following, width):
            yield begun, match.end(), kind
            begun = -1


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


def speakers(text: str, found: Sequence[Candidate]) -> tuple[str, ...]:
    """Who says each of the sentences of a conversation, "" for nobody, [sentences]; () where a document is none.

    A paragraph without a name, after a named one, is nobody's.
    """
    said: list[str] = []
    name = ""
    for one in found:
        if one.place == 0:
            body = " ".join(text[one.start : one.end].split())
            match = _SPEAKER.match(body) if one.kind in ("prose", "item") else None
            name = match["name"].strip() if match and len(match["name"].split()) <= _WORDS else ""
            name = "" if decides(body) else name
        said.append(name)
    turns = Counter(name for name, one in zip(said, found, strict=True) if one.place == 0 and name)
    known = {name: number for name, number in turns.items() if number >= _LEAST}
    share = sum(known.values()) / max(sum(one.place == 0 for one in found), 1)
    return tuple(said) if share >= _TURNS and len(known) >= _LEAST else ()


def decides(line: str) -> bool:
    """Whether a line is a decision or a task of minutes, and says so before a colon."""
    return _LABEL.match(line) is not None


def words_told(line: str) -> float:
    """Words that are said, without the speaker's name and what fills pauses: 3 of "Bob: Um, yeah, on the TV"."""
    line = line[match.end() :] if (match := _SPEAKER.match(line)) else line
    return length_of(_FILLERS.sub(" ", line))
