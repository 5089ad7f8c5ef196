"""Word documents, books, web pages and mail with known text, by code alone."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tests.documents.known.markup import Html, page
from tests.documents.known.story import Block, Known, Run, Story
from tests.documents.made_files import docx, epub, item, level, message, table, word
from tests.documents.made_files import page as chapter

_STYLES = word("styles", '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>')
_FORMS = {"•": ("bullet", "•"), "1.": ("decimal", "%1."), "a)": ("lowerLetter", "%1)")}
_NUMBERING = word(
    "numbering",
    "".join(
        f'<w:abstractNum w:abstractNumId="{at}">{level(0, text, form)}</w:abstractNum>'
        for at, (form, text) in enumerate(_FORMS.values())
    )
    + "".join(f'<w:num w:numId="{at}"><w:abstractNumId w:val="{at}"/></w:num>' for at in range(len(_FORMS))),
)
_PROPERTIES = {
    **{"struck": "<w:strike/>", "bold": "<w:b/>", "sub": '<w:vertAlign w:val="subscript"/>'},
    **{"super": '<w:vertAlign w:val="superscript"/>', "spaced": '<w:spacing w:val="60"/>', "caps": "<w:smallCaps/>"},
}
_MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


class Word:
    """A story as a Word document: `tracked` deletes struck words by a tracked change, `hidden` hides them."""

    def __init__(self, story: Story, *, tracked: bool = False, hidden: bool = False, more: str = "") -> None:
        self._tracked, self._hidden = tracked, hidden
        self._notes: list[str] = []
        body = "".join(map(self._block, story.blocks)) + more
        texts = (
            f'<w:footnote w:id="{at}">{self._paragraph([Run(note)])}</w:footnote>'
            for at, note in enumerate(self._notes)
        )
        self.data = docx(body, styles=_STYLES, numbering=_NUMBERING, footnotes=word("footnotes", "".join(texts)))

    def _run(self, run: Run) -> str:
        text = f'<w:t xml:space="preserve">{escape(run.text, quote=False)}</w:t>'
        properties = _PROPERTIES.get(run.style, "")
        if run.style == "struck" and self._tracked:
            return f'<w:del w:id="1"><w:r>{text.replace("w:t", "w:delText")}</w:r></w:del>'
        if run.style == "struck" and self._hidden:
            properties = "<w:vanish/>"
        made = f"<w:r><w:rPr>{properties}</w:rPr>{text}</w:r>"
        if run.note:
            made += f'<w:r><w:footnoteReference w:id="{len(self._notes)}"/></w:r>'
            self._notes.append(run.note)
        return f'<w:ins w:id="2">{made}</w:ins>' if self._tracked and len(run.text) % 2 else made

    def _paragraph(self, runs: list[Run], style: str = "") -> str:
        return f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{"".join(map(self._run, runs))}</w:p>'

    def _block(self, block: Block) -> str:
        if block.kind == "items":
            return "".join(item(escape(text), list(_FORMS).index(block.marker)) for [text] in block.rows)
        if block.kind == "table":
            return table(*(tuple(map(escape, row)) for row in block.rows))
        if block.kind == "box":
            inside = self._paragraph(block.runs)
            return f"<w:p><w:r><w:pict><w:txbxContent>{inside}</w:txbxContent></w:pict></w:r></w:p>"
        return self._paragraph(block.runs, "H1" if block.kind == "heading" else "")


def _math(base: str) -> str:
    power = f"<m:sSup><m:e><m:r><m:t>{base}</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    parts = (f"<m:{part}><m:r><m:t>{letter}</m:t></m:r></m:{part}>" for part, letter in (("num", "a"), ("den", "b")))
    return f"<w:p><m:oMath {_MATH}>{power}<m:r><m:t>=</m:t></m:r><m:f>{''.join(parts)}</m:f></m:oMath></w:p>"


def word_files() -> Iterator[Known]:
    recipes = {"report": "hppphppp•p#pa", "notes": "h222" * 3, "tables": "ptpepv", "boxes": "hpbphp"}
    recipes |= {"tracked": "hxxp" * 2, "hidden": "hxxp" * 2, "struck": "hxxp" * 2, "formulas": "m"}
    for kind, recipe in recipes.items():
        story, more = Story(kind, recipe), ""
        if kind == "formulas":
            more = _math("e") + _math("x")
            story.truth.items += ["e²=a/b", "x²=a/b"]
        made = Word(story, tracked=kind == "tracked", hidden=kind == "hidden", more=more)
        yield story.known("word", kind, ".docx", made.data)


def epub_files() -> Iterator[Known]:
    for recipe in ("hppp#", "h111#", "hppp•e", "h111•e", "hxpp•"):
        story, files = Story(recipe, recipe * 4), dict[str, str]()
        contents = "".join(f'<li><a href="c{at}.xhtml">Part {at}</a></li>' for at in range(4))
        size = len(story.blocks) // 4
        for at in range(4):
            part = Story("")
            part.blocks = story.blocks[at * size : at * size + size]
            files[f"c{at}.xhtml"] = chapter(Html(part).body)
        files["nav.xhtml"] = chapter(
            f'<nav xmlns:epub="http://www.idpf.org/2007/ops" epub:type="toc"><ol>{contents}</ol></nav>'
        )
        yield story.known("epub", f"book-{recipe}", ".epub", epub(files, aside=("nav.xhtml",)))


_NAMES = "Home News World Politics Business Sport Culture Weather Subscribe Contact Newsletter Jobs Advertise Help"
_MENU = "".join(f'<li><a href="/{name}">{name}</a></li>' for name in _NAMES.split())
_AROUND = {
    "menu": f'<div class="menu"><ul>{_MENU}</ul></div>',
    "share": '<ul class="share"><li><a href="/f">Share on Facebook</a></li><li><a href="/t">Tweet this</a></li></ul>',
    "footer": "<footer><p>© The Valley Courier. All rights reserved.</p></footer>",
    "promo": '<aside class="promo"><h3>Newsletter</h3><p>Sign up for our morning letter.</p></aside>',
    "cookies": '<div id="cookie-banner"><p>We and our partners use cookies and similar technologies to make this site '
    "work, to measure how it is used and to show advertisements that suit you. You can change your choice at any time."
    '</p><button>Accept all</button><a href="/cookies">Settings</a></div>',
}
_ABSENT = ("Share on Facebook", "Tweet this", "Politics", "cookies", "rights reserved", "morning letter")
_CARD = '<div class="card"><h3><a href="/a">{}</a></h3></div>'
_COMMENT = '<li class="comment"><div class="comment-author">Reader</div><p>{}</p></li>'
_MATHML = "<p><math><msup><mi>e</mi><mn>2</mn></msup><mo>=</mo><mfrac><mi>a</mi><mi>b</mi></mfrac></math></p>"
_HIDING = ('<p style="display: none">{}</p>', '<p class="gone">{}</p>', "<p hidden>{}</p>")
_PAGES = {
    # The recipe of a story, and the page around it.
    "article": ("hpppphpp•", "<nav>{menu}</nav><article>{story}</article>{share}"),
    "article-notes": ("h1111h11•", "<nav>{menu}</nav><article>{story}</article>{share}"),
    "among-headlines": ("hpp", "<nav>{menu}</nav><main>{story}</main><aside>{teasers}</aside>"),
    "tables": ("ptpe", "{story}"),
    "formulas": ("hxpm", f"{{story}}{_MATHML}"),
    "hidden": ("hpppphpppp", "{story}"),
    "news": (
        "hpppphpp",
        "{cookies}<header>{menu}</header><main><article>{story}{promo}</article>{teasers}</main>{footer}",
    ),
    "blog": (
        "hpppppp",
        '{menu}<div id="content"><div class="post">{story}</div><div id="comments"><ol>{comments}</ol></div></div>'
        '<div id="sidebar">{teasers}{menu}</div>{footer}',
    ),
    "divs": ("hpppppp", '{menu}<div class="a1">{story}</div><div class="b7">{teasers}</div>{footer}'),
    "breaks": ("hppppp", "<table width=100%><tr><td width=150>{menu}</td><td>{story}</td></tr></table>{footer}"),
    "table-article": ("hpphtphp•p", "{cookies}{menu}<article>{story}</article>{teasers}{footer}"),
    "manual": ("hp" * 9, '<div class="sphinxsidebar">{menu}</div><div role="main">{story}</div>{footer}'),
    "report": ("hppp#" * 9, "{story}"),
    "wiki": (
        "h111h11t",
        '<div>{menu}</div><div id="content"><div class="mw-parser-output">{story}</div></div>{footer}',
    ),
    "forum": ("hppppppp", "{menu}<div class=thread>{story}</div>{footer}"),
}


def html_files() -> Iterator[Known]:
    for kind, (recipe, form) in _PAGES.items():
        story = Story(kind, recipe)
        html, absent, prose = Html(story), story.truth.absent, story.prose
        teasers, comments = ([prose.title() for _ in range(8)], [prose.sentence() for _ in range(6)])
        absent += _ABSENT
        absent += teasers if "teasers" in form else []
        absent += comments if "comments" in form else []
        body, style = html.body, ""
        if kind == "formulas":
            story.truth.items.append("e²=a/b")
        elif kind == "hidden":
            gone = [prose.sentence() for _ in range(9)]
            absent += gone
            html.blocks[3:3] = [_HIDING[at % 3].format(escape(text)) for at, text in enumerate(gone)]
            body, style = "".join(html.blocks), ".gone { display: none; }"
        elif kind in ("divs", "forum"):
            body = body.replace("<p>", '<div class="post"><div>').replace("</p>", "</div></div>")
        elif kind == "breaks":
            body = body.replace("<p>", "").replace("</p>", "<br><br>")
        cards, said = ("".join(map(one.format, texts)) for one, texts in ((_CARD, teasers), (_COMMENT, comments)))
        source = page(form.format(story=body, teasers=cards, comments=said, **_AROUND), style)
        yield story.known("html", kind, ".html", source.encode())


def _plain(story: Story, sign: str = "") -> str:
    return "\n".join(f"{sign}{line}" for block in story.blocks for line in (block.text, ""))


def eml_files() -> Iterator[Known]:
    for kind in ("reply-above", "reply-below"):
        one, other = Story("reply", "pp"), Story("notice", "pp")
        parts = [_plain(one), f"On Mon, 2 Mar 2026 at 10:00, Bo wrote:\n{_plain(other, '> ')}"]
        both = (one, other)
        if kind == "reply-below":
            both = (other, one)
            parts.reverse()
        one.truth.sentences = [sentence for story in both for sentence in story.truth.sentences]
        yield one.known("mail", kind, ".eml", message("\n".join(parts)).as_bytes())
    one, other, third = Story("html", "hpphpp•c"), Story("both", "hpppp"), Story("attachment", "pp")
    yield one.known("mail", "html", ".eml", message(None, page(Html(one).body)).as_bytes())
    yield other.known("mail", "both", ".eml", message(_plain(other), page(Html(other).body)).as_bytes())
    attached = message(_plain(third), cte="base64", plan_bin=b"\x00\x01" * 400)
    yield third.known("mail", "attachment", ".eml", attached.as_bytes())


def other_files() -> Iterator[Known]:
    yield from word_files()
    yield from epub_files()
    yield from html_files()
    yield from eml_files()
