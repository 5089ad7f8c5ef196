"""PDFs by typst: its own running heads, columns, notes, lists, tables, line numbers and floating figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

import matplotlib
import typst

from tests.documents.known import prose
from tests.documents.known.story import Block, Known, Run, Story

HEAD = "Annual Review of the River Stations"
OTHER_HEAD = "Office of Public Works and Water"
FONTS = str(Path(matplotlib.get_data_path()) / "fonts/ttf")
_PAGE = 'paper: "a4", margin: (x: 2.4cm, y: 2.6cm)'
_NUMBER = "context counter(page).display()"
_NUMBERS = {
    "plain": _NUMBER,
    "dashes": f"[– #{_NUMBER} –]",
    "of": "context [Page #counter(page).display() of #counter(page).final().first()]",
    "chapter": f"[3 - #{_NUMBER}]",
    "roman": 'context counter(page).display("i")',
}
_TEXT = '#set text(font: "Libertinus Serif", size: 10.5pt, hyphenate: true)\n#set par(justify: true)\n'


@cache
def _compiler() -> typst.Compiler:
    return typst.Compiler(font_paths=[FONTS])


def compiled(source: str) -> bytes:
    """The PDF of a source."""
    return _compiler().compile(source.encode(), format="pdf")


def _quoted(text: str) -> str:
    return '#"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _run(run: Run) -> str:
    text = _quoted(run.text)
    wrappers = {
        **{"struck": "#strike[{}]", "bold": "#strong[{}]", "small caps": "#smallcaps[{}]", "sub": "#sub[{}]"},
        **{"super": "#super[{}]", "spaced": "#text(tracking: 0.25em)[{}]"},
    }
    marked = wrappers.get(run.style, "{}").format(text)
    return f"{marked}#footnote[{_quoted(run.note)}]" if run.note else marked


def _block(block: Block, stroke: str, placement: str) -> str:
    runs = "".join(map(_run, block.runs))
    if block.kind == "heading":
        return f"{'=' * block.level} {runs}"
    if block.kind == "side":
        return f'#place(left, dx: -4.2cm, block(width: 3.8cm, text(weight: "bold", hyphenate: false)[#set par(justify: false)\n{runs}]))'
    if block.kind == "quote":
        return f"#pad(x: 1cm, text(size: 9.5pt)[{runs}])"
    if block.kind == "box":
        return f"#block(fill: rgb(220, 230, 250), inset: 9pt, [{runs}])"
    if block.kind == "items":
        function = "list" if block.marker in "•–" else f'enum.with(numbering: "{block.marker}")'
        return f"#({function})({', '.join(f'[{_quoted(text)}]' for [text] in block.rows)})".replace("#(list)", "#list")
    if block.kind == "figure":
        labels = " ".join(f"#h(1cm) {_quoted(label)}" for label in block.rows[0])
        return f"#figure(rect(width: 70%, height: 2.5cm)[{labels}], placement: {placement}, caption: [{runs}])"
    if block.kind == "table":
        head, *rows = ([f"[{_quoted(cell)}]" for cell in row] for row in block.rows)
        cells = ", ".join(cell for row in rows for cell in row)
        columns = f"({', '.join(['1.4fr', *['1fr'] * (len(head) - 1)])})"
        style = f"columns: {columns}, stroke: {stroke}, align: horizon + left"
        return f"#[#set par(justify: false)\n#table({style}, table.header({', '.join(head)}), {cells})]"
    return runs


def source(story: Story, preamble: str = "", *, number: str = "", head: str = "", stroke: str = "none", placement: str = "none") -> str:
    """The source of a story; `number` is a form of page numbers."""
    edges = ([f"header: align(center)[{head}]"] if head else []) + ([f"footer: align(center, {_NUMBERS[number]})"] if number else [])
    blocks = "\n\n".join(_block(block, stroke, placement) for block in story.blocks)
    return f"#set page({', '.join([_PAGE, *edges])})\n{_TEXT}{preamble}\n\n{blocks}\n"


_ALTERNATING = (
    f"#set page(header: context if calc.odd(counter(page).get().first()) [{HEAD} #h(1fr) #{_NUMBER}]"
    f" else [#{_NUMBER} #h(1fr) {OTHER_HEAD}])"
)
_CHAPTER_HEADS = """#set page(header: context {
  let before = query(heading.where(level: 1)).filter(it => it.location().page() <= here().page())
  if before.len() > 0 [#emph(before.last().body) #h(1fr) #counter(page).display()]
})
#show heading.where(level: 1): it => { pagebreak(weak: true); it }"""


