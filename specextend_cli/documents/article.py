"""The article of a web page: which of its items are read, and which are menus, teasers, comments and the like.

trafilatura says what the article is; what is read are our own items of it, with their tables, lists and formulas.
A page that it finds no article in, or of whose text it would leave out the better part, stays whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from specextend_cli.documents.markup import html_root
from specextend_cli.documents.sections import Kind, Parsed

OUTSIDE = "outside the article"
_SHORTEST, _LONGEST = 80, 30_000  # words of a page with an article; longer ones are reports and books
_MOST_MARKUP = 8_000_000  # characters
_RUN = 4  # words in a row that are no coincidence
_LABEL = 8  # words: "Advertisement", "Read more", "Sign up for our letter"
_ALIKE = 0.5  # of the runs of an item
_PROSE = 25  # words of an item that is no label, button or headline
_TOLD = 0.1  # of the words of a page: who leaves out more has to say so
_TOLD_WORDS = 300
_SPANS = re.compile(r"\b(?:col|row)span\b", re.IGNORECASE)  # it writes out every cell that they stand for
_BETWEEN_LINKS = re.compile(r"[\t\n|/·•»›→]")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")

Words = tuple[str, ...]
Item = tuple[Kind, str, Words]


def article_of(parsed: Parsed, markup: str, name: str) -> Parsed:
    """`parsed` without what is outside of its article, which is noted as removed; the same where it has none."""
    items = [(kind, text, _words(text)) for section in parsed.sections for kind, text in section.items]
    total = sum(len(words) for _, _, words in items)
    if not _SHORTEST <= total <= _LONGEST or len(markup) > _MOST_MARKUP:
        return parsed
    found = _extracted(markup)
    if found is None:
        return parsed
    body, comments = found
    links = _links(markup)
    kept = _chosen(items, body, comments, links, set(_words(parsed.title)))
    around = [item for item, keep in zip(items, kept, strict=True) if not keep]
    if not any(_is_linked(text, links) or (words and comments.has(words)) for _, text, words in around):
        return parsed  # there are no menus, teasers and comments
    if not _is_article(items, kept, comments):
        return parsed
    return _without(parsed, kept, name, total)


def _extracted(markup: str) -> tuple[_Told, _Told] | None:
    """What trafilatura takes for the text of the article, and for comments on it; None where there is none."""
    import trafilatura

    try:
        found: Any = trafilatura.bare_extraction(
            _SPANS.sub("data-span", markup), include_comments=True, include_tables=True
        )
    except Exception:  # a page that it cannot deal with, in whatever way, is read without it
        return None
    if found is None or getattr(found, "body", None) is None:
        return None
    comments = getattr(found, "commentsbody", None)
    return _Told(_blocks(found.body)), _Told([] if comments is None else _blocks(comments))


class _Told:
    """The words of some text, by whole blocks and by runs."""

    def __init__(self, blocks: Iterable[Words]) -> None:
        self._blocks = set(blocks)
        everything = [word for block in sorted(self._blocks) for word in (*block, "")]
        self._runs = set(_runs(everything))

    def has(self, words: Words) -> bool:
        """Whether it has these words: most runs of them, or a block of nothing else."""
        if len(words) < _RUN:
            return words in self._blocks
        runs = list(_runs(words))
        return sum(run in self._runs for run in runs) >= _ALIKE * len(runs)


def _blocks(root: Any) -> Iterator[Words]:
    """The words of each paragraph, item, cell, row and heading."""
    for element in root.iter():
        if element.tag in ("p", "head", "item", "cell", "row", "quote", "code", "ab"):
            if words := _words(" ".join(element.itertext())):
                yield words
        elif element.tag == "lb" and (words := _words(element.tail or "")):
            yield words


def _links(markup: str) -> set[Words]:
    """The words of each link."""
    root = html_root(markup)
    return set() if root is None else {_words("".join(link.itertext())) for link in root.iter("a")}


def _is_linked(text: str, links: set[Words]) -> bool:
    """Whether most of an item is links."""
    cells = [words for words in map(_words, _BETWEEN_LINKS.split(text)) if words]
    return 0 < sum(map(len, cells)) <= 2 * sum(len(words) for words in cells if words in links)


def _is_data(text: str, links: set[Words]) -> bool:
    """Whether it is a row of cells, and no menu."""
    return sum(any(map(str.isalnum, cell)) for cell in text.split("\t")) > 1 and not _is_linked(text, links)


def _is_own(run: Sequence[Item], comments: _Told, links: set[Words]) -> bool:
    """Whether items in a row that were left out are lists and paragraphs of its own: menus and teasers are links."""
    if any(_is_linked(text, links) or (words and comments.has(words)) for _, text, words in run):
        return False
    return sum(len(words) for kind, _, words in run if kind != "heading") >= _LABEL


def _chosen(items: Sequence[Item], body: _Told, comments: _Told, links: set[Words], title: set[str]) -> list[bool]:
    """Which items are of the article. Tables are kept wherever they stand: figures must not vanish."""
    kept = [
        kind != "heading" and bool(words) and (body.has(words) or _is_data(text, links)) for kind, text, words in items
    ]
    if True not in kept:
        return kept
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    for run in [list(run) for keep, run in groupby(range(len(items)), key=kept.__getitem__) if not keep]:
        own = _is_own([items[at] for at in run], comments, links)
        for at in run:
            kind, text, words = items[at]
            prose = first < at < last and len(words) >= _PROSE and not _is_linked(text, links)
            kept[at] = kind != "heading" and (own or prose)
    follows = False  # whether the next item that is no heading is kept
    for at in range(len(items) - 1, -1, -1):
        kind, _, words = items[at]
        if kind == "heading":
            named = len(title & set(words)) >= _ALIKE * len(set(words)) if at < first else body.has(words)
            kept[at] = follows or (named and at < last)
        else:
            follows = kept[at]
    return kept


def _is_article(items: Sequence[Item], kept: Sequence[bool], comments: _Told) -> bool:
    """Whether the text that is kept outweighs the text that is left out, comments aside."""
    inside = outside = 0
    for (_, _, words), keep in zip(items, kept, strict=True):
        if len(words) < _PROSE:
            continue
        if keep:
            inside += len(words)
        elif not comments.has(words):
            outside += len(words)
    return inside >= max(outside, _SHORTEST)


def _without(parsed: Parsed, kept: Sequence[bool], name: str, total: int) -> Parsed:
    """The items that are kept, in sections of their own; sections without any are gone."""
    left = Parsed(parsed.kind, parsed.title, warnings=parsed.warnings)
    removed = iter(parsed.removed)
    choice = iter(kept)
    waiting = next(removed, None)
    dropped = 0
    for number, section in enumerate(parsed.sections, 1):
        left.begin()
        while waiting is not None and waiting[1] <= number:
            left.remove(waiting[0], waiting[2])
            waiting = next(removed, None)
        for kind, text in section.items:
            if next(choice):
                left.add(kind, text)
            else:
                left.remove(OUTSIDE, text)
                dropped += len(_words(text))
    if dropped >= min(_TOLD * total, _TOLD_WORDS):
        left.warnings.append(
            f"{name} is read as an article: {dropped:,} of its {total:,} words were left out (menus, teasers, comments "
            "and the like around it); --full-page keeps them."
        )
    return left


def _words(text: str) -> Words:
    """Without case; every character of Chinese, Japanese and Korean is one."""
    return tuple(_WORD.findall(text.casefold()))


def _runs(words: Sequence[str]) -> Iterator[int]:
    return (hash(tuple(words[at : at + _RUN])) for at in range(max(len(words) - _RUN + 1, 1)))
