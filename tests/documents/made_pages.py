"""Web pages with an article and what stands around articles, whose text is known word by word.

They are written as sites write them: with and without <article> and <main>, in tables, with teasers between
paragraphs, comments, cookie banners, menus of links and footers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.documents.known.prose import Prose

_MENU = (
    *("Home", "News", "World", "Politics", "Business", "Sport", "Culture", "Weather", "Subscribe", "Sign in"),
    *("Contact", "About us", "Newsletter", "Privacy policy", "Terms of use", "Jobs", "Advertise", "Help"),
)
_COOKIES = (
    '<div id="cookie-banner" class="consent"><p>We and our partners use cookies and similar technologies to make '
    "this site work, to measure how it is used and to show advertisements that suit you. You can change your "
    'choice at any time.</p><button>Accept all</button><a href="/cookies">Settings</a></div>'
)
_PROMO = '<aside class="promo"><h3>Newsletter</h3><p>Sign up for our morning letter.</p></aside>'


class MadePage(NamedTuple):
    """`wanted` is the text of the article, `html` the page around it."""

    name: str
    html: str
    wanted: str


class _Author:
    """Writes parts of a page; those of the article, which begins with its headline, are `said`."""

    def __init__(self, seed: str) -> None:
        self._prose = Prose(seed)
        self.said: list[str] = []

    def say(self, text: str) -> str:
        self.said.append(text)
        return text

    def headline(self, tag: str = "h1", text: str = "") -> str:
        return f"<{tag}>{self.say(text or self._prose.title())}</{tag}>"

    def sentence(self) -> str:
        return self.say(self._prose.sentence())

    def paragraph(self, least: int = 2, most: int = 5) -> str:
        return " ".join(self._prose.sentence() for _ in range(self._prose.random.randint(least, most)))

    def paragraphs(self, count: int, form: str = "<p>{}</p>") -> str:
        return "".join(form.format(self.say(self.paragraph())) for _ in range(count))

    def rows(self, *rows: tuple[str, ...]) -> str:
        for row in rows:
            self.say(" ".join(filter(None, row)))
        return "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)

    # What is not of the article

    def links(self, count: int, form: str = "{}") -> str:
        names = self._prose.random.choices(_MENU, k=count)
        return " | ".join(form.format(f'<a href="/{at}">{name}</a>') for at, name in enumerate(names))

    def menu(self, tag: str = "div") -> str:
        return f'<{tag} class="menu"><ul>{self.links(14, "<li>{}</li>").replace(" | ", "")}</ul></{tag}>'

    def teasers(self, count: int, name: str = "related") -> str:
        card = '<div class="card"><h3><a href="/x">{}</a></h3><p>{}</p></div>'
        cards = (card.format(self._prose.title(), self._prose.sentence()) for _ in range(count))
        return f'<div class="{name}"><h2>More on this</h2>{"".join(cards)}</div>'

    def footer(self) -> str:
        return f"<footer><p>© 2026 The Valley Courier. All rights reserved.</p><p>{self.links(8)}</p></footer>"

    def comments(self, count: int) -> str:
        one = '<li class="comment"><div class="comment-author">Reader {}</div><div><p>{}</p></div></li>'
        made = (one.format(n, self.paragraph(1, 3)) for n in range(count))
        return f'<div id="comments"><h2>{count} comments</h2><ol class="comment-list">{"".join(made)}</ol></div>'


def _news(by: _Author) -> str:
    article = f"<article>{by.headline()}{by.paragraphs(4)}{_PROMO}{by.paragraphs(4)}</article>"
    return f"{_COOKIES}<header>{by.menu('nav')}</header><main>{article}{by.teasers(4)}</main>{by.footer()}"


def _blog(by: _Author) -> str:
    post = f'<div class="post">{by.headline("h2")}<div class="entry-content">{by.paragraphs(10)}</div></div>'
    side = f'<div id="sidebar">{by.teasers(3, "widget")}{by.menu()}</div>'
    return f'{by.menu()}<div id="content">{post}{by.comments(6)}</div>{side}{by.footer()}'


def _plain_divs(by: _Author) -> str:
    story = f'<div class="a1">{by.headline()}{by.paragraphs(9, "<div>{}</div>")}</div>'
    return f'{by.menu()}{story}<div class="b7">{by.teasers(3)}</div>{by.footer()}'


def _breaks(by: _Author) -> str:
    story = f"{by.headline()}{by.paragraphs(7, '{}<br><br>')}"
    middle = f"<tr><td width=150>{by.menu()}</td><td>{story}</td></tr>"
    around = "<tr><td colspan=2>{}</td></tr>"
    return f"<table width=100%>{around.format(by.links(10))}{middle}{around.format(by.links(6))}</table>"


def _with_table(by: _Author) -> str:
    story = f"{by.headline()}{by.paragraphs(3)}{by.headline('h2', 'The levels')}"
    levels = ("Station", "May", "June"), ("Mill", "3.20", ""), ("Bridge", "", "1.10"), ("Weir", "2.75", "2.60")
    story += f"<table>{by.rows(*levels)}</table>{by.paragraphs(2)}{by.headline('h2', 'What comes next')}"
    story += f"<ul>{''.join(f'<li>{by.sentence()}</li>' for _ in range(4))}</ul>{by.paragraphs(2)}"
    return f"{_COOKIES}{by.menu('nav')}<article>{story}</article>{by.teasers(5)}{by.footer()}"


def _short(by: _Author) -> str:
    article = f"<article>{by.headline()}{by.paragraphs(4)}</article>"
    return f"<header>{by.menu()}</header>{article}{by.teasers(8)}{by.footer()}"


def _manual(by: _Author) -> str:
    story = by.headline()
    for n in range(1, 13):
        command = f"<pre>{by.say(f'specextend --level {n}')}\n{by.say(f'specextend --mill {n}')}</pre>"
        story += f"{by.headline('h2')}{by.paragraphs(1)}{command}"
    return f'<div class="sphinxsidebar">{by.menu()}</div><div class="body" role="main">{story}</div>{by.footer()}'


def _report(by: _Author) -> str:
    """Nothing but text: chapters, lists and notes, none of which may go."""
    chapters = (
        f"{by.headline('h2')}{by.paragraphs(5)}<ol><li>{n}. See {by.sentence()}</li></ol>" for n in range(0, 60, 5)
    )
    return by.headline() + "".join(chapters)


def _wiki(by: _Author) -> str:
    """A box of facts before the text, marks of notes in it, and the notes at its end."""
    box = f'{by.headline()}<table class="infobox">{by.rows(("Length", "210 km"), ("Source", "The High Moor"))}</table>'
    marked = '<p>{}<sup class="reference"><a href="#cite_note-1">[1]</a></sup></p>'
    text = f"{by.paragraphs(4, marked)}{by.headline('h2', 'History')}{by.paragraphs(5, marked)}"
    notes = "".join(f'<li id="cite_note-{n}">{by.sentence()}</li>' for n in range(1, 10))
    text += f'{by.headline("h2", "References")}<ol class="references">{notes}</ol>'
    return f'<div>{by.menu()}</div><div id="content">{box}<div class="mw-parser-output">{text}</div></div>{by.footer()}'


def _forum(by: _Author) -> str:
    """A question and its answers, which are no less of it."""
    post = '<div class="post-row"><div class="post-text"><p>{}</p></div></div>'
    return f"{by.menu()}{by.headline()}<div class=thread>{by.paragraphs(7, post)}</div>{by.footer()}"


_KINDS = (_news, _blog, _plain_divs, _breaks, _with_table, _short, _manual, _report, _wiki, _forum)


def made_pages(each: int = 5) -> Iterator[MadePage]:
    """`each` pages of every kind, the same in every run."""
    for kind in _KINDS:
        for number in range(each):
            author = _Author(f"{kind.__name__} {number}")
            body = kind(author)
            head = f'<head><meta charset="utf-8"><title>{author.said[0]} - The Valley Courier</title></head>'
            html = f'<!DOCTYPE html><html lang="en">{head}<body>{body}</body></html>'
            yield MadePage(f"{kind.__name__[1:]}-{number}", html, "\n".join(author.said))
