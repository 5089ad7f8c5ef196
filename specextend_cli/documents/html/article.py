"""Select the article of a web page, without menus, teasers, comments and the like.

trafilatura finds the article; the items that match it are kept with their tables, lists and formulas. A page without
an article, or whose paragraphs are mostly outside of it, stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from specextend_cli.documents.markup import html_root
from specextend_cli.documents.sections import ItemKind, Parsed

OUTSIDE = "outside the article"
_MIN_WORDS, _MAX_WORDS = 80, 30_000  # of a page with an article; longer ones are reports and books
_MAX_MARKUP = 8_000_000  # characters
_NGRAM = 4  # words
_LABEL = 8  # words: "Advertisement", "Read more", "Sign up for our letter"
_MATCH = 0.5  # of the n-grams of an item
_PROSE = 25  # words of an item that is no label, button or headline
_LEAD = 30  # items between a headline and the first paragraph: standfirst, byline, caption, buttons
_NEAR = 4  # items before the first paragraph where no headline is found
_WARN_SHARE = 0.1  # of the words of a page: a warning is given where more are left out
_WARN_WORDS = 300
_SPANS = re.compile(r"\b(?:col|row)span\b", re.IGNORECASE)  # trafilatura repeats every spanned cell
_DELETED = re.compile(r"<(del|s|strike)(?:\s[^<>]{0,500})?>[^<>]{0,2000}</\1\s*>", re.IGNORECASE)  # not read
_BETWEEN_LINKS = re.compile(r"[\t\n|/·•»›→;]")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

Words = tuple[str, ...]


class _Item(NamedTuple):
    """An item of a page: whether most of it is links (each cell of it), and whether article and comments contain it."""

    kind: ItemKind
    text: str
    words: Words
    linked: bool
    all_linked: bool
    in_article: bool
    comment: bool


def article_of(parsed: Parsed, markup: str, name: str) -> Parsed:
    """`parsed` without items outside of its article, which are recorded as removed; itself where there is none."""
    texts = [(kind, text, _words(text)) for section in parsed.sections for kind, text in section.items]
    total = sum(len(words) for _, _, words in texts)
    if not _MIN_WORDS <= total <= _MAX_WORDS or len(markup) > _MAX_MARKUP or not (found := _extracted(markup)):
        return parsed
    article, comments = found
    root = html_root(markup)
    links = set() if root is None else {_words("".join(link.itertext())) for link in root.iter("a")}
    items = [
        _Item(kind, text, words, *_linked(text, links), article.has(words), comments.has(words))
        for kind, text, words in texts
    ]
    kept = _select(items, set(_words(parsed.title)))
    surrounded = any(kind == "navigation" for kind, _, _ in parsed.removed) or any(
        item.linked or item.comment for item, keep in zip(items, kept, strict=True) if not keep
    )
    return _without(parsed, kept, name, total) if surrounded and _is_article(items, kept) else parsed


def _extracted(markup: str) -> tuple[_WordIndex, _WordIndex] | None:
    """The text of the article and of its comments by trafilatura; None where there is none."""
    import trafilatura

    try:
        shown = _DELETED.sub("", _SPANS.sub("data-span", markup))
        found: Any = trafilatura.bare_extraction(shown, include_comments=True)
    except Exception:  # whatever fails in it, the page is read without it
        return None
    if found is None or found.body is None:
        return None
    return _WordIndex(_blocks(found.body)), _WordIndex(_blocks(found.commentsbody))


class _WordIndex:
    """The blocks and the n-grams of a text."""

    def __init__(self, blocks: Iterable[Words]) -> None:
        self._blocks = set(blocks)
        everything = [word for block in sorted(self._blocks) for word in (*block, "")]
        self._ngrams = set(_ngrams(everything))

    def has(self, words: Words) -> bool:
        """True if the text contains these words: most of their n-grams, or the same block where they are few."""
        if len(words) < _NGRAM:
            return words in self._blocks
        ngrams = list(_ngrams(words))
        return sum(ngram in self._ngrams for ngram in ngrams) >= _MATCH * len(ngrams)


def _blocks(root: Any | None) -> Iterator[Words]:
    """The words of each paragraph, item, cell, row and heading."""
    for element in () if root is None else root.iter():
        if element.tag in ("p", "head", "item", "cell", "row", "quote", "code", "ab"):
            if words := _words(" ".join(element.itertext())):
                yield words
        elif element.tag == "lb" and (words := _words(element.tail or "")):
            yield words


def _linked(text: str, links: set[Words]) -> tuple[bool, bool]:
    """True if most of an item is links, and whether some part of each of its cells is one."""
    cells = [[words for words in map(_words, _BETWEEN_LINKS.split(cell)) if words] for cell in text.split("\t")]
    parts = [words for cell in cells for words in cell]
    most = 0 < sum(map(len, parts)) <= 2 * sum(len(words) for words in parts if words in links)
    return most, all(any(words in links for words in cell) for cell in cells if cell)


def _belongs(run: Sequence[_Item]) -> bool:
    """True if adjacent items are lists and paragraphs of the article: menus and teasers are links."""
    words = sum(len(item.words) for item in run if item.kind != "heading")
    return words >= _LABEL and not any(item.linked or item.comment for item in run)


def _select(items: Sequence[_Item], title: set[str]) -> list[bool]:
    """Which items belong to the article. Tables are always kept, so that no figures are lost."""
    kept = []
    for item in items:
        is_data = not item.all_linked and sum(any(map(str.isalnum, cell)) for cell in item.text.split("\t")) > 1
        kept.append(item.kind != "heading" and bool(item.words) and (item.in_article or is_data))
    if True not in kept:
        return kept
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    for run in [list(run) for keep, run in groupby(range(len(items)), key=kept.__getitem__) if not keep]:
        within = first < run[0] < last
        notes = run[0] > last and all(items[at].kind in ("heading", "row") for at in run)  # at the end of the article
        own = (within or notes) and _belongs([items[at] for at in run])
        for at in run:
            prose = within and len(items[at].words) >= _PROSE and not items[at].linked
            kept[at] = items[at].kind != "heading" and (own or prose)
    lead = _lead(items, first, title)
    follows = False  # whether the next item that is no heading is kept
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if item.kind == "heading":
            named = _is_headline(item, title) if at < first else item.in_article
            kept[at] = follows or (named and at < last) or at in lead
        else:
            follows = kept[at]  # not that of the lead, whose headings are buttons as often
            kept[at] = kept[at] or at in lead
    return kept


def _is_headline(item: _Item, title: set[str]) -> bool:
    return item.kind == "heading" and len(title & set(item.words)) >= _MATCH * len(item.words)


def _lead(items: Sequence[_Item], first: int, title: set[str]) -> set[int]:
    """What stands before the first paragraph, at `first`: standfirst, byline and caption, without links and buttons."""
    near = range(first - 1, max(first - 1 - _LEAD, -1), -1)
    headline = next((at for at in near if items[at].words and _is_headline(items[at], title)), None)
    if headline is None:
        run = takewhile(lambda at: items[at].kind == "paragraph" and not items[at].linked, near[:_NEAR])
        return {at for at in run if not items[at].comment}
    return {
        at
        for at in range(headline + 1, first)
        if not items[at].linked
        and not items[at].comment
        and len(items[at].words) >= {"paragraph": 2, "heading": _LABEL}.get(items[at].kind, len(items[at].words) + 1)
    }


def _is_article(items: Sequence[_Item], kept: Sequence[bool]) -> bool:
    """True if the kept items are long enough, and their paragraphs outweigh the removed ones without comments."""
    size = inside = outside = 0
    for item, keep in zip(items, kept, strict=True):
        length = len(item.words)
        size += keep * length
        if length >= _PROSE and keep:
            inside += length
        elif length >= _PROSE and not item.comment:
            outside += length
    return size >= _MIN_WORDS and inside >= outside


def _without(parsed: Parsed, kept: Sequence[bool], name: str, total: int) -> Parsed:
    """The kept items in their sections, without sections that are empty then."""
    left = Parsed(parsed.kind, parsed.title, warnings=parsed.warnings)
    removed = {number: list(texts) for number, texts in groupby(parsed.removed, key=itemgetter(1))}
    choice, dropped = iter(kept), 0
    for number, section in enumerate(parsed.sections, 1):
        left.start_section()
        for kind, _, text in removed.get(number, ()):
            left.remove(kind, text)
        for item, text in section.items:
            if next(choice):
                left.add(item, text)
            else:
                left.remove(OUTSIDE, text)
                dropped += len(_words(text))
    if dropped >= min(_WARN_SHARE * total, _WARN_WORDS):
        left.warnings.append(
            f"{name} is read as an article: {dropped:,} of its {total:,} words were left out (menus, teasers, comments "
            "and the like around it)."
        )
    return left


def _words(text: str) -> Words:
    """The words in lower case; each Chinese, Japanese or Korean character is one."""
    return tuple(_WORD.findall(text.casefold()))


def _ngrams(words: Sequence[str]) -> Iterator[int]:
    return (hash(tuple(words[at : at + _NGRAM])) for at in range(max(len(words) - _NGRAM + 1, 1)))
