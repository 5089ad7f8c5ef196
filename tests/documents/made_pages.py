"""Web pages with an article and what stands around articles, whose text is known word by word.

Each is (name, page, the words of the article). They are written as sites write them: with and without <article> and
<main>, in tables, with teasers between paragraphs, comments, cookie banners, menus of links and footers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WORDS = re.findall(r"[a-z]{1,12}", (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8").lower())
_MENU = (
    *("Home", "News", "World", "Politics", "Business", "Sport", "Culture", "Weather", "Subscribe", "Sign in"),
    *("Contact", "About us", "Newsletter", "Privacy policy", "Terms of use", "Jobs", "Advertise", "Help"),
)


class MadePage(NamedTuple):
    """`wanted` is the text of the article, `html` the page around it."""

    name: str
    html: str
    wanted: str


class _Author:
    """Sentences drawn with one seed."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)

    def sentence(self) -> str:
        """As many words as sentences have, as often as English has them."""
        words = self._chance.sample(_WORDS, self._chance.randint(8, 22))
        return f"{' '.join(words).capitalize()}, {self._chance.randint(2, 999)}."

    def paragraph(self, least: int = 2, most: int = 5) -> str:
        return " ".join(self.sentence() for _ in range(self._chance.randint(least, most)))

    def title(self) -> str:
        return " ".join(self._chance.sample(_WORDS, self._chance.randint(4, 9))).capitalize()

    def links(self, count: int) -> list[str]:
        return [f'<a href="/{self._chance.randint(1, 9999)}">{self._chance.choice(_MENU)}</a>' for _ in range(count)]


def _menu(author: _Author, tag: str = "div") -> str:
    return f'<{tag} class="menu"><ul>{"".join(f"<li>{link}</li>" for link in author.links(14))}</ul></{tag}>'


def _teasers(author: _Author, count: int, name: str = "related") -> str:
    cards = (
        f'<div class="card"><h3><a href="/x">{author.title()}</a></h3><p>{author.sentence()}</p></div>'
        for _ in range(count)
    )
    return f'<div class="{name}"><h2>More on this</h2>{"".join(cards)}</div>'


def _footer(author: _Author) -> str:
    return (
        f"<footer><p>© 2026 The Valley Courier. All rights reserved.</p><p>{' | '.join(author.links(8))}</p></footer>"
    )


def _cookies() -> str:
    return (
        '<div id="cookie-banner" class="consent"><p>We and our partners use cookies and similar technologies to make '
        "this site work, to measure how it is used and to show advertisements that suit you. You can change your "
        'choice at any time.</p><button>Accept all</button><a href="/cookies">Settings</a></div>'
    )


def _comments(author: _Author, count: int) -> str:
    one = (
        '<li class="comment"><div class="comment-author">Reader {}</div><div class="comment-body"><p>{}</p></div></li>'
    )
    made = (one.format(n, author.paragraph(1, 3)) for n in range(count))
    return f'<div id="comments"><h2>{count} comments</h2><ol class="comment-list">{"".join(made)}</ol></div>'


def _page(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title} - The Valley Courier</title></head>'
        f"<body>{body}</body></html>"
    )


def _story(author: _Author, paragraphs: int) -> tuple[str, list[str]]:
    return author.title(), [author.paragraph() for _ in range(paragraphs)]


def _set(paragraphs: list[str]) -> str:
    return "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)


def _news(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 8)
    middle = f'<aside class="promo"><h3>Newsletter</h3><p>Sign up for our morning letter.</p></aside>{_set(story[4:])}'
    body = (
        f"{_cookies()}<header>{_menu(author, 'nav')}</header><main><article><h1>{title}</h1>{_set(story[:4])}{middle}"
        f"</article>{_teasers(author, 4)}</main>{_footer(author)}"
    )
    return title, body, "\n".join([title, *story])


def _blog(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 10)
    body = (
        f'{_menu(author)}<div id="content"><div class="post"><h2 class="entry-title">{title}</h2>'
        f'<div class="entry-content">{_set(story)}</div></div>{_comments(author, 6)}</div>'
        f'<div id="sidebar">{_teasers(author, 3, "widget")}{_menu(author)}</div>{_footer(author)}'
    )
    return title, body, "\n".join([title, *story])


def _plain_divs(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 9)
    divs = "".join(f"<div>{paragraph}</div>" for paragraph in story)
    around = f'<div class="b7">{_teasers(author, 3)}</div>{_footer(author)}'
    body = f'{_menu(author)}<div class="a1"><h1>{title}</h1>{divs}</div>{around}'
    return title, body, "\n".join([title, *story])


def _breaks(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 7)
    text = "<br><br>".join(story)
    body = (
        f"<table width=100%><tr><td colspan=2>{' '.join(author.links(10))}</td></tr><tr><td width=150>"
        f"{_menu(author)}</td><td><h1>{title}</h1>{text}</td></tr>"
        f"<tr><td colspan=2>{' | '.join(author.links(6))}</td></tr></table>"
    )
    return title, body, "\n".join([title, *story])


