"""PDFs by typst: its own running heads, columns, notes, lists, tables, line numbers and floating figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import matplotlib
import typst

from tests.documents.known import prose
from tests.documents.known.story import Block, Known, Run, Story

HEAD = "Annual Review of the River Stations"
_PAGE = 'paper: "a4", margin: (x: 2.4cm, y: 2.6cm)'
_TEXT = '#set text(font: "Libertinus Serif", size: 10.5pt, hyphenate: true)\n#set par(justify: true)\n'
_STYLES = {
    **{"bold": "#strong[{}]", "caps": "#smallcaps[{}]", "sub": "#sub[{}]"},
    **{"super": "#super[{}]", "spaced": "#text(tracking: 0.25em)[{}]"},
}
_SIDE = "#place(left, dx: -4.2cm, block(width: 3.8cm)[#set par(justify: false)\n#set text(hyphenate: false)\n*{}*])"
_KINDS = {
    **{"heading": "= {}", "side": _SIDE, "quote": "#pad(x: 1cm, text(size: 9.5pt)[{}])"},
    "box": "#block(fill: rgb(220, 230, 250), inset: 9pt, [{}])",
}


@cache
def _compiler() -> typst.Compiler:
    return typst.Compiler(font_paths=[str(Path(matplotlib.get_data_path()) / "fonts/ttf")])


def _quoted(text: str) -> str:
    return '#"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _run(run: Run) -> str:
    marked = _STYLES.get(run.style, "{}").format(_quoted(run.text))
    return f"{marked}#footnote[{_quoted(run.note)}]" if run.note else marked


def _block(block: Block) -> str:
    runs = "".join(map(_run, block.runs))
    texts = [[f"[{_quoted(cell)}]" for cell in row] for row in block.rows]
    if block.kind == "items":
        name = "#list" if block.marker in "•–" else f'#set enum(numbering: "{block.marker}")\n#enum'
        return f"{name}({', '.join(text for [text] in texts)})"
    if block.kind == "figure":
        picture = f"rect(width: 70%, height: 2.5cm, stack(spacing: 4pt, {', '.join(texts[0])}))"
        return f"#figure({picture}, caption: [{runs}])"
    if block.kind == "table":
        cells = ", ".join(cell for row in texts[1:] for cell in row)
        columns = f"(1.4fr, {'1fr, ' * (len(texts[0]) - 1)})"
        return f"#[#set par(justify: false)\n#table(columns: {columns}, table.header({', '.join(texts[0])}), {cells})]"
    return _KINDS.get(block.kind, "{}").format(runs)


def _foot(number: str) -> str:
    return f"#set page(footer: align(center)[{number}])\n"


_NUMBER = "#context counter(page).display()"
_PLAIN = _foot(_NUMBER)
_SAME = f"#set page(header: align(center)[{HEAD}])\n"
_OTHER = "Office of Public Works and Water"
_ALTERNATING = (
    f"#set page(header: context if calc.odd(counter(page).get().first()) [{HEAD} #h(1fr) {_NUMBER}]"
    f" else [{_NUMBER} #h(1fr) {_OTHER}])"
)
_CHAPTER_HEADS = """#set page(header: context {
  let before = query(heading.where(level: 1)).filter(it => it.location().page() <= here().page())
  if before.len() > 0 [#emph(before.last().body)]
})
"""
_TWO = "#set page(columns: 2)\n#set text(size: 9.5pt)\n" + _PLAIN
_TITLE = f'#place(top + center, scope: "parent", float: true, text(size: 17pt)[*{HEAD}*])'
_FLOAT = "#set figure(placement: auto)\n"
_UNRULED = "#set table(stroke: none, align: horizon + left)\n"
_NUMBERED = '#set par.line(numbering: "1", numbering-scope: "page")\n#set par(leading: 1em)\n'
_MARK = "#set page(background: rotate(45deg, text(70pt, fill: gray.lighten(40%))[CONFIDENTIAL]))\n"
_SPACED = "#show heading: it => text(tracking: 0.3em, upper(it.body))\n#show heading: set text(hyphenate: false)\n"
_NEXT = "#show heading: it => { pagebreak(weak: true); it }\n"
_SLIDES = '#set page(paper: "presentation-16-9")\n#set text(size: 22pt)\n' + _NEXT
_FILES = (
    ("pages", "hpppp" * 3 + "•", _SAME + _PLAIN),
    ("pages-of", "hpppp" * 3, _SAME + _foot(f"Page {_NUMBER} of #context counter(page).final().first()")),
    ("pages-chapter", "h111" * 4, _SAME + _foot(f"3 - {_NUMBER}")),
    ("pages-roman", "h111" * 4, _SAME + _foot('#context counter(page).display("i")')),
    ("alternating", "hpppp" * 4, _ALTERNATING),
    ("chapter-heads", "hppppppp" * 5, _CHAPTER_HEADS + _NEXT + _PLAIN),
    ("columns", "hpppphppppchp1p1hppp1", _TWO + _TITLE),
    ("floats-columns", "pf" * 8, _FLOAT + _TWO),
    *((f"notes-{n}", f"h{n}{n}{n}" * 3, _SAME + _PLAIN) for n in (1, 3)),
    ("items", "p#pap–i", ""),
    ("table", "ptpeptdp", _UNRULED),
    ("table-wrapped", "pvp", _UNRULED),
    ("table-long", "pTp", _UNRULED + _PLAIN),
    ("contents", "hpppp" * 6, _PLAIN + "#outline()"),
    ("side-headings", "spp" * 6, "#set page(margin: (left: 6cm, right: 2cm))\n" + _PLAIN),
    ("line-numbers", "hppppp" * 2, _NUMBERED + _PLAIN),
    ("watermark", "hpppp" * 3, _MARK + _PLAIN),
    ("letterspacing", "hwwpp" * 3, _SPACED + _PLAIN),
    ("slides", "h•" * 6, _SLIDES + _PLAIN),
    ("small-caps", "hkkkk" * 2, _PLAIN),
    ("formulas", "mm1", ""),
    ("boxes", "hppbpqhppp", _TWO),
)
_LANGUAGES = (
    ("german", "de", prose.GERMAN, ""),
    *(("arabic", "ar", prose.ARABIC, ', font: "DejaVu Sans"'), ("hebrew", "he", prose.HEBREW, ', font: "DejaVu Sans"')),
)


def _known(kind: str, story: Story, preamble: str) -> Known:
    if kind == "letterspacing":
        story.truth.heads = [head.upper() for head in story.truth.heads]
    junk = story.truth.heads if "chapter-heads" in kind else [HEAD, _OTHER] if _NUMBER in preamble else []
    blocks = "\n\n".join(map(_block, story.blocks))
    source = f"#set page({_PAGE})\n{_TEXT}{preamble}\n\n{blocks}\n"
    data = _compiler().compile(source.encode(), format="pdf")
    assert isinstance(data, bytes)
    return story.known("typst", kind, ".pdf", data, *junk)


def typst_files() -> Iterator[Known]:
    for kind, recipe, preamble in _FILES:
        yield _known(kind, Story(kind, recipe), preamble)
    for kind, language, templates, font in _LANGUAGES:
        yield _known(kind, Story(kind, "ppppp", templates), f'#set text(lang: "{language}"{font})\n{_PLAIN}')
