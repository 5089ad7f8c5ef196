"""Of a web page its article is read, and what was left out is said."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from specextend_cli.documents.html import article as article_module
from specextend_cli.documents.html.article import OUTSIDE, outside_of_article
from specextend_cli.documents.markup import html_root
from specextend_cli.documents.read import read_bytes
from tests.documents.known.other_files import html_files
from tests.documents.made_files import epub, message, page

NEWS = next(file for file in html_files() if file.kind == "news")
HTML = NEWS.data.decode()


def test_what_is_left_out_is_said() -> None:
    document = read_bytes("page.html", NEWS.data)
    assert "cookies" not in document.text
    assert document.text.startswith(NEWS.truth.heads[0])
    (warning,) = document.extraction.warnings
    count = sum(len(re.findall(r"\w+", edit.before)) for edit in document.extraction.edits if edit.kind == OUTSIDE)
    assert warning.startswith(f"page.html is read as an article: {count} of its ")
    assert warning.endswith("and the like around it).")
    assert document.extraction.changes[OUTSIDE] > 5


SENTENCE = (
    "The council of the town heard both sides on three evenings and ordered that the weir be built anew before winter."
)
LISTED = "".join(
    f"<li><a href=https://{code}.example/x>{code.title()} wiki</a></li>" for code in ("de", "fr", "it") * 9
)
CARDS = "".join(
    f"<div class=card><a href=/{n}><h3>Headline number {n} of today</h3></a><ul><li>By THE STAFF<li>11/{n}</ul></div>"
    for n in range(12)
)


@pytest.mark.parametrize("paragraphs", [8, 1_900])  # of a long page text is never left out
@pytest.mark.parametrize(
    "junk",
    [
        f"<div class=x><label>27 languages</label><ul>{LISTED}</ul></div>",
        "<div><a href=/f>Share this page</a> <a href=/m>Mail it</a> <a href=/p>Print it</a></div>",
        "<div class=author><a href=/ann>All texts by Ann Smith</a></div>",
        "",
    ],
)
def test_what_is_around_an_article_is_left_out(junk: str, paragraphs: int) -> None:
    story = "".join(f"<p>{n}. {SENTENCE}</p>" for n in range(paragraphs))
    latest = f"<div class=latest><h1>More</h1>{CARDS}<nav>Home</nav></div>"
    more = junk if paragraphs > 8 else junk + latest
    main = f"<main><header><h1>The weir</h1>{junk}</header><div>{story}</div></main>"
    body = f"<a href=#b>Skip to content</a>{main}{more}"
    document = read_bytes("a.html", f"<html><title>The weir - Wiki</title><body>{body}".encode())
    assert document.text.split("\n\n") == ["The weir", *(f"{n}. {SENTENCE}" for n in range(paragraphs))]
    assert paragraphs > 8 or document.extraction.changes["navigation"] == 1  # in what is left out, too


def test_contents_of_a_long_page_are_of_the_article() -> None:
    contents = "".join(f"<li><a href=#part{n}>Part {n} of the story</a></li>" for n in range(90))
    story = "".join(f"<h2 id=part{n}>Part {n} of the story</h2>{f'<p>{SENTENCE}</p>' * 20}" for n in range(90))
    body = f"<div><ul>{LISTED}</ul></div><h1>The weir</h1><div><ul>{contents}</ul></div><div>{story}</div>"
    text = read_bytes("a.html", f"<html><title>The weir</title><body>{body}".encode()).text
    assert text.startswith("The weir\n\n- Part 0 of the story\n- Part 1 of the story")


def test_rows_with_links_are_data_and_rows_of_links_are_not() -> None:
    ann, bo = "<a href=/x>Ann Bates</a>", "<a href=/y>Bo Alden</a>"
    menu = f"<nav><a href=/>Home</a></nav><table><tr><td>{ann}</td><td>{bo}</td></tr></table>"
    founders = f"<tr><th>Founders</th><td><ul><li>{ann}</li><li>{bo}</li></ul></td></tr>"
    box = f"<table>{founders}<tr><th>Seat</th><td>{ann}</td></tr></table>"
    story = "".join(f"<p>{n}. {SENTENCE}</p>" for n in range(12))
    body = (
        f"{menu}<article><h1>The weir</h1>{box}<p>By Ann</p><div>{story}</div></article><div><a href=/b>Sold</a></div>"
    )
    text = read_bytes("a.html", f"<html><title>The weir</title><body>{body}".encode()).text
    assert text.startswith("The weir\n\nFounders  Ann Bates; Bo Alden\nSeat  Ann Bates")


@pytest.mark.parametrize(
    "body",
    [
        f"<div>By Ann</div><h1>The weir</h1><p>{SENTENCE}</p><div class=footer>Printed in May</div>",  # without menus
        "<nav><a href=/>Home</a></nav><article><p>The river rose.</p></article><div><p>Printed in May</div>",  # short
    ],
)
def test_pages_that_stay_whole(body: str) -> None:
    assert read_bytes("a.html", f"<html><body>{body}".encode()).text.endswith("Printed in May")


def test_books_and_mail_are_never_cut() -> None:
    body = HTML.split("<body>")[1].split("</body>")[0]
    assert "cookies" in read_bytes("a.epub", epub({"a.xhtml": page(body)})).text
    assert "cookies" in read_bytes("a.eml", bytes(message(None, HTML))).text


@pytest.mark.parametrize("effect", [ValueError, MemoryError, lambda *_, **__: time.sleep(60)])
def test_a_page_that_trafilatura_cannot_read_stays_whole(effect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import trafilatura

    monkeypatch.setattr(trafilatura, "bare_extraction", Mock(side_effect=effect))
    monkeypatch.setattr(article_module, "SECONDS", 0.1)
    assert not outside_of_article(html_root(HTML))


def test_only_the_sandbox_imports_parsers(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(HTML)
    code = (
        "import sys; from specextend_cli.documents.read import read; print(len(read(sys.argv[1]).text)); "
        "print([name for name in ('trafilatura', 'lxml', 'pypdf', 'pypdfium2', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("size", [300, pytest.param(1_500, marks=pytest.mark.full)])
def test_no_page_takes_for_ever(size: int) -> None:
    for body in (
        "<p>a b c d</p>" * 5 * size,
        "<div><a>b c</a>" * 1_000 + "<p>river " * size,
        "<h2>a b</h2>" * 5 * size + "<p>c</p>",
        "<table>" + "<tr><td>1<td>2<td>3</tr>" * 3 * size + "</table>",
        "<a href=/>x y</a>" * 8 * size,
        "<table>" + "<tr><td colspan=900 rowspan=900>x<td>y</tr>" * 2 * size + "</table>",
        "<div>" * size + "river " * 500,
        "<p>river&#1; \x1b mill</p>" * size,
        "<p>\0river \ud800</p>".encode("utf-8", "replace").decode() * size,
    ):
        assert read_bytes("a.html", f"<html><body>{body}".encode()).text