def typst_files() -> Iterator[Known]:
    seeds = count(100)

    def story() -> Story:
        return Story(next(seeds))

    def known(kind: str, one: Story, preamble: str = "", *junk: str, **options: str) -> Known:
        if options.get("head"):
            junk = (*junk, options["head"])
        return one.known("typst", kind, ".pdf", compiled(source(one, preamble, **options)), *junk)

    for number in ("plain", "dashes", "of"):
        yield known(f"pages-{number}", story().chapters(3).items("•"), number=number, head=HEAD)
    for number in ("chapter", "roman"):
        yield known(f"pages-{number}", story().chapters(3, notes=1), number=number, head=HEAD)
    yield known("large-head", story().chapters(3), f"#set page(header: text(size: 10.5pt)[{HEAD}])", HEAD, number="plain")
    yield known("alternating", story().chapters(4), _ALTERNATING, HEAD, OTHER_HEAD)
    one = story().chapters(5, 7)
    yield known("chapter-heads", one, _CHAPTER_HEADS, *one.truth.heads)
    columns = "#set page(columns: 2)\n#set text(size: 9.5pt)\n"
    title = f"#place(top + center, scope: \"parent\", float: true, text(size: 17pt)[*{HEAD}*])"
    for at in range(3):
        one = story().chapters(2).table(5, columns=3).chapters(2, notes=1)
        yield known(f"columns-{at}", one, columns + title, HEAD, number="plain")
    for at in range(2):
        one = story()
        for _ in range(8):
            one.paragraph(5).figure()
        yield known(f"floats-{at}", one, ("", columns)[at], number="plain", placement="auto")
    for at in range(3):
        yield known(f"notes-{at}", story().chapters(3, notes=at + 2), number="plain", head=HEAD)
    yield known("items", story().paragraph().items("1.").paragraph().items("a)").paragraph().items("–").items("(i)"))
    for at, stroke in enumerate(("none", "0.5pt")):
        yield known(f"table-{at}", story().paragraph().table(9, columns=5).paragraph().table(7, empty=0.3, dots=0.1), stroke=stroke)
        yield known(f"table-wrapped-{at}", story().paragraph().table(7, wrapped=True).paragraph(), stroke=stroke)
        yield known(f"table-long-{at}", story().paragraph().table(75, columns=5).paragraph(), number="plain", stroke=stroke)
    yield known("contents", story().chapters(6), "#outline()", number="plain")
    side = "#set page(margin: (left: 6cm, right: 2cm))"
    one = story()
    for _ in range(7):
        one.heading(kind="side").paragraph(6)
    yield known("side-headings", one, side, number="plain")
    numbered = '#set par.line(numbering: "1", numbering-scope: "page")\n#set par(leading: 1em)'
    yield known("line-numbers", story().chapters(2, 5), numbered, number="plain")
    mark = '#set page(background: rotate(45deg, text(70pt, fill: gray.lighten(40%))[CONFIDENTIAL]))'
    yield known("watermark", story().chapters(3), mark, number="plain")
    yield known("struck", story().paragraph(struck=2).paragraph(struck=3).paragraph(6))
    spaced = "#show heading: it => text(tracking: 0.3em, upper(it.body))\n#show heading: set text(hyphenate: false)"
    one = story().chapters(3, spaced=1)
    one.truth.heads = [head.upper() for head in one.truth.heads]
    yield known("letterspacing", one, spaced, number="plain")
    slides = '#set page(paper: "presentation-16-9", columns: 1)\n#set text(size: 22pt)\n#show heading: it => { pagebreak(weak: true); it }'
    one = story()
    for _ in range(6):
        one.heading().items("•", 4)
    yield known("slides", one, slides, number="plain")
    yield known("formulas", story().paragraph(4, sub=True).paragraph(4, sub=True, notes=1))
    yield known("boxes", story().chapters(1).paragraph(kind="box").paragraph().paragraph(kind="quote").chapters(1), columns)
    for kind, language, templates, script in (
        ("german", "de", prose.GERMAN, ""),
        ("french", "fr", prose.FRENCH, ""),
        ("arabic", "ar", prose.ARABIC, ', font: "DejaVu Sans"'),
        ("hebrew", "he", prose.HEBREW, ', font: "DejaVu Sans"'),
    ):
        one = story()
        for _ in range(5):
            one.paragraph(4, templates=templates)
        yield known(kind, one, f'#set text(lang: "{language}"{script})', number="plain")
