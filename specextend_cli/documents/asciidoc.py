"""AsciiDoc to Markdown: titles, lists, tables, blocks, links and notes. What has no text becomes a comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TITLE = re.compile(r"(={1,6}|#{1,6}) +(\S.*)")
_ATTRIBUTE = re.compile(r":!?[\w-]+!?:(?: .*)?")
_BLOCK_ATTRIBUTES = re.compile(r"\[(?:\[[^\]]*\]|[^\]\[]*)\]")
_DELIMITER = re.compile(r"-{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|\.{4,}|/{4,}|```+|--")
_TABLE = re.compile(r"[|,:!]={3,}")
_CELL = re.compile(r"(?:^|\s)(?:\d*(?:\.\d+)?[+*])?[<^>]?(?:\.[<^>])?[adehlmsv]?\|")
_CAPTION = re.compile(r"\.([^\s.].*)")
_ITEM = re.compile(r"\s*(?:(\*{1,5}|-)|(\.{1,5}))\s+(\S.*)")
_TERM = re.compile(r"(\S.*?)(?:::{1,3}|;;)(?: +(.*))?")
_MACRO = re.compile(r"(?:image|include|video|audio|toc|ifdef|ifndef|ifeval|endif)::.*|'{3,}|<<<+")
_INLINE = re.compile(
    r"footnote(?:ref)?:[\w-]{0,50}\[(?P<note>[^\]]{0,2000})\]"
    r"|(?:link:|xref:|mailto:)[^\s\[]{0,500}\[(?P<link>[^\],]{0,500})(?:,[^\]]{0,500})?\]"
    r"|(?P<address>https?://[^\s\[]{1,500})\[(?P<text>[^\],]{0,500})(?:,[^\]]{0,500})?\]"
    r"|<<(?P<target>[^,<>]{1,200})(?:,(?P<title>[^<>]{0,200}))?>>"
    r"|\[\[[\w:.-]{1,200}\]\]|\(\(\([^()]{0,200}\)\)\)"
    r"|image:[^\s\[:]{1,500}\[[^\]]{0,500}\]"
)
_WRAPPED = re.compile(
    r"(?:footnote|link|xref|https?):[^\s\[]{0,500}\[[^\]\[\n]{0,500}\n(?!\n)[^\]\[]{0,500}\]|<<[^<>\n]{1,200}\n[^<>\n]{1,200}>>"
)
_VERBATIM = ("-", ".", "`")


def as_markdown(text: str) -> str:
    """The Markdown of an AsciiDoc text."""
    text = _WRAPPED.sub(lambda match: match[0].replace("\n", " "), text.expandtabs(8))
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    verbatim = comment = ""  # what ends the block
    in_table = False
    for line in lines:
        bare = line.strip()
        if verbatim:
            yield "```" if bare == verbatim else line
            verbatim = verbatim if bare != verbatim else ""
        elif comment:
            yield "-->" if bare == comment else line.replace("-->", "→")
            comment = comment if bare != comment else ""
        elif _TABLE.fullmatch(bare):
            in_table = not in_table
            yield ""
        elif _DELIMITER.fullmatch(bare):
            if bare[0] in _VERBATIM and bare != "--":
                verbatim = bare
                yield "```"
            elif bare[0] == "/":
                comment = bare
                yield "<!--"
            else:
                yield ""
        elif _ATTRIBUTE.fullmatch(bare) or _BLOCK_ATTRIBUTES.fullmatch(bare) or bare == "+":
            continue
        elif bare.startswith("//") or _MACRO.fullmatch(bare):
            yield from ("", f"<!-- {bare.replace('-->', '→')} -->", "")
        elif in_table:
            cells = [cell.strip() for cell in _CELL.split(line)]
            yield _inline(" | ".join(cell for cell in cells if cell))
        else:
            yield from _prose(line)


def _prose(line: str) -> Iterator[str]:
    if title := _TITLE.fullmatch(line):
        yield from ("", f"{'#' * len(title[1])} {_inline(title[2])}", "")
    elif caption := _CAPTION.fullmatch(line):
        yield from ("", _inline(caption[1]), "")
    elif item := _ITEM.fullmatch(line):
        level = len(item[1] or item[2]) - 1
        yield f"{'  ' * level}{'-' if item[1] else '1.'} {_inline(item[3])}"
    elif term := _TERM.fullmatch(line):
        yield f"{_inline(term[1])}: {_inline(term[2] or '')}".rstrip()
    else:
        yield _inline(line)


def _inline(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match["note"]:
            return f" ({match['note']})"
        return next((found for found in match.group("link", "text", "address", "title", "target") if found), "")

    return _INLINE.sub(plain, text.replace("{nbsp}", " "))
