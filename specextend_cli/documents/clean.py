"""Repairs of text as files hold it, each a function from pages of lines to pages of lines and the list of its edits.

None of them changes what a page says: they remove what is printed around the text, put back together what the line
end took apart, and replace characters that only a printer needs. `tidy` applies them in order.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN, Line

Pages = Sequence[Sequence[Line]]
Repaired = tuple[list[list[Line]], list[Edit]]
Repair = Callable[[Pages], Repaired]


def tidy(pages: Pages) -> Repaired:
    """All repairs of printed pages, in the order that lets each see what it needs."""
    return _all(pages, (characters, rows, running_lines, side_headings, note_marks, hyphens))


def _all(pages: Pages, repairs: Iterable[Repair]) -> Repaired:
    edits: list[Edit] = []
    for repair in repairs:
        pages, made = repair(pages)
        edits += made
    return [list(page) for page in pages], edits


# --------------------------------------------------------------------------------------------------- characters

_LIGATURES = ("ff", "fi", "fl", "ffi", "ffl", "st", "st")
# Runs of spaces and of dots are tried from their beginning only, so that a line of a million dots takes no longer.
_LEADER = re.compile(
    r"(?<!\s)\s*(?:[.·…_]{5,}[\s.·…_]*"
    r"|(?<![.·…])(?<![.·…]\s)(?:(?:\s?[.·…]){2,}\s*(?=\d+$)|(?:\s[.·…]){4,}\s*$))"
)
_CHARACTERS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("overstrike", re.compile(r"[^\n]\x08"), ""),
    (
        "escape sequence",
        re.compile(
            r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movement
            r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f\n]*(?:\x07|\x1b\\|\x9c)"  # links, titles
            r"|\x1b[ -/]*[0-~]"
        ),
        "",
    ),
    ("control character", re.compile(rf"[\x00\x01\x03-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]|{HYPHEN}(?!$)"), ""),
    ("soft hyphen", re.compile("\u00ad"), ""),
    (
        # Marks of direction and tags can make a terminal show other text than the model sees. Joiners stay inside
        # words of the scripts (and in the emoji) that need them.
        "invisible character",
        re.compile(
            "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
            "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
        ),
        "",
    ),
    ("unreadable character", re.compile("[\ud800-\udfff]"), "\ufffd"),
    *(("ligature", re.compile(chr(0xFB00 + place)), letters) for place, letters in enumerate(_LIGATURES)),
    ("dot leader", _LEADER, " … "),
    ("white space", re.compile("[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"), " "),
    ("white space", re.compile("(?<![ \t])  (?![ \t])"), " "),
    ("white space", re.compile("\t[ \t]*| [ \t]{2,}"), "  "),  # columns of a table stay apart
)
_SUSPECT = re.compile("[^ -~‘’“”–—•]|  |[._]{5}|[.] [.]")


def characters(pages: Pages) -> Repaired:
    """Controls, escape sequences, invisible characters, ligatures, dot leaders and runs of white space."""
    edits: list[Edit] = []

    def repaired(line: Line) -> Line:
        text = plain_characters(line.text, line.page, edits)
        return line if text == line.text else replace(line, text=text.strip())

    fixed = [[repaired(line) for line in page] for page in pages]
    return [[line for line in page if line.text] for page in fixed], edits


def plain_characters(text: str, page: int, edits: list[Edit]) -> str:
    """One line without controls, invisible characters, ligatures and runs of spaces; what changed goes to `edits`."""
    if not _SUSPECT.search(text):
        return text
    for kind, pattern, substitute in _CHARACTERS:

        def change(match: re.Match[str], kind: str = kind, substitute: str = substitute) -> str:
            edits.append(Edit(kind, page, match[0], substitute))
            return substitute

        text = pattern.sub(change, text)
    return text


# --------------------------------------------------------------------------------------------------------- rows


def rows(pages: Pages) -> Repaired:
    """Pieces of one printed line (words after a raised note mark, a bullet and its item, cells) become one line."""
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for page in pages:
        kept: list[Line] = []
        for line in page:
            if kept and (gap := _beside(kept[-1], line)) is not None:
                left = kept.pop()
                joint = (
                    "  " if gap > 1.5 * left.size else "" if gap < 0.1 * left.size and line.text[0] in ").,;:" else " "
                )
                edits.append(
                    Edit("row joined", line.page, f"{left.text}\n{line.text}", f"{left.text}{joint}{line.text}")
                )
                line = _side_by_side(left, line, joint)
            kept.append(line)
        fixed.append(kept)
    return fixed, edits


def _beside(a: Line, b: Line) -> float | None:
    """The space between `a` and `b` when b goes on to the right of a on the same baseline, else None."""
    gap = b.left - a.right
    if gap < -0.3 * a.size or a.text.endswith(HYPHEN):
        return None
    if _NOTE_NUMBER.fullmatch(a.text):
        return gap if 0 <= a.base - b.base < 0.8 * b.size else None
    alike = abs(a.size - b.size) < 0.1 * a.size and a.bold == b.bold
    return gap if alike and abs(a.base - b.base) < (0.1 if gap > a.size else 0.45) * a.size else None


def _side_by_side(a: Line, b: Line, joint: str) -> Line:
    size, base = max((a.size, a.base), (b.size, b.base))
    return replace(a, text=f"{a.text}{joint}{b.text}", right=b.right, size=size, base=base, bold=a.bold and b.bold)


# ------------------------------------------------------------------------------------------------- running lines

_EDGE = 4
_ROMAN = re.compile(r"^((?:page )?)[ivxlc]{1,7}$", re.IGNORECASE)
_FOLIO = re.compile(r"(?:page|p\.?|seite)?\s*#(?:\s*(?:of|/)\s*#)?", re.IGNORECASE)


def running_lines(pages: Pages) -> Repaired:
    """Running heads and feet and page numbers: lines that return, but for digits, at the edge of several pages."""
    heights = _Heights(pages)
    returning: defaultdict[tuple[str, str], list[Line]] = defaultdict(list)
    for page in pages:
        for where, lines in _edges(page):
            for line in lines:
                returning[where, heights.key(line)].append(line)
    running: set[int] = set()  # ids of lines
    titles: set[int] = set()
    bands: defaultdict[str, list[Line]] = defaultdict(list)
    for (where, key), found in returning.items():
        lines = _steady(found)
        folio = _FOLIO.fullmatch(key) is not None
        if len({line.page for line in lines}) < heights.enough(lines):
            continue
        if not (_counts_up(lines) if folio else sum(map(str.isalpha, key)) > 2):
            continue
        if heights.is_large(lines[0]):  # a title that later pages repeat
            titles.add(id(lines.pop(0)))
        running.update(map(id, lines))
        bands[where] += lines
    fixed, edits = [], []
    for page in pages:
        gone: set[int] = set()
        for where, lines in _edges(page):
            inward: list[Line] = []
            for line in lines:
                if id(line) in titles or not (id(line) in running or heights.in_band(line, bands[where])):
                    break
                inward.append(line)
            gone.update(id(line) for line in _apart(inward, lines))
        edits += [Edit(_running_kind(line, page), line.page, line.text) for line in page if id(line) in gone]
        fixed.append([line for line in page if id(line) not in gone])
    return fixed, edits


class _Heights:
    """How many pages there are, the size of their body text, and what counts as often."""

    def __init__(self, pages: Pages) -> None:
        self.pages = sum(1 for page in pages if page)
        sizes = Counter[float]()
        for page in pages:
            for line in page:
                sizes[line.size] += len(line.text)
        self.body = sizes.most_common(1)[0][0] if sizes else 1.0

    def enough(self, lines: Sequence[Line]) -> float:
        # On a grid of characters a line has no height on paper to prove itself by: it must return more often.
        return max(3, (0.4 if not lines or lines[0].size == 1 else 0.04) * self.pages)

    def is_large(self, line: Line) -> bool:
        return line.size > 1.2 * self.body

    def key(self, line: Line) -> str:
        """What must return: the line but for its digits, which in a title ("Chapter 3") make a difference."""
        return " ".join(line.text.split()) if self.is_large(line) else _modulo_digits(line.text)

    def in_band(self, line: Line, removed: Sequence[Line]) -> bool:
        """Whether `line` stands where most pages have a running line: then it is one, whatever it says."""
        if line.size == 1 or len(line.text) > 120:
            return False
        near = [other for other in removed if abs(other.base - line.base) < 2 and abs(other.size - line.size) < 1]
        return len({other.page for other in near}) > 0.6 * self.pages


def _edges(page: Sequence[Line]) -> Iterable[tuple[str, list[Line]]]:
    """The highest and the lowest lines of a page, from the edge inward; the last is only to compare with.

    They are sorted by height because the order in the file is any: a foot often comes first.
    """
    highest = sorted(page, key=lambda line: -line.base)
    yield "top", highest[: _EDGE + 1]
    yield "bottom", highest[: -_EDGE - 2 : -1]


def _apart(found: list[Line], lines: Sequence[Line]) -> list[Line]:
    """Those of the first `lines` that stand apart from the text behind them: a text may begin or end alike too."""
    while found and len(found) < len(lines):
        line, behind = found[-1], lines[len(found)]
        if abs(line.base - behind.base) > 1.5 * line.size or abs(line.size - behind.size) > 0.04 * line.size:
            break
        found.pop()
    return found


def _modulo_digits(text: str) -> str:
    plain = " ".join(text.split()).strip("-–—•|[]() ")
    return re.sub(r"\d+", "#", _ROMAN.sub(r"\1#", plain)).casefold()


def _steady(lines: Sequence[Line]) -> list[Line]:
    """Those of the lines that stand at one height (left and right pages may differ a little)."""
    if not lines or lines[0].size == 1:
        return list(lines)
    middle = median(line.base for line in lines)
    return [line for line in lines if abs(line.base - middle) < 4]


def _counts_up(lines: Sequence[Line]) -> bool:
    """Whether the numbers keep step with the pages (as roman numerals need not be proven to)."""
    offsets = Counter(
        int(number[0]) - line.page if (number := re.search(r"\d+", line.text)) else None for line in lines
    )
    return offsets.most_common(1)[0][1] >= 0.5 * len(lines)


def _running_kind(line: Line, page: Sequence[Line]) -> str:
    if _FOLIO.fullmatch(_modulo_digits(line.text)):
        return "page number"
    heights = [other.base for other in page]
    return "running head" if line.base > (max(heights) + min(heights)) / 2 else "running foot"


# ------------------------------------------------------------------------------------------------- side headings


def side_headings(pages: Pages) -> Repaired:
    """Headings set in the margin, which files often hold at the end of the page, go above the lines they stand by."""
    edits: list[Edit] = []
    fixed = []
    for page in pages:
        side = _side_lines(page)
        beside = {id(line) for line in side}
        body = [line for line in page if id(line) not in beside]
        if len(body) < 5 or not side:
            fixed.append(list(page))
            continue
        for group in _stacks(side):
            below = [line for line in body if line.base <= group[0].base + 0.6 * group[0].size]
            place = body.index(max(below, key=lambda line: line.base)) if below else len(body)
            body[place:place] = group
        if body != list(page):
            edits += [Edit("side heading", line.page, line.text, line.text) for line in side]
        fixed.append(body)
    return fixed, edits


def _side_lines(page: Sequence[Line]) -> list[Line]:
    """Lines in bold or large type that end left of where most text begins."""
    lefts, sizes = Counter[float](), Counter[float]()
    for line in page:
        lefts[round(line.left / 4) * 4.0] += len(line.text)
        sizes[line.size] += len(line.text)
    if not lefts:
        return []
    margin, body = lefts.most_common(1)[0][0] - 2, sizes.most_common(1)[0][0]
    beside = [line for line in page if line.right < margin]
    headings = [
        line for line in beside if (line.bold or line.size > 1.15 * body) and sum(map(str.isalpha, line.text)) > 2
    ]
    return headings if len(beside) - len(headings) < 4 else []  # with more text it is a column, not a margin


def _stacks(lines: Sequence[Line]) -> Iterable[list[Line]]:
    """Lines that stand closely one below the other, together."""
    stack: list[Line] = []
    for line in sorted(lines, key=lambda line: -line.base):
        if stack and stack[-1].base - line.base > 1.6 * line.size:
            yield stack
            stack = []
        stack.append(line)
    if stack:
        yield stack


# --------------------------------------------------------------------------------------------------- note marks

_NOTE_MARK = re.compile("(?:(?<=[^\\W\\d_]{3})|(?<=[.,;:)\\]”’\"'?!]))[⁰¹²³⁴-⁹]+")
_NOTE_NUMBER = re.compile("^([⁰¹²³⁴-⁹]+)\\s*")
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def note_marks(pages: Pages) -> Repaired:
    """Raised numbers after words go: "grants⁶" would be read as a name or a figure. A note keeps its own number."""
    edits: list[Edit] = []

    def repaired(line: Line) -> Line:
        text = unmarked(line.text, line.page, edits)
        return line if text == line.text else replace(line, text=text)

    return [[repaired(line) for line in page] for page in pages], edits


def unmarked(text: str, page: int, edits: list[Edit]) -> str:
    """One line without marks of notes; what went goes to `edits`."""
    text = _NOTE_NUMBER.sub(lambda match: match[1].translate(_DIGITS) + " ", text)
    edits.extend(Edit("note mark", page, match[0]) for match in _NOTE_MARK.finditer(text))
    return _NOTE_MARK.sub("", text)


# ------------------------------------------------------------------------------------------------------ hyphens

_WORD = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
_LAST = re.compile(rf"([^\W\d_]+(?:-[^\W\d_]+)*)[-\N{{HYPHEN}}{HYPHEN}]$")
_NEXT = re.compile(r"([^\W\d_]+(?:[-’'][^\W\d_]+)*)[^\s]*\s*")
# Ends of words that are words themselves: "account" and "able" stand alone too, and yet make "accountable".
_ENDINGS = frozenset(
    (
        *("able", "age", "ally", "ance", "ant", "ate", "ion", "ions", "less", "man", "men", "ness", "out", "ship"),
        *("some", "ward", "wards", "ways", "work"),
    )
)


def hyphens(pages: Pages) -> Repaired:
    """Words cut at the end of a line become whole; the document's own words tell "third-party" from "govern-ment"."""
    words = _vocabulary(pages)
    edits: list[Edit] = []
    fixed = [list(page) for page in pages]
    places = [(p, i) for p, page in enumerate(fixed) for i in range(len(page))]
    for (p, i), (q, j) in pairwise(places):
        here, there = fixed[p][i], fixed[q][j]
        last, first = _LAST.search(here.text), _NEXT.match(there.text)
        if last is None or first is None or not (first[1][0].islower() or here.text.endswith(HYPHEN)):
            continue
        whole = _whole(last[1], first[1], words)
        moved = there.text[first.start() : first.end()].rstrip()
        edits.append(Edit("hyphen joined", here.page, f"{last[1]}-\n{first[1]}", whole))
        fixed[p][i] = replace(here, text=here.text[: last.start()] + whole + moved[len(first[1]) :])
        fixed[q][j] = replace(there, text=there.text[first.end() :])
    return [[replace(line, text=line.text.replace(HYPHEN, "-")) for line in page if line.text] for page in fixed], edits


def _vocabulary(pages: Pages) -> Counter[str]:
    """The words of the document, lower case, without the halves around line ends."""
    words = Counter[str]()
    cut = False
    for page in pages:
        for line in page:
            found = [match[0].lower() for match in _WORD.finditer(line.text)]
            now_cut = _LAST.search(line.text) is not None
            words.update(found[1 if cut else 0 : len(found) - 1 if now_cut else len(found)])
            cut = now_cut
    return words


def _whole(head: str, tail: str, words: Counter[str]) -> str:
    joined, hyphened = head + tail, f"{head}-{tail}"
    if not tail[0].islower():
        return hyphened
    seen_joined, seen_hyphened = words[joined.lower()], words[hyphened.lower()]
    if seen_joined or seen_hyphened:
        return hyphened if seen_hyphened > seen_joined else joined
    if "-" in head or "-" in tail or head.lower() in ("self", "non", "co") or len(head) == 1:
        return hyphened
    both = min(len(head), len(tail)) > 2 and words[head.lower()] and words[tail.lower()]
    return hyphened if both and tail.lower() not in _ENDINGS else joined