def _with_table(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 7)
    rows = [("Station", "May", "June"), ("Mill", "3.20", ""), ("Bridge", "", "1.10"), ("Weir", "2.75", "2.60")]
    table = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    points = [author.sentence() for _ in range(4)]
    listed = "".join(f"<li>{point}</li>" for point in points)
    body = (
        f"{_cookies()}{_menu(author, 'nav')}<article><h1>{title}</h1>{_set(story[:3])}<h2>The levels</h2>"
        f"<table>{table}</table>{_set(story[3:5])}<h2>What comes next</h2><ul>{listed}</ul>{_set(story[5:])}</article>"
        f"{_teasers(author, 5)}{_footer(author)}"
    )
    cells = [" ".join(filter(None, row)) for row in rows]
    parts = [title, *story[:3], "The levels", *cells, *story[3:5], "What comes next", *points, *story[5:]]
    return title, body, "\n".join(parts)


def _short(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 4)
    around = _teasers(author, 8) + _footer(author)
    body = f"<header>{_menu(author)}</header><article><h1>{title}</h1>{_set(story)}</article>{around}"
    return title, body, "\n".join([title, *story])


def _manual(author: _Author) -> tuple[str, str, str]:
    title, story = _story(author, 12)
    sections = "".join(
        f"<h2>{n}. {author.title()}</h2><p>{paragraph}</p><pre>specextend --level {n}\nspecextend --mill {n}</pre>"
        for n, paragraph in enumerate(story, 1)
    )
    wanted = sections.replace("</h2><p>", "\n").replace("</p><pre>", "\n").replace("</pre><h2>", "\n")
    main = f'<div class="body" role="main"><h1>{title}</h1>{sections}</div>'
    body = f'<div class="sphinxsidebar">{_menu(author)}</div>{main}{_footer(author)}'
    return title, body, f"{title}\n{wanted.replace('<h2>', '').replace('</pre>', '')}"


def _report(author: _Author) -> tuple[str, str, str]:
    """Nothing but text: chapters, lists and notes, none of which may go."""
    title, story = _story(author, 60)
    parts = [title]
    body = f"<h1>{title}</h1>"
    for n in range(0, 60, 5):
        heading, note = author.title(), f"{n}. See {author.sentence()}"
        body += f"<h2>{heading}</h2>{_set(story[n : n + 5])}<ol><li>{note}</li></ol>"
        parts += [heading, *story[n : n + 5], note]
    return title, body, "\n".join(parts)


def _wiki(author: _Author) -> tuple[str, str, str]:
    """A box of facts before the text, marks of notes in it, and the notes at its end."""
    title, story = _story(author, 9)
    facts = [("Length", "210 km"), ("Source", "The High Moor"), ("Mouth", "The Grey Sea")]
    box = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in facts)
    mark = '<sup class="reference"><a href="#cite_note-{0}">[{0}]</a></sup>'
    marked = [paragraph + mark.format(number) for number, paragraph in enumerate(story, 1)]
    notes = [author.sentence() for _ in story]
    listed = "".join(f'<li id="cite_note-{number}">{note}</li>' for number, note in enumerate(notes, 1))
    body = (
        f'<div id="mw-navigation">{_menu(author)}</div><div id="content"><h1>{title}</h1><div class="mw-parser-output">'
        f'<table class="infobox">{box}</table>{_set(marked[:4])}<h2>History</h2>{_set(marked[4:])}<h2>References</h2>'
        f'<ol class="references">{listed}</ol></div></div>{_footer(author)}'
    )
    parts = [title, *map(" ".join, facts), *story[:4], "History", *story[4:], "References"]
    return title, body, "\n".join([*parts, *(f"{number}. {note}" for number, note in enumerate(notes, 1))])


def _forum(author: _Author) -> tuple[str, str, str]:
    """A question and its answers, which are no less of it."""
    title = author.title()
    posts = [author.paragraph(2, 5) for _ in range(7)]
    listed = "".join(f'<div class="post-row"><div class="post-text"><p>{post}</p></div></div>' for post in posts)
    body = f"{_menu(author)}<h1>{title}</h1><div class=thread>{listed}</div>{_footer(author)}"
    return title, body, "\n".join([title, *posts])


_KINDS = (_news, _blog, _plain_divs, _breaks, _with_table, _short, _manual, _report, _wiki, _forum)


def made_pages(each: int = 5) -> Iterator[MadePage]:
    """`each` pages of every kind, the same in every run."""
    for kind in _KINDS:
        for number in range(each):
            author = _Author(f"{kind.__name__} {number}")
            title, body, wanted = kind(author)
            yield MadePage(f"{kind.__name__[1:]}-{number}", _page(title, body), wanted)
