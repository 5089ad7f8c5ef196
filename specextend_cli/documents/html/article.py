"""Find the article of a web page: which elements are outside of it, as menus, teasers and comments are.

trafilatura finds the article. Its texts are marked before, so that it is known which elements of the page they are of;
these are then read as on any other page, with their tables, lists and formulas.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from lxml import etree

from specextend_cli.documents.html.marks import HEADINGS
from specextend_cli.documents.markup import name
from specextend_cli.documents.sections import Parsed

OUTSIDE = "outside the article"
_MIN_WORDS = 80  # of a page that is asked about
_LONG = 30_000  # words; longer pages are reports, books and lists, of which no text is left out
_MAX_MARKUP = 8_000_000  # characters
_MAX_TEXTS = 1 << 16
_SHORTEST = 40  # words of the paragraphs of an article
_SHARE = 0.4  # of the words of an article that are in paragraphs; of lists and tables less are
_LABEL = 8  # words: "Advertisement", "Read more", "Sign up for our letter"
_PROSE = 15  # words of a paragraph that is no label, button or headline
_OUTSIDE = 2  # times as much prose as in the article; a page with more outside of it is an index, a forum or the like
_CELL = 60  # words; a table with larger cells may be the layout of a page
_MOST = 0.95  # of the words of an article that its innermost element contains
_LINKED, _LINKED_TABLE = 0.5, 0.8  # of the words of menus and teasers; rows of facts have many links
_WARN_SHARE = 0.1  # of the words of a page: a warning is given where more are left out
_WARN_WORDS = 300
_RAW = frozenset(("iframe", "noscript", "script", "style", "svg", "template", "title"))
_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del", "dfn", "em", "font", "i"),
    *("ins", "kbd", "label", "mark", "math", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup"),
    *("time", "tt", "u", "var", "wbr"),
}
_BESIDE = ("aside", "footer", "form", "nav")
_PICTURES = ("figcaption", "figure", "li")  # captions, and those of shows of pictures
_ENDS = frozenset('.!?:…。！？”"')
_COMMENTS = re.compile(r"comment|disqus", re.IGNORECASE)
_MARKS = re.compile("[\u2800-\u28ff]")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


_Kind = Literal["heading", "table", "list", "beside", "text"]


class _Text(NamedTuple):
    """The text in or behind an element, its number of words, the block that contains it, and whether it is a link."""

    element: Any
    place: Literal["text", "tail"]
    words: int
    block: Any
    linked: bool


@dataclass(slots=True)
class _Words:
    """The numbers of words of an element: all, in links, of the article."""

    all: int = 0
    linked: int = 0
    article: int = 0

    def add(self, other: _Words) -> None:
        self.all += other.all
        self.linked += other.linked
        self.article += other.article


class _Part(NamedTuple):
    """What is left out or read as one: a paragraph, a heading, or a list, a table and the like without the article."""

    element: Any
    kind: _Kind
    words: int
    linked: bool
    article: bool

    def is_in(self, *tags: str) -> bool:
        return any(name(near).lower() in tags for near in (self.element, *self.element.iterancestors()))

    @property
    def is_prose(self) -> bool:
        return self.kind == "text" and self.words >= _PROSE and not self.linked

    @property
    def is_comment(self) -> bool:
        around = (self.element, *self.element.iterancestors())
        return any(_COMMENTS.search(f"{near.get('class', '')} {near.get('id', '')}") for near in around)

    @property
    def container(self) -> tuple[str, str]:
        """What the element around it is called."""
        parent = self.element.getparent()
        return ("", "") if parent is None else (name(parent), parent.get("class", ""))


_KINDS: dict[str, _Kind] = {
    **dict.fromkeys(HEADINGS, "heading"),
    **dict.fromkeys(("dl", "ol", "ul"), "list"),
    **dict.fromkeys(_BESIDE, "beside"),
    "table": "table",
}


def outside_of_article(root: Any) -> set[Any]:
    """The elements outside of the article of a page, of which none contains another; none where it has no article."""
    texts = list(_texts(root))
    total = sum(text.words for text in texts)
    if total < _MIN_WORDS or len(texts) > _MAX_TEXTS:
        return set()
    words = _count(root, texts, _extracted(_marked(root, texts)))
    parts = list(_parts(root, words))
    if not any(part.article for part in parts):
        return set()
    scope = root
    while inner := [child for child in scope if words[child].article >= _MOST * words[root].article]:
        scope = inner[0]
    kept = _select(parts, set(scope.iter("*")), set(_words_of(root.findtext(".//{*}title"))))
    read = [part for part, keep in zip(parts, kept, strict=True) if keep]
    left = [part for part, keep in zip(parts, kept, strict=True) if not keep]
    inside = sum(part.words for part in read if part.is_prose)
    outside = sum(part.words for part in left if part.is_prose and not part.is_comment)
    if inside < max(_SHORTEST, _SHARE * sum(part.words for part in read)) or outside > _OUTSIDE * inside:
        return set()
    is_manual = any(next(part.element.iter("pre"), None) is not None for part in left)
    if is_manual or not any(part.linked or part.kind == "beside" for part in left):
        return set()
    if total > _LONG:
        left = [part for part in left if part.kind != "table" and (part.linked or part.words < _LABEL)]
    return {part.element for part in left}


def warn(parsed: Parsed, name: str) -> None:
    """Say how many words of a page were left out, where they are many."""
    dropped = sum(len(_words_of(text)) for kind, _, text in parsed.removed if kind == OUTSIDE)
    total = dropped + sum(len(_words_of(text)) for section in parsed.sections for _, text in section.items)
    if dropped and dropped >= min(_WARN_SHARE * total, _WARN_WORDS):
        parsed.warnings.append(
            f"{name} is read as an article: {dropped:,} of its {total:,} words were left out (menus, teasers, comments "
            "and the like around it)."
        )


def _extracted(page: str) -> set[int]:
    """The numbers of the texts that the article of a marked page has, by trafilatura."""
    import trafilatura

    try:
        found: Any = trafilatura.bare_extraction(page, include_comments=False) if len(page) <= _MAX_MARKUP else None
    except Exception:  # whatever fails in it, the page is read without it
        found = None
    signs = [] if found is None or found.body is None else _MARKS.findall("".join(found.body.itertext()))
    return {(ord(high) - 0x2800 << 8) + ord(low) - 0x2800 for high, low in zip(signs[::2], signs[1::2], strict=False)}


def _texts(root: Any) -> Iterator[_Text]:
    """The texts of a page that are read, in order of the elements."""
    linked, raw, blocks = set[Any](), set[Any](), dict[Any, Any]()
    for element in root.iter("*"):
        tag, parent = name(element).lower(), element.getparent()
        if tag == "a" or parent in linked:
            linked.add(element)
        if tag in _RAW or parent in raw:
            raw.add(element)
        blocks[element] = blocks[parent] if tag in _INLINE and parent is not None else element
        if element not in raw and (count := len(_words_of(element.text))):
            yield _Text(element, "text", count, blocks[element], element in linked)
        if parent is not None and parent not in raw and (count := len(_words_of(element.tail))):
            yield _Text(element, "tail", count, blocks[parent], parent in linked)


def _marked(root: Any, texts: list[_Text]) -> str:
    """The page with the number of each text before it, as two signs that are no words and stay as they are."""
    number = {element: at for at, element in enumerate(root.iter("*"))}
    copy = deepcopy(root)
    copies = list(copy.iter("*"))
    for element in copies:
        element.attrib.pop("colspan", None)  # trafilatura repeats every spanned cell
        element.attrib.pop("rowspan", None)
    for at, text in enumerate(texts):
        element = copies[number[text.element]]
        plain = _MARKS.sub("", getattr(element, text.place))
        setattr(element, text.place, chr(0x2800 + (at >> 8)) + chr(0x2800 + (at & 0xFF)) + plain)
    page: str = etree.tostring(copy, method="html", encoding="unicode")
    return page


def _count(root: Any, texts: list[_Text], article: set[int]) -> dict[Any, _Words]:
    """The words of each element. A block of which the article has most of the own text is whole in it."""
    own = defaultdict[Any, _Words](_Words)
    for at, text in enumerate(texts):
        own[text.block].add(_Words(text.words, 0, text.words * (at in article)))
    words = defaultdict[Any, _Words](_Words)
    for text in texts:
        block, count = own[text.block], text.words
        element = text.element if text.place == "text" else text.element.getparent()
        words[element].add(_Words(count, count * text.linked, count * (2 * block.article >= block.all)))
    for element in reversed(list(root.iter("*"))):
        if (parent := element.getparent()) is not None:
            words[parent].add(words[element])
    return words


def _parts(root: Any, words: dict[Any, _Words]) -> Iterator[_Part]:
    """The parts of a page in order; blocks around others are none, but for the text of their own."""
    around = set[Any]()  # elements that contain blocks
    walk = etree.iterwalk(root, events=("start",))
    for _, element in walk:
        tag, found = name(element).lower(), words[element]
        if (tag in _INLINE and element.getparent() not in around) or not found.all:
            continue
        blocks = [words[child] for child in element if name(child).lower() not in _INLINE and words[child].all]
        own = found.all - sum(block.all for block in blocks)
        if blocks:
            around.add(element)
        kind: _Kind = _KINDS.get(tag, "text")
        article = found.article > sum(block.article for block in blocks)
        if found.article and kind == "table":
            cells = (words[cell].all for cell in element.iter("td", "th"))
            whole = article = 2 * found.article < words[root].article or max(cells, default=0) <= _CELL
        else:
            whole = not found.article and (kind != "text" or own > 0)
        if whole or article:
            linked = found.linked > (_LINKED_TABLE if kind == "table" else _LINKED) * found.all
            if whole and kind == "text" and blocks and tag != "blockquote":
                kind = "beside"
            yield _Part(element, kind, found.all if whole else own, linked, article)
        if whole:
            walk.skip_subtree()


def _select(parts: Sequence[_Part], scope: set[Any], title: set[str]) -> list[bool]:
    """Which parts are read: those of the article, and what trafilatura misses of it.

    These are headings before its paragraphs, the lead below its headline, paragraphs in containers like those of the
    others, what is quoted between them and, within its innermost element (`scope`), tables, lists and code.
    """
    kept = [part.article for part in parts]
    bodies = [at for at, part in enumerate(parts) if part.article and part.kind != "heading"]
    first, last = (bodies[0], bodies[-1]) if bodies else (len(parts), len(parts))
    before = range(first - 1, -1, -1)
    headline = next((at for at in before if parts[at].kind == "heading" and _is_headline(parts[at], title)), first)
    containers = {part.container for part in parts if part.article and part.is_prose}
    for at, part in enumerate(parts):
        inside = part.element in scope
        if kept[at] or part.words < _LABEL or part.linked or part.is_comment:
            continue
        if part.is_prose and (part.container in containers or (first < at < last and part.is_in("blockquote"))):
            kept[at] = True
        elif part.kind == "text" and headline < at < first:
            text = "".join(part.element.itertext()).rstrip()
            kept[at] = text[-1] in _ENDS and not part.is_in(*_PICTURES)
        elif inside:
            pictures = part.kind == "list" and next(part.element.iter("img"), None) is not None
            kept[at] = (part.kind in ("list", "table") and not pictures) or name(part.element) == "pre"
    follows = False  # whether the next part that is no heading is read
    for at in range(len(parts) - 1, -1, -1):
        if parts[at].kind != "heading":
            follows = kept[at]
        elif not kept[at]:
            kept[at] = at == headline or (follows and (at > first or parts[at].element in scope))
    return kept


def _is_headline(part: _Part, title: set[str]) -> bool:
    words = _words_of("".join(part.element.itertext()))
    return 2 * sum(word in title for word in words) >= len(words)


def _words_of(text: str | None) -> list[str]:
    """The words in lower case; each Chinese, Japanese or Korean character is one."""
    return _WORD.findall(text.casefold()) if text else []
