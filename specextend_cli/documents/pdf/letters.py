"""What characters of a PDFium text page stand for by their places.

Raised ones are superscripts: exponents and the marks of notes. TeX draws an accent over its letter as a character of
its own; a button of a captured web page is a word in a font of symbols. Of Arabic and Hebrew ligatures PDFium reverses
the letters with the glyphs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

from specextend_cli.documents.line import HYPHEN, SUPERSCRIPT_LETTERS, raised, runs
from specextend_cli.documents.pdf.glyphs import GlyphLine, Glyphs, Repair

_SMALLER = 0.85  # of the size of the type beside it: raised characters are smaller
# What may be a superscript: digits with their sign, also those of several note marks (commas and dashes between them),
# and single small letters at the end of a word (not two, as in 1st) or alone at the beginning of a line.
_SUPERSCRIPT = re.compile(
    r"(?P<digits>[+\-−–]?\d{1,24}(?:[.,–-]\d{1,4}){0,6})|(?<=[^\W_])[a-z](?![\w’'])"
    r"|(?<=[.,;:)\]%”\"])[a-z](?![\w’'.)])|^[ ]*[a-z](?=\s|[A-Z])",
    re.MULTILINE,
)
_DECIMAL = re.compile(r"\d(?:\.\d|%)")
_STROKES = frozenset("/⁄")  # behind the numerator of a fraction
_MARKS = re.compile(r"[*†‡⁰¹²³⁴-⁹]{1,3}|\d{1,3}(?:[ ,–-]+\d{1,3}){0,39}")
_MOST_PAIRS = 100_000  # of marks and lines; a page with more is a table or a diagram
_LOW, _HIGH = 0.1, 0.7  # of the size of a line: how much higher a mark stands
_COMBINING = dict(
    zip(
        "`^~´¨¸ˆ˜ˇ˘¯˙˚˝˛",
        "\u0300\u0302\u0303\u0301\u0308\u0327\u0302\u0303\u030c\u0306\u0304\u0307\u030a\u030b\u0328",
        strict=True,
    )
)
_ACCENT = re.compile(f"[{''.join(_COMBINING)}]")
_NEAR = 0.05  # of the height of a letter: a space is wider
_LETTER = re.compile("[A-Za-zıȷ]")
_DOTLESS = {"ı": "i", "ȷ": "j"}
_BUTTON = re.compile(r"\b(?:nmlkj(i)?|gfedc(b)?)\b")
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# Letters that join only to the one before them: a ligature ends with one.
_ENDS_LIGATURE = frozenset("\u0622\u0623\u0624\u0625\u0627\u0629\u062f\u0630\u0631\u0632\u0648\u0649\u0671")
_NAMES = ("\u0644\u0644\u0647", "\u0647\u0644\u0644")  # of God, in the order of the word and reversed


def mark_superscripts(glyphs: Glyphs, text: str) -> tuple[str, dict[int, str]]:
    """The text of a page with superscripts, of the same length, and the numbers to be set apart, by position."""
    apart: dict[int, str] = {}
    return _SUPERSCRIPT.sub(lambda match: _superscript(glyphs, match, apart), text), apart


def is_superscript(letter: str) -> bool:
    """True if a character is a raised digit, sign or letter."""
    return letter in "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻" or letter in SUPERSCRIPT_LETTERS


def _superscript(glyphs: Glyphs, match: re.Match[str], apart: dict[int, str]) -> str:
    """A run of characters, with those that are raised against their neighbours as superscripts.

    A raised decimal stays as it is, and `apart` has its first character and what divides it from its base.
    """
    text, (start, end) = match.string, match.span()
    if not match["digits"] and start and text[start - 1].isalnum() and glyphs.same_height((start - 1, start)):
        return match[0]  # nearly every word
    while text[start] == " ":
        start += 1
    # Only a number may be a superscript without a base before it: it is compared with what follows.
    beside = [start - 1] if start > 0 and not _divides(text[start - 1]) else []
    if (match["digits"] or not beside) and (after := _after(text, start, end)) is not None:
        beside.append(after)
    if glyphs.same_height((start, end - 1, *beside)):
        touching = [at for at in (start - 1, end) if 0 <= at < len(text) and not _divides(text[at])]
        if not match["digits"] or text[end : end + 1] in _STROKES or not glyphs.floats(end - 1, touching):
            return match[0]
        letters = (raised(text[at]) if glyphs.floats(at, touching) else text[at] for at in range(start, end))
        return text[match.start() : start] + "".join(letters)
    run = {at: glyphs.at(at) for at in range(start, end)}
    level = max([*run.values(), *map(glyphs.at, beside)], key=lambda glyph: (glyph.size, -glyph.base))
    low, high = level.base + 0.1 * level.size, level.base + level.size
    above = {at for at, mark in run.items() if mark.size < _SMALLER * level.size and low < mark.base < high}
    if not any(text[at].isalnum() for at in above):
        return match[0]
    first = min(above)
    if _DECIMAL.search(text, first, max(above) + 2):
        if text[first - 1 : first].isalnum():
            apart[first] = ("^" if text[first].isdigit() else " ") + text[first]
        return match[0]
    letters = (raised(text[at]) if at in above else text[at] for at in range(start, end))
    return text[match.start() : start] + "".join(letters)


def _divides(letter: str) -> bool:
    """True if what follows a character stands apart from it, or in the next line."""
    return letter.isspace() or letter == HYPHEN


def _after(text: str, start: int, end: int) -> int | None:
    """The position of the character that follows a run; at the beginning of a line after a space or line break."""
    while start > 0 and text[start - 1] == " ":
        start -= 1
    begins = start == 0 or text[start - 1] in ("\n", HYPHEN)
    while begins and end < len(text) and text[end] in " \n":
        end += 1
    return end if end < len(text) and not text[end].isspace() else None


def place_late_marks(lines: Sequence[GlyphLine]) -> list[GlyphLine]:
    """The lines of a page, in which raised marks that were lines of their own are superscripts in their lines."""
    small = [line for line in lines if _MARKS.fullmatch(line.body)]
    if len(small) * len(lines) > _MOST_PAIRS:
        return list(lines)
    placed: set[int] = set()
    for line in small:
        hosts = [host for host in lines if _is_raised_above(line, host)]
        marks = [(match[0], line.spans[match.start()][0]) for match in re.finditer(r"\S+", line.body)]
        for mark, left in marks if hosts else ():
            host = min(hosts, key=lambda host: line.base - host.base)
            at = max(
                (at for at, span in enumerate(host.spans) if sum(span) < 2 * left and host.body[at] != " "), default=0
            )
            host.changed[at] = host.changed.get(at, host.body[at]) + raised(mark)
            host.right = max(host.right, line.right)
            placed.add(id(line))
    return [line for line in lines if id(line) not in placed]


def _is_raised_above(line: GlyphLine, host: GlyphLine) -> bool:
    """True if a line is smaller than another, and stands a little higher within it or at its end."""
    higher = _LOW * host.size < line.base - host.base < _HIGH * host.size and line.size < _SMALLER * host.size
    inside = host.left < line.left and line.right < host.right + host.size
    return higher and inside and line.head.turn == host.head.turn


def put_together(glyphs: Glyphs, text: str) -> dict[int, str]:
    """What characters of the text of a page stand for, by position; "" for those that belong to another."""
    found: dict[int, str] = {}
    for match in _ACCENT.finditer(text):
        at = match.start()
        for near in (at + 1, at - 1):
            if 0 <= near < len(text) and _LETTER.match(text, near) and near not in found and _is_on(glyphs, at, near):
                letter = _DOTLESS.get(text[near], text[near]) + _COMBINING[match[0]]
                if len(letter := unicodedata.normalize("NFC", letter)) == 1:
                    found |= {at: "", near: letter}
                    found |= dict.fromkeys(_false_spaces(glyphs, text, near, at), "")
                    break
    for match in _BUTTON.finditer(text):
        is_radio = text[match.start()] == "n"
        mark = (" ", "x")[bool(match[1] or match[2])]
        found |= dict.fromkeys(range(*match.span()), "")
        found[match.start()] = f"({mark})" if is_radio else f"[{mark}]"
    return found


def _false_spaces(glyphs: Glyphs, text: str, letter: int, accent: int) -> Iterator[int]:
    """The spaces that PDFium put beside a letter because of its accent."""
    _, low, _, high = glyphs.box(letter)
    before, behind = min(letter, accent) - 1, max(letter, accent) + 1
    for space, left, right in ((before, before - 1, letter), (behind, letter, behind + 1)):
        is_put = left >= 0 and right < len(text) and text[space] == " "
        if is_put and abs(glyphs.box(right)[0] - glyphs.box(left)[2]) < _NEAR * (high - low):
            yield space


def _is_on(glyphs: Glyphs, accent: int, letter: int) -> bool:
    """True if the middle of an accent is over or under a letter."""
    left, _, right, _ = glyphs.box(accent)
    start, _, end, _ = glyphs.box(letter)
    return start < (left + right) / 2 < end


def order_letters(lines: Sequence[GlyphLine]) -> list[Repair]:
    """Order the letters of each glyph in the lines of a page; the repairs.

    Some files have the letters of a ligature in reversed order, so that PDFium's are right. Letters that only one order
    allows (lam and alef, a letter and its vowel) decide for the others of the page.
    """
    right_to_left = [line for line in lines if RIGHT_TO_LEFT.search(line.body)]
    texts = [line.text for line in right_to_left]
    found = [(line, ligature) for line in right_to_left for ligature in _ligatures(line)]
    orders = [_in_order(line.body[start:end]) for line, (start, end) in found]
    default = True in orders and False not in orders
    for (line, (start, end)), ordered in zip(found, orders, strict=True):
        if not (default if ordered is None else ordered):
            line.changed |= {at: line.body[start + end - 1 - at] for at in range(start, end)}
    changed = zip(texts, right_to_left, strict=True)
    return [("letter order", before, line.text) for before, line in changed if line.text != before]


def _ligatures(line: GlyphLine) -> Iterator[tuple[int, int]]:
    """The start and end of each group of letters that are one glyph: their boxes are the same."""
    body, spans = line.body, line.spans
    places = [at for at, letter in enumerate(body) if RIGHT_TO_LEFT.match(letter)]
    for group in runs(places, lambda group, at: at == group[-1] + 1 and spans[at] == spans[at - 1]):
        text = body[group[0] : group[-1] + 1]
        if len(set(text)) > 1 and not all(map(unicodedata.combining, text)):
            yield group[0], group[-1] + 1


def _in_order(letters: str) -> bool | None:
    """True if letters of one glyph are in the order of the word; None where both orders may be."""
    marks = [unicodedata.combining(letter) > 0 for letter in letters]
    if marks[0] or (any(marks) and not marks[-1] and not any(marks[1:-1])):
        return False
    bare = [letter for letter in letters if not unicodedata.combining(letter)]
    if "".join(bare).strip("\u0627") in _NAMES:
        return "".join(bare).strip("\u0627") == _NAMES[0]
    first, last = bare[0] in _ENDS_LIGATURE, bare[-1] in _ENDS_LIGATURE
    if len(bare) > 1 and first != last:
        return last
    return True if any(marks) else None
