"""reStructuredText to Markdown: titles, directives, literal blocks, roles and references.

The text of a directive is kept, whatever its name, unless directives of this name hold none: then it becomes a comment,
which the cleaning of Markdown leaves out and counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import dedent

_ADORNMENT = re.compile(r"([!-/:-@[-`{-~])\1+\s*")
_EXPLICIT = re.compile(r"\.\.(?: +(.*))?")
_NOTE = re.compile(r"\[([#*]?[\w.-]*)\] ?(.*)")
_TARGET = re.compile(r"_(?:[^:`]|`[^`]*`)*:(?: |$)|__(?: |$)")
_SUBSTITUTION = re.compile(r"\s*\.\. +\|([^|]+)\| +replace:: *(.*)")
_DIRECTIVE = re.compile(r"(?:\|[^|]+\| +)?(?:[\w+-]+:)?([\w+-]+) ?::(?: +(.*))?")
_OPTION = re.compile(r"\s*:[\w -]+:(?: |$)")
_FIELD = re.compile(r":([^\W_][^:`]*): +(.*)")
_CODE = frozenset(("code", "code-block", "doctest", "highlight", "math", "parsed-literal", "sourcecode", "testcode"))
_NOTICES = {
    *("attention", "caution", "danger", "deprecated", "error", "hint", "important", "note", "seealso", "tip"),
    *("versionadded", "versionchanged", "warning"),
}
_NAMED = frozenset(("class", "container", "figure", "only", "rst-class"))  # their arguments are no text
_EMPTY = {  # hold no text that is read
    *("autoclass", "autofunction", "automodule", "contents", "currentmodule", "default-role", "footer", "header"),
    *("image", "include", "index", "literalinclude", "meta", "module", "raw", "role", "sectnum", "tabularcolumns"),
    *("target-notes", "testsetup", "toctree", "unicode"),
}
_INLINE = re.compile(
    r"``(?P<literal>.+?)``"
    r"|(?P<role>:[\w:.+-]{1,60}:)?`(?P<text>[^`]+)`(?P<end>__?(?!\w)|:[\w:.+-]{1,60}:)?"
    r"|\[#?(?P<note>[\w.*-]{1,60})\]_(?!\w)"
    r"|\|(?P<name>[^|\s](?:[^|\n]{0,60}[^|\s])?)\|_{0,2}"
    r"|(?<![\w`*])(?P<word>[^\W_](?:[\w.-]{0,60}[^\W_])?)__?(?![\w`])",
    re.DOTALL,
)
_ADDRESS = re.compile(r"<[^<>]*>$")
_DEEPEST = 20  # blocks in blocks


def as_markdown(text: str) -> str:
    """The Markdown of a reStructuredText."""
    lines = text.expandtabs(8).split("\n")
    return "\n".join(_Converter(lines).blocks(lines))


class _Converter:
    """The `styles` are those of titles, by level."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._styles: list[tuple[str, bool]] = []
        self._names = {name[1]: name[2] for name in map(_SUBSTITUTION.fullmatch, lines) if name}
        self._depth = 0

    def blocks(self, lines: Sequence[str]) -> Iterator[str]:
        """The lines of some blocks as Markdown."""
        if self._depth == _DEEPEST:
            yield from lines
            return
        self._depth += 1
        yield from self._blocks(lines)
        self._depth -= 1

    def _blocks(self, lines: Sequence[str]) -> Iterator[str]:
        at = 0
        while at < len(lines):
            if not lines[at].strip():
                yield ""
                at += 1
            elif title := self._title(lines, at):
                level, text, size = title
                yield from ("", f"{'#' * min(level, 6)} {self._inline(text)}", "")
                at += size
            elif found := _EXPLICIT.fullmatch(lines[at].strip()):
                body, end = _indented(lines, at)
                if not found[1] and body[:1] == [""]:  # an empty comment, which ends a block
                    body, end = [], at + 1
                yield from self._explicit(found[1] or "", body)
                at = end
            else:
                end = at + 1
                while end < len(lines) and lines[end].strip() and not _EXPLICIT.fullmatch(lines[end].strip()):
                    end += 1
                paragraph = "\n".join(lines[at:end])
                at = end
                if paragraph.rstrip().endswith("::"):
                    code, at = _indented(lines, at - 1)
                    paragraph = re.sub(r"(\s|^)::\s*$|:(?=:\s*$)", "", paragraph).rstrip()
                    yield from (self._paragraph(paragraph), "", *_fenced(code), "")
                else:
                    yield self._paragraph(paragraph)

    def _title(self, lines: Sequence[str], at: int) -> tuple[int, str, int] | None:
        """The level and the text of a title, and its number of lines."""
        first, second, third = (lines[k] if k < len(lines) else "" for k in (at, at + 1, at + 2))
        over = _ADORNMENT.fullmatch(first) is not None
        text, under = (second, third) if over else (first, second)
        mark = _ADORNMENT.fullmatch(under)
        if not mark or not text.strip() or _ADORNMENT.fullmatch(text) or (over and first.strip() != under.strip()):
            return None
        if not over and (text[0] == " " or len(under.strip()) < min(len(text.strip()), 4)):
            return None
        style = (mark[1], over)
        if style not in self._styles:
            self._styles.append(style)
        return self._styles.index(style) + 1, text.strip(), 2 + over

    def _explicit(self, text: str, body: list[str]) -> Iterator[str]:
        """A note, a target, a directive or a comment: what follows ".. " and the lines below it."""
        if note := _NOTE.fullmatch(text):
            yield from ("", f"[{note[1].lstrip('#')}] {self._inline(note[2])}", *self.blocks(body), "")
        elif _TARGET.match(text) or _SUBSTITUTION.fullmatch(f".. {text}"):
            return
        elif directive := _DIRECTIVE.fullmatch(text):
            yield from self._directive(directive[1].lower(), directive[2] or "", text, body)
        else:
            yield from _comment(text, body)

    def _directive(self, name: str, argument: str, text: str, body: list[str]) -> Iterator[str]:
        if name in _EMPTY:
            yield from _comment(text, body)
            return
        options = 0
        while options < len(body) and _OPTION.match(body[options]):
            options += 1
        if name in _CODE:
            yield from ("", *_fenced([argument] * (name == "math") + body[options:]), "")
            return
        label = f"{name.capitalize()}:" if name in _NOTICES else ""
        first = label if name in _NAMED else f"{label} {argument}".strip()
        yield from ("", self._inline(first), *self.blocks(body[options:]), "")

    def _paragraph(self, text: str) -> str:
        if text.lstrip().startswith((">>>", "+-", "+=")):  # a session of Python, or a table
            return text
        lines = (
            re.sub(r"^(\s*)\| ?", r"\1", line) if re.match(r"\s*\|(?: [^|]*)?$", line) else line
            for line in text.split("\n")
        )
        fields = (f"{found[1]}: {found[2]}" if (found := _FIELD.fullmatch(line)) else line for line in lines)
        return self._inline("\n".join(fields))

    def _inline(self, text: str) -> str:
        def plain(match: re.Match[str]) -> str:
            if match["literal"]:
                return f"`{match['literal']}`"
            if match["text"]:
                if not (match["role"] or match["end"]):
                    return match[0]
                text = _ADDRESS.sub("", match["text"]).rstrip() or match["text"]
                prefix = f"{match['role'][1:-1].upper()} " if match["role"] in (":pep:", ":rfc:") else ""
                return prefix + (text.rpartition(".")[2] if text[0] == "~" else text.removeprefix("!"))
            if match["note"]:
                return f"[{match['note']}]"
            if match["name"]:
                return self._names.get(match["name"], match[0])
            return match["word"] or ""

        return _INLINE.sub(plain, text).replace("\\ ", "")


def _indented(lines: Sequence[str], at: int) -> tuple[list[str], int]:
    """The block below line `at` that is indented more, and where it ends."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    end = last = at + 1
    while end < len(lines):
        line = lines[end]
        if line.strip():
            if len(line) - len(line.lstrip()) <= indent:
                break
            last = end + 1
        end += 1
    return dedent("\n".join(lines[at + 1 : last])).split("\n") if last > at + 1 else [], last


def _fenced(lines: Sequence[str]) -> list[str]:
    body = "\n".join(lines).strip("\n")
    fence = "```" if "```" not in body else "~~~~~~"
    return [fence, body, fence] if body else []


def _comment(text: str, body: Sequence[str]) -> list[str]:
    whole = " ".join((text, *map(str.strip, body))).strip()
    return ["", f"<!-- {whole.replace('-->', '→')} -->", ""] if whole else []
