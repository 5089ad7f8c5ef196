"""Repairs of text as files hold it, each a function from pages of lines to pages of lines and the list of its edits.

None of them changes what a page says: they remove what is printed around the text, put back together what the line
end took apart, and replace characters that only a printer needs. `tidy` applies them in order.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import HYPHEN, Line

Pages = Sequence[Sequence[Line]]
Repaired = tuple[list[list[Line]], list[Edit]]
Repair = Callable[[Pages], Repaired]

# --------------------------------------------------------------------------------------------------- characters

_CHARACTERS: tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        "escape sequence",
        re.compile(
            r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
            r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # OSC and its kin: titles, links
            r"|\x1b[ -/]*[0-~]"
        ),
        "",
    ),
    ("control character", re.compile(rf"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff](?<!{HYPHEN})|{HYPHEN}(?!$)"), ""),
    ("soft hyphen", re.compile("\u00ad"), ""),
    (
        # Marks of direction and tags can make a terminal or a reader show other text than the model sees. Joiners
        # stay inside words of scripts (and emoji) that need them.
        "invisible character",
        re.compile(
            "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
            "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
        ),
        "",
    ),
    ("unreadable character", re.compile("[\ud800-\udfff]"), "\ufffd"),
    ("ligature", re.compile("[\ufb00-\ufb06]"), lambda match: _LIGATURES[ord(match[0]) - 0xFB00]),
    ("dot leader", re.compile(r"\s*(?:(?:[.·…_]){5,}|(?:\s[.·…]){3,})[\s.·…]*"), " … "),
    ("white space", re.compile(r"[\u2028\u2029\x85\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]"), " "),
    ("white space", re.compile(r"[ \t]{3,}|\t"), "  "),  # columns of a table, kept apart
    ("white space", re.compile(r"(?<=\S)[ ]{2}(?=\S)(?<=[^|] {2})"), "  "),
)
_LIGATURES = ("ff", "fi", "fl", "ffi", "ffl", "st", "st")
