"""Words cut at the end of a line become whole."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN
from specextend_cli.documents.repairs.repair import Pages, Repaired

_WORD = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
_LAST = re.compile(rf"[-\N{{HYPHEN}}{HYPHEN}]([^\W\d_]+(?:-[^\W\d_]+)*)")  # of a line read backwards
_HYPHENS = ("-", "\N{HYPHEN}", HYPHEN)
_NUMBER = re.compile(r"\d[-–]$")
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
    words = vocabulary(pages)
    edits: list[Edit] = []
    fixed = [list(page) for page in pages]
    places = [(p, i) for p, page in enumerate(fixed) for i in range(len(page))]
    for (p, i), (q, j) in pairwise(places):
        here, there = fixed[p][i], fixed[q][j]
        if _NUMBER.search(here.text) and (number := re.match(r"(\d\S*)\s*", there.text)):
            edits.append(Edit("hyphen joined", here.page, f"{here.text[-2:]}\n{number[1]}", here.text[-2:] + number[1]))
            fixed[p][i] = replace(here, text=here.text + number[1])
            fixed[q][j] = replace(there, text=there.text[number.end() :])
            continue
        last = _last_word(here.text)
        first = _NEXT.match(there.text) if last else None
        if not last or first is None:
            continue
        whole = _whole(last, first[1], words)
        moved = there.text[first.start() : first.end()].rstrip()
        edits.append(Edit("hyphen joined", here.page, f"{last}-\n{first[1]}", whole))
        fixed[p][i] = replace(here, text=here.text[: -len(last) - 1] + whole + moved[len(first[1]) :])
        fixed[q][j] = replace(there, text=there.text[first.end() :])
    return [[replace(line, text=line.text.replace(HYPHEN, "-")) for line in page if line.text] for page in fixed], edits


def vocabulary(pages: Pages) -> Counter[str]:
    """The words of the document, lower case, without the halves around line ends."""
    words = Counter[str]()
    cut = False
    for page in pages:
        for line in page:
            found = [match[0].lower() for match in _WORD.finditer(line.text)]
            now_cut = bool(_last_word(line.text))
            words.update(found[1 if cut else 0 : len(found) - 1 if now_cut else len(found)])
            cut = now_cut
    return words


def _last_word(text: str) -> str:
    """The word before the hyphen that ends a line, or "".

    The line is read backwards. A search for the end of a line would try every letter of a long word as the first one.
    """
    match = _LAST.match(text[::-1]) if text.endswith(_HYPHENS) else None
    return match[1][::-1] if match else ""


def _whole(head: str, tail: str, words: Counter[str]) -> str:
    joined, hyphened = head + tail, f"{head}-{tail}"
    if not (tail[0].islower() or (head.isupper() and tail.isupper())):
        return hyphened
    seen_joined, seen_hyphened = words[joined.lower()], words[hyphened.lower()]
    if seen_joined or seen_hyphened:
        return hyphened if seen_hyphened > seen_joined else joined
    if "-" in head or "-" in tail or head.lower() in ("self", "non", "co") or len(head) == 1:
        return hyphened
    both = min(len(head), len(tail)) > 2 and words[head.lower()] and words[tail.lower()]
    return hyphened if both and tail.lower() not in _ENDINGS else joined
