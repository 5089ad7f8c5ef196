"""Remove characters that only a printer or a terminal needs; replace ligatures and styled letters by plain ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from unicodedata import normalize

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import EMPTY_CELL, HYPHEN, Line, page_by_page

# Runs of spaces and dots match from their beginning only, so that the time is linear in their length.
_LEADER = re.compile(
    r"(?<!\s)\s*(?:[.·…_]{5,}[\s.·…_]*"
    r"|(?<![.·…])(?<![.·…]\s)(?:(?:\s?[.·…]){2,}\s*(?=\d+$)|(?:\s[.·…]){4,}\s*$))"
)
_DOTS = r"(?:[.·…]{5,}|[.·…](?: [.·…]){3,})"
# A cell of dots alone. Before a number at the end of the line they are a leader, unless they follow another such cell.
_DOTTED_CELL = re.compile(
    rf"(?:(?<=[.·…]\t)|(?<=[.·…]  )|(?:(?<=\t)|(?<=\t )|(?<=  ))(?!{_DOTS}[ \t]+\d+$)){_DOTS}(?= ?\t|  |$)"
)
_CHARACTERS: tuple[tuple[str, re.Pattern[str], str | None], ...] = (
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
    ("control character", re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]"), ""),
    ("soft hyphen", re.compile("\u00ad"), ""),
    (
        # Direction marks and tags can make a terminal show other text than the model sees. Joiners stay within words
        # of scripts, and emoji, that need them.
        "invisible character",
        re.compile(
            "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
            "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
        ),
        "",
    ),
    ("unreadable character", re.compile("[\ud800-\udfff]"), "\ufffd"),
    ("ligature", re.compile("[\ufb00-\ufb06]"), None),
    ("empty cell", _DOTTED_CELL, EMPTY_CELL),
    ("dot leader", _LEADER, " … "),
    ("no-break hyphen", re.compile("\u2011"), "-"),  # TeX's fonts map every hyphen to it, at line ends, too
    ("white space", re.compile("[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"), " "),
    ("white space", re.compile("(?<![ \t])  (?![ \t])"), " "),
    ("white space", re.compile("\t[ \t]*| [ \t]{2,}"), "  "),  # separates the cells of a table
    ("styled letters", re.compile("[\u210e\U0001d400-\U0001d7ff]+"), None),  # of formulas: italic, bold and others
)
"""Kinds of repairs, what is replaced, and by what; None: the compatible letters."""
_SUSPECT = re.compile("[^ -~‘’“”–—•]|  |[._]{5}|[.] [.]")


@page_by_page
def characters(page: Sequence[Line], edits: list[Edit]) -> list[Line]:
    """Remove controls, invisible characters and escape sequences; replace ligatures, dot leaders, runs of space."""
    fixed = []
    for line in page:
        body = line.text.removesuffix(HYPHEN)
        if text := plain_characters(body, line.page, edits).strip():
            fixed.append(line._replace(text=text + line.text[len(body) :]))
    return fixed


def plain_characters(text: str, page: int, edits: list[Edit]) -> str:
    """One line repaired like that; its repairs are added to `edits`."""
    if not _SUSPECT.search(text):
        return text
    for kind, pattern, substitute in _CHARACTERS:

        def change(match: re.Match[str], kind: str = kind, substitute: str | None = substitute) -> str:
            after = normalize("NFKC", match[0]) if substitute is None else substitute
            edits.append(Edit(kind, page, match[0], after))
            return after

        text = pattern.sub(change, text)
    return text
