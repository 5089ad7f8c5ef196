"""Word documents, books, web pages and mail with known text, by code alone."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import count

from tests.documents.known.markup import Html, page
from tests.documents.known.story import Block, Known, Run, Story
from tests.documents.made_files import docx, epub, item, message, table, word
from tests.documents.made_files import page as chapter

_STYLES = word("styles", '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>')
_FORMS = {"•": ("bullet", "•"), "1.": ("decimal", "%1."), "a)": ("lowerLetter", "%1)")}
_NUMBERING = word(
    "numbering",
    "".join(
        f'<w:abstractNum w:abstractNumId="{at}"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl></w:abstractNum>'
        for at, (form, text) in enumerate(_FORMS.values())
    )
    + "".join(f'<w:num w:numId="{at}"><w:abstractNumId w:val="{at}"/></w:num>' for at in range(len(_FORMS))),
)
_PROPERTIES = {
    **{"struck": "<w:strike/>", "bold": "<w:b/>", "sub": '<w:vertAlign w:val="subscript"/>'},
    **{
        "super": '<w:vertAlign w:val="superscript"/>',
        "spaced": '<w:spacing w:val="60"/>',
        "small caps": "<w:smallCaps/>",
    },
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


def word_files() -> Iterator[Known]:
    seeds = count(700)

    def story() -> Story:
        return Story(next(seeds))

    def known(kind: str, one: Story, made: Word) -> Known:
        return one.known("word", kind, ".docx", made.data)

    one = story().chapters(3).items("•").paragraph().items("1.").paragraph().items("a)")
    yield known("report", one, Word(one))
    one = story().chapters(3, notes=2)
    yield known("notes", one, Word(one))
    one = story().paragraph().table(9, columns=5).paragraph().table(7, empty=0.3, wrapped=True)
    yield known("tables", one, Word(one))
    for kind in ("tracked", "hidden", "struck"):
        one = story().chapters(2, struck=2)
        yield known(kind, one, Word(one, tracked=kind == "tracked", hidden=kind == "hidden"))
    one = story().chapters(1).paragraph(kind="box").chapters(1)
    yield known("boxes", one, Word(one))
    one = story().paragraph(3, sub=True)
    runs = [("e", "2"), ("x", "3")]
    formula = "".join(
        f"<w:p><m:oMath {_MATH}><m:sSup><m:e><m:r><m:t>{base}</m:t></m:r></m:e><m:sup><m:r><m:t>{power}</m:t></m:r></m:sup>"
        "</m:sSup><m:r><m:t>=</m:t></m:r><m:f><m:num><m:r><m:t>a</m:t></m:r></m:num><m:den><m:r><m:t>b</m:t></m:r></m:den>"
        "</m:f></m:oMath></w:p>"
        for base, power in runs
    )
    one.truth.items += ["e²=a/b", "x³=a/b"]
    yield known("formulas", one, Word(one, more=formula))
    one = story().paragraph()
    angle = '<w:r><w:sym w:font="Symbol" w:char="F061"/></w:r>'
    box = '<w:r><w:rPr><w:rFonts w:ascii="Wingdings"/></w:rPr><w:t>\uf0fe</w:t></w:r>'
    one.truth.items += ["The angle α was measured twice.", "☑ The bridge is open."]
    turned = f"<w:p><w:r><w:t>The angle </w:t></w:r>{angle}<w:r><w:t> was measured twice.</w:t></w:r></w:p>"
    boxed = f"<w:p>{box}<w:r><w:t> The bridge is open.</w:t></w:r></w:p>"
    yield known("symbols", one, Word(one, more=turned.replace("<w:t>", '<w:t xml:space="preserve">') + boxed))


def epub_files() -> Iterator[Known]:
    for at in range(5):
        one = Story(800 + at)
        parts: dict[str, str] = {}
        for number in range(4):
            begun = len(one.blocks)
            one.chapters(1, 3, notes=at % 2).items("1." if at < 2 else "•", 3)
            if at in (2, 3):
                one.table(5, empty=0.2)
            part = Story(0)
            part.blocks = one.blocks[begun:]
            parts[f"c{number}.xhtml"] = chapter(Html(part).body)
        contents = "".join(f'<li><a href="c{n}.xhtml">Part {n}</a></li>' for n in range(4))
        nav = chapter(f'<nav xmlns:epub="http://www.idpf.org/2007/ops" epub:type="toc"><ol>{contents}</ol></nav>')
        yield one.known("epub", f"book-{at}", ".epub", epub({**parts, "nav.xhtml": nav}, aside=("nav.xhtml",)))


_SHARE = '<ul class="share"><li><a href="/f">Share on Facebook</a></li><li><a href="/t">Tweet this</a></li></ul>'
_MENU = '<nav><ul><li><a href="/a">Home</a></li><li><a href="/b">Politics</a></li><li><a href="/c">Weather</a></li></ul></nav>'
_MATHML = "<math><msup><mi>e</mi><mn>2</mn></msup><mo>=</mo><mfrac><mi>a</mi><mi>b</mi></mfrac></math>"


def html_files() -> Iterator[Known]:
    seeds = count(900)

    def known(kind: str, one: Story, source: str, *absent: str) -> Known:
        one.truth.absent += absent
        return one.known("html", kind, ".html", source.encode())

    around = ("Share on Facebook", "Tweet this", "Politics")
    for at in range(2):
        one = Story(next(seeds)).chapters(2, notes=at).items("•")
        yield known(f"article-{at}", one, page(f"{_MENU}<article>{Html(one).body}</article>{_SHARE}"), *around)
    one = Story(next(seeds)).chapters(1, 2)
    teasers = [Story(next(seeds)).prose.title() for _ in range(8)]
    links = "".join(
        f'<div class="card"><h3><a href="/{at}">{teaser}</a></h3></div>' for at, teaser in enumerate(teasers)
    )
    yield known("among-headlines", one, page(f"{_MENU}<main>{Html(one).body}</main><aside>{links}</aside>"), *teasers)
    one = Story(next(seeds)).paragraph().table(8, columns=5, empty=0.2).paragraph()
    spans = '<table><tr><th colspan="2">Both stations</th><th>Days</th></tr><tr><td rowspan="2">Upper</td><td>a</td><td>31</td></tr><tr><td>b</td><td>32</td></tr></table>'
    one.truth.rows += [["Upper", "a", "31"], ["Upper", "b", "32"]]
    yield known("tables", one, page(Html(one).body + spans))
    for kind, hide in (
        ("hidden-style", '<p style="display: none">{}</p>'),
        ("hidden-class", '<p class="gone">{}</p>'),
        ("hidden-attribute", "<p hidden>{}</p>"),
    ):
        one = Story(next(seeds)).chapters(2)
        gone = [one.prose.sentence() for _ in range(3)]
        parts = "".join(hide.format(escape(text)) for text in gone)
        body = Html(one).blocks
        yield known(kind, one, page("".join([*body[:3], parts, *body[3:]]), ".gone { display: none; }"), *gone)
    one = Story(next(seeds)).chapters(1, struck=2).paragraph(3, sub=True)
    one.truth.items.append("e²=a/b")
    yield known("formulas", one, page(f"{Html(one).body}<p>{_MATHML}</p>"))


def eml_files() -> Iterator[Known]:
    seeds = count(1000)

    def known(kind: str, one: Story, data: bytes) -> Known:
        return one.known("mail", kind, ".eml", data)

    def quoted(story: Story) -> str:
        return "\n".join(f"> {line}" for block in story.blocks for line in (block.text, ""))

    def plain(story: Story) -> str:
        return "\n\n".join(block.text for block in story.blocks)

    for kind in ("above", "below"):
        one, other = Story(next(seeds)).paragraph(3).paragraph(2), Story(next(seeds)).paragraph(4).paragraph(4)
        said = "On Mon, 2 Mar 2026 at 10:00, Bo wrote:\n" + quoted(other)
        text = f"{plain(one)}\n\n{said}" if kind == "above" else f"{said}\n\n{plain(one)}"
        both = (one, other) if kind == "above" else (other, one)
        one.truth.sentences = [sentence for part in both for sentence in part.truth.sentences]
        yield known(f"reply-{kind}", one, message(text).as_bytes())
    one = Story(next(seeds)).chapters(2).items("•").table(5)
    yield known("html", one, message(None, page(Html(one).body)).as_bytes())
    one = Story(next(seeds)).chapters(1)
    yield known("both", one, message(plain(one), page(Html(one).body)).as_bytes())
    one = Story(next(seeds)).paragraph().paragraph()
    yield known("attachment", one, message(plain(one), cte="base64", plan_bin=b"\x00\x01" * 400).as_bytes())


def other_files() -> Iterator[Known]:
    yield from word_files()
    yield from epub_files()
    yield from html_files()
    yield from eml_files()
