"""What a mail quotes: a message below the sender's own text, or lines above an answer.

A message that is quoted at the end begins a section, whose heading is its subject, or who wrote it and when.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from specextend_cli import toml
from specextend_cli.documents.sections import ItemKind

_LANGUAGES = toml.loads((Path(__file__).parent / "quotes.toml").read_text(encoding="utf-8")).values()
_WORDS = {
    key: "|".join(filter(None, (language.get(key) for language in _LANGUAGES)))
    for key in ("sender", "subject", "others", "line", "forwarded", "on", "wrote", "wrote_by")
}
_SENDER, _SUBJECT, _NAME = (
    rf"[*_]{{0,2}}(?:{names})[*_]{{0,2}}[ \u00a0]?:"
    for names in (_WORDS["sender"], _WORDS["subject"], "{sender}|{subject}|{others}".format(**_WORDS))
)
_LINE = r"\n[> \t]*[^\s>][^\n]*"
_FIELDS = rf"{_NAME}[^\n]*(?:(?:(?!\n[> \t]*{_NAME}){_LINE}){{0,2}}\n{{1,2}}[> \t]*{_NAME}[^\n]*){{2,12}}"
_SEPARATOR = r"(?i:-{{2,}} ?(?:{line}) ?-{{2,}}|(?:{forwarded}) ?:)[ \t]*$".format(**_WORDS)
_WROTE = r"\b(?:(?:{wrote}) ?:|(?:{wrote_by})\b[^:\n]{{0,120}}:)[: -]*$".format(**_WORDS)
_ATTRIBUTION = rf"-{{0,5}} ?(?:(?:{_WORDS['on']})\b|\d)[^\n]*(?:{_LINE}){{0,2}}?{_WROTE}"
_GAP = r"[> \t\n]*\n[> \t]*"
_HEAD = re.compile(
    rf"^[> \t]*(?:{_SEPARATOR}(?:{_GAP}{_ATTRIBUTION})?(?:{_GAP}{_FIELDS})?|{_ATTRIBUTION}(?:{_GAP}{_FIELDS})?"
    rf"|{_FIELDS})",
    re.MULTILINE,
)
_BETWEEN, _FROM, _TITLE, _WRITTEN = (
    re.compile(rf"^[> \t]*{what}", re.MULTILINE)
    for what in (_SEPARATOR, _SENDER, rf"{_SUBJECT}[*_]{{0,2}}(.*)", _ATTRIBUTION)
)
_OWN = re.compile(r"^[ \t]*[^\s>]", re.MULTILINE)
_MARKS = re.compile(r"[ \t]?((?:>[ \t]?)*)(.*)")
_MAYBE = re.compile(rf"{_SEPARATOR}|{_SENDER}|{_ATTRIBUTION}", re.MULTILINE)


def with_quotes(text: str) -> list[tuple[ItemKind, str]]:
    """The items of a text: "plain" or, what is quoted, "quote"; a message at the end begins with a heading and rows."""
    own = max((found.start() for found in _OWN.finditer(text)), default=-1)
    items, at, ends = list[tuple[ItemKind, str]](), 0, False
    for head in _HEAD.finditer(text):
        fields, title = head[0], _TITLE.search(head[0])
        is_sure = _BETWEEN.match(fields) or (title and _FROM.search(fields))
        if is_sure:
            begins = ends or own < head.end() or not fields.rpartition("\n")[2].lstrip().startswith(">")
        else:
            begins = not ends and own < head.end() and _WRITTEN.match(fields) is not None
        if begins:
            items += _marked(text[at : head.start()], quoted=ends)
            written = fields.split("\n") if is_sure else [" ".join(fields.split())]
            rows = [line.lstrip("> \t").rstrip() for line in written]
            subject = title[1].strip() if title else ""
            rows = [row for row in rows if row and not (subject and _TITLE.match(row))]
            items.append(("heading", subject or rows.pop(0)))
            items += [("row", row) for row in rows]
            at, ends = head.end(), True
    return items + _marked(text[at:], quoted=ends)


def html_with_quotes(items: Sequence[tuple[ItemKind, str]]) -> list[tuple[ItemKind, str]]:
    """The items of an HTML text; from what may be the head of a quoted message on as in a text."""
    start = next((at for at, (_, text) in enumerate(items) if _MAYBE.match(text)), len(items))
    groups = groupby(items[start:], key=lambda item: item[0] == "row")
    parts = (("\n" if are_rows else "\n\n").join(text for _, text in group) for are_rows, group in groups)
    return [*items[:start], *with_quotes("\n\n".join(parts))]


def _marked(text: str, *, quoted: bool) -> list[tuple[ItemKind, str]]:
    """Lines to items. A paragraph of quoted lines has its marks once, and ends where another depth begins."""
    lines, items = filter(None, map(_MARKS.match, text.split("\n"))), list[tuple[ItemKind, str]]()
    for is_quote, group in groupby(lines, key=lambda line: quoted or bool(line[1])):
        written, depth = list[str](), 0
        for line in group:
            now, body = line[1].count(">"), line[2]
            if written and now != depth:
                written.append("")
            goes_on = bool(written and written[-1].strip())
            written.append(body if goes_on or not body.strip() else "> " * now + body)
            depth = now
        items.append(("quote" if is_quote else "plain", "\n".join(written)))
    return items
