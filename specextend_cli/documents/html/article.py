"""Which elements of a web page are outside of its article, as menus, teasers and comments are.

trafilatura finds the article. The texts of the page are numbered before, so that those of the article are known, and
are read as on any other page.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from copy import deepcopy
from itertools import takewhile
from typing import Any

from lxml import etree

from specextend_cli.documents.markup import name
from specextend_cli.documents.sections import Parsed

OUTSIDE = "outside the article"
SECONDS = 20.0
"""To find the article; a page on which it takes longer is read whole."""
_MIN_WORDS = 40  # of the paragraphs of an article
_LONG = 30_000  # words; of longer pages, which are reports, books and lists, only links and labels are left out
_MAX_TEXTS = 1 << 16
_PROSE = 15  # words of a paragraph
_LABEL = 8  # words
_CELL = 60  # words; a table with larger cells may be the layout of a page
_LINKED = 0.5  # of the words of menus and teasers
_SKIPS = 2  # links to the text and the search of a page
_WARN_SHARE, _WARN_WORDS = 0.1, 300  # of the words of a page: a warning is given where more are left out
_INLINE = "a abbr b big br cite code del em font i ins kbd label mark math q s small span strike strong sub sup u"
_RAW = "iframe noscript script style svg template title"
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\u2800-\u28ff\ufffe\uffff]")  # the signs, and no text of XML
_DIGITS = re.compile("[\u2800-\u28ff]")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_Text = tuple[Any, str]  # an element, and "text" or "tail"


def outside_of_article(root: Any) -> set[Any]:
    """The elements outside of the article of a page; none where it has no article, or is one as a whole."""
    texts = _texts(root)
    numbers = _extracted(_numbered(root, texts)) if len(texts) <= _MAX_TEXTS else set()
    article = {_block(_holder(*texts[at])) for at in numbers if at < len(texts)}
    own, words, linked = Counter[Any](), Counter[Any](), Counter[Any]()
    contents = _contents(root)
    links = {element for link in root.iter("a") if link not in contents for element in link.iter("*")}
    for holder, count in ((_holder(*text), len(_WORD.findall(getattr(*text)))) for text in texts):
        own[_block(holder)] += count
        words[holder] += count
        linked[holder] += count * (holder in links)
    for element in reversed(list(root.iter("*"))):
        words[element.getparent()] += words[element]
        linked[element.getparent()] += linked[element]
    menus = {element for element, count in words.items() if linked[element] > _LINKED * count}
    prose = Counter({block: count for block, count in own.items() if count >= _PROSE and block not in menus})
    inside = sum(count for block, count in prose.items() if block in article)
    if inside < _MIN_WORDS:
        return set()
    kept = {around for block in article for around in (block, *block.iterancestors())}
    main = max(article, key=own.__getitem__).getparent()  # what contains its longest paragraph
    before = takewhile(lambda element: element not in article, root.iter("*"))
    headline = [element for element in before if element.tag == "h1" and words[element]][-1:]
    for part in (*headline, *root.iter("blockquote", "dl", "ol", "pre", "table", "ul")):
        data = part in kept and part.tag == "table" and all(words[cell] <= _CELL for cell in part.iter("td", "th"))
        if data or (part.getparent() is main and part not in menus) or part.tag in ("blockquote", "h1", "pre"):
            kept.update(part.iter("*"), part.iterancestors())
    for heading in reversed(list(root.iter("h2", "h3", "h4", "h5", "h6"))):
        if next((other for other in heading.itersiblings() if words[other]), None) in kept:
            kept.update(heading.iter("*"), heading.iterancestors())
    left = {part for part in root.iter("*") if part not in kept and words[part] and part.getparent() in kept}
    left -= {part for part in left if name(part) in _INLINE.split() and _block(part) in article}
    if not any(element in menus for part in left for element in part.iter("*")):
        return set()
    return {part for part in left if part in menus or words[part] < _LABEL} if words[root] > _LONG else left


def _contents(root: Any) -> set[Any]:
    """The links that lead within the page and are near others that do: those of a table of contents."""
    inner = [link for link in root.iter("a") if re.match("#.", link.get("href", ""))]
    near = Counter(_block(link).getparent() for link in inner)
    return {link for link in inner if near[_block(link).getparent()] > _SKIPS}


def _holder(element: Any, place: str) -> Any:
    """The element that a text is in."""
    return element if place == "text" else element.getparent()


def _block(element: Any) -> Any:
    """The element itself or the nearest one around it that is not inline."""
    while name(element) in _INLINE.split() and element.getparent() is not None:
        element = element.getparent()
    return element


def _texts(root: Any) -> list[_Text]:
    """The texts of a page that are read, in order of the elements."""
    texts, raw = list[_Text](), set[Any]()
    for element in root.iter("*"):
        if element.getparent() in raw or name(element) in _RAW.split():
            raw.add(element)
        texts += [(element, place) for place in ("text", "tail") if _WORD.search(getattr(element, place) or "")]
    return [text for text in texts if _holder(*text) not in raw]


def _numbered(root: Any, texts: list[_Text]) -> str:
    """The page with the number of each text before it, as two signs that are no words and stay as they are."""
    at = {element: number for number, element in enumerate(root.iter("*"))}
    copies = list(deepcopy(root).iter("*"))
    for element in copies:
        element.attrib.pop("colspan", None)  # trafilatura repeats every spanned cell
        element.attrib.pop("rowspan", None)
    for number, (element, place) in enumerate(texts):
        signs = chr(0x2800 + (number >> 8)) + chr(0x2800 + (number & 0xFF))
        setattr(copies[at[element]], place, signs + _UNSAFE.sub("", getattr(element, place)))
    page: str = etree.tostring(copies[0], method="html", encoding="unicode")
    return page


class _TooLate(BaseException):
    """More time than that is not given to trafilatura, which handles every Exception."""


def _stop(*_: object) -> None:
    raise _TooLate


def _extracted(page: str) -> set[int]:
    """The numbers of the texts that the article of a numbered page has, by trafilatura."""
    import trafilatura

    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        found: Any = trafilatura.bare_extraction(page, include_comments=False)
    except (Exception, _TooLate):  # whatever fails in it, the page is read without it
        found = None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    signs = [] if found is None or found.body is None else _DIGITS.findall("".join(found.body.itertext()))
    return {(ord(high) - 0x2800 << 8) + ord(low) - 0x2800 for high, low in zip(signs[::2], signs[1::2], strict=False)}


def warn(parsed: Parsed, name: str) -> None:
    """Say how many words of a page were left out, where they are many."""
    dropped = sum(len(_WORD.findall(edit.before)) for edit in parsed.edits if edit.kind == OUTSIDE)
    total = dropped + sum(len(_WORD.findall(text)) for section in parsed.sections for _, text in section.items)
    if dropped and dropped >= min(_WARN_SHARE * total, _WARN_WORDS):
        parsed.warnings.append(
            f"{name} is read as an article: {dropped:,} of its {total:,} words were left out (menus, teasers, comments "
            "and the like around it)."
        )
