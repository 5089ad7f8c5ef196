"""How much of a known text is in what a reader made of its file."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_EQUAL = str.maketrans(
    dict.fromkeys("“”„", '"')
    | dict.fromkeys("‘’`", "'")
    | dict.fromkeys("–—‐‑−", "-")
    | dict.fromkeys("\xad\u200b\ufeff")
)
_DIVIDED = re.compile(r"(?<=[a-z])[-\u2010\u00ad]\s*\n\s*(?=[a-z])")
_PAGE_NUMBER = re.compile(r"(- ?)?(Page )?\d{1,3}( of \d+| ?[-/] ?\d+)?( ?-)?|[ivx]{1,5}|\d{1,3}( \d{1,3})+")
_BETWEEN = r"(?!\S).{0,12}?(?<!\S)"  # a cell begins and ends at white space
_EMPTY = "-"

MEASURES = ("sentences", "ordered", "notes", "items", "rows", "heads")


@dataclass
class Truth:
    """What a file says: `junk` may be in the text once, `absent` never; in `rows` "" is an empty cell."""

    sentences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    items: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    junk: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)


@dataclass
class Score:
    """How much was found of how much there is, by measure, how much of `junk`, and what is broken."""

    found: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        return Score(self.found + other.found, self.total + other.total, self.broken + other.broken)

    def share(self, measure: str) -> float:
        return self.found[measure] / self.total[measure] if self.total[measure] else 1.0


def normal(text: str) -> str:
    """A text with equal white space, quotes and dashes."""
    text = unicodedata.normalize("NFKC", text.translate(_EQUAL)).translate(_EQUAL).replace("''", '"')
    return re.sub(r"\s+", " ", re.sub(r"-{2,}", "-", text)).strip()


def score(text: str, truth: Truth) -> Score:
    """Compare a text with what it should be."""
    whole = normal(_DIVIDED.sub("", text))
    lines = [normal(line) for line in text.split("\n")]
    headings = {re.sub(r"^[\d.]+\s+", "", line) for line in lines}
    result = Score()

    def count(measure: str, texts: Iterable[str], found: Iterable[bool]) -> None:
        for one, is_found in zip(texts, found, strict=True):
            result.found[measure] += is_found
            result.total[measure] += 1
            if not is_found:
                result.broken.append(f"{measure}: {one}")

    places = [whole.find(normal(sentence)) for sentence in truth.sentences]
    count("sentences", truth.sentences, (place >= 0 for place in places))
    result.found["ordered"] = _longest_ascending([place for place in places if place >= 0])
    result.total["ordered"] = len(truth.sentences)
    count("notes", truth.notes, (normal(note) in whole for note in truth.notes))
    count("items", truth.items, (normal(item) in whole for item in truth.items))
    count("rows", map(" | ".join, truth.rows), (any(map(_row(row).search, lines)) for row in truth.rows))
    count("heads", truth.heads, (normal(head) in headings for head in truth.heads))
    left = [junk for junk in truth.junk for _ in range(whole.count(normal(junk)) - 1)]
    left += [absent for absent in truth.absent for _ in range(whole.count(normal(absent)))]
    left += [line for line in lines if truth.junk and _PAGE_NUMBER.fullmatch(line)]
    result.found["junk"] = len(left)
    result.broken += [f"junk: {junk}" for junk in left]
    return result


def _row(cells: Sequence[str]) -> re.Pattern[str]:
    """A row in one line; what is between its cells is short."""
    return re.compile(rf"(?<!\S){_BETWEEN.join(re.escape(normal(cell)) if cell else _EMPTY for cell in cells)}(?!\S)")


def _longest_ascending(numbers: Sequence[int]) -> int:
    tails: list[int] = []
    for number in numbers:
        at = bisect_left(tails, number)
        tails[at : at + 1] = [number]
    return len(tails)
