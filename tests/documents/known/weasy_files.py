"""PDFs by WeasyPrint: margin boxes, floats, columns, notes, forms, leaders and letters beside a drop cap, as browsers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from itertools import count

from tests.documents.known import prose
from tests.documents.known.markup import Html, page
from tests.documents.known.story import Known, Run, Story

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of systems that have no subset library of HarfBuzz
    from weasyprint import HTML
    from weasyprint.text.fonts import FontConfiguration

HEAD = "Proceedings of the Harbour Commission"
OTHER_HEAD = "Records of the Measuring Office"
_BASE = """
@page { size: A4; margin: 2.4cm 2.2cm; }
body { font: 10.5pt/1.35 "DejaVu Serif"; text-align: justify; hyphens: auto; }
p { margin: 0 0 0.6em; } h1 { font-size: 14pt; } h1, td, th { hyphens: none; text-align: left; }
td, th { padding: 2pt 6pt; vertical-align: middle; font-size: 9pt; } table { border-collapse: collapse; width: 100%; }
.note { float: footnote; } .spaced { letter-spacing: 0.2em; } .caps { font-variant: small-caps; }
.box { background: #dde; padding: 6pt; border: 1pt solid #88a; } blockquote { margin: 0.6em 1.2cm; font-size: 9.5pt; }
.picture { border: 1pt solid; height: 2cm; width: 9cm; font-size: 8pt; } .picture span { margin-right: 1.5cm; }
sup { font-size: 65%; } figure { margin: 0.6em 0; } figcaption { font-size: 9pt; }
"""
_FONTS = FontConfiguration()


def printed(body: str, style: str = "", *, language: str = "en", forms: bool = False) -> bytes:
    """The PDF of a body."""
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    html = HTML(string=page(body, _BASE + style, language=language))
    data = html.write_pdf(font_config=_FONTS, pdf_forms=forms)
    assert data
    return data


def _edge(where: str, content: str, more: str = "") -> str:
    return f"@page {{ @{where} {{ content: {content}; font-size: 9pt; {more} }} }}"


_NUMBER = _edge("bottom-center", "counter(page)")
_HEAD = _edge("top-center", f'"{HEAD}"')
_ALTERNATING = f"""
@page :left {{ @top-left {{ content: counter(page) "   {HEAD}"; font-size: 9pt; }} }}
@page :right {{ @top-right {{ content: "{OTHER_HEAD}   " counter(page); font-size: 9pt; }} }}
"""
_CHAPTERS = "h1 { string-set: chapter content(); break-before: page; } " + _edge("top-right", "string(chapter) '  ' counter(page)")
_DROP = "h1 + p::first-letter { float: left; font-size: 42pt; line-height: 34pt; padding-right: 4pt; }"
_SIDE = "@page { margin-left: 6cm; } .side { float: left; width: 3.4cm; margin-left: -4cm; font-weight: bold; text-align: left; hyphens: none; }"
_MARK = """.mark { position: fixed; top: 9cm; left: 2cm; font-size: 60pt; color: #ccc; transform: rotate(-45deg); }"""
_FLAT_MARK = ".mark { position: fixed; top: 10cm; left: 1cm; font-size: 64pt; color: #ddd; }"
_CONTENTS = """.toc a::after { content: leader(".") target-counter(attr(href), page); } .toc { list-style: none; }"""
_SPACED = "h1 { letter-spacing: 0.35em; text-transform: uppercase; font-size: 12pt; }"
_RULED = "td, th { border: 0.5pt solid; }"
_CENTRED = _RULED + "td { text-align: center; } td, th { width: 25%; }"
_BESIDE = "figure { float: right; width: 6cm; margin: 0 0 0.5cm 0.5cm; } .picture { width: 5.5cm; }"
_COLUMNS = "body { columns: 2; column-gap: 0.8cm; font-size: 9.5pt; } h1.all { column-span: all; }"
_SLIDES = "@page { size: 25.4cm 14.3cm; } body { font-size: 20pt; } h1 { font-size: 30pt; break-before: page; }"
_MEMO = "<p>To: {}<br>From: {}<br>Date: 14 March {}<br>Subject: {}</p><hr>"


def weasy_files() -> Iterator[Known]:
    seeds = count(300)

    def story() -> Story:
        return Story(next(seeds))

    def known(kind: str, one: Story, style: str = "", *junk: str, before: str = "", language: str = "en", forms: bool = False) -> Known:
        data = printed(before + Html(one, linked=False).body, style, language=language, forms=forms)
        if _HEAD in style:
            junk = (*junk, HEAD)
        return one.known("weasyprint", kind, ".pdf", data, *junk)

    yield known("pages", story().chapters(3).items("•"), _NUMBER + _HEAD)
    yield known("pages-of", story().chapters(3), _HEAD + _edge("bottom-right", '"Page " counter(page) " of " counter(pages)'))
    yield known("pages-dashes", story().chapters(3), _HEAD + _edge("bottom-center", '"- " counter(page) " -"'))
    yield known("large-head", story().chapters(3), _NUMBER + _edge("top-left", f'"{HEAD}"', "font-size: 11pt"), HEAD)
    yield known("alternating", story().chapters(4), _ALTERNATING, HEAD, OTHER_HEAD)
    one = story().chapters(4, 7)
    yield known("chapter-heads", one, _CHAPTERS, *one.truth.heads)
    for at in range(2):
        one = story().chapters(2).table(6, columns=3).chapters(2)
        yield known(f"columns-{at}", one, _NUMBER + _COLUMNS, HEAD, before=f'<h1 class="all">{HEAD}</h1>')
    for at in range(2):
        yield known(f"notes-{at}", story().chapters(3, notes=at + 1), _NUMBER + _HEAD)
    ended = story().chapters(3, notes=1)
    yield ended.known("weasyprint", "end-notes", ".pdf", printed(Html(ended).body.replace("↩", ""), _NUMBER), HEAD)
    yield known("items", story().paragraph().items("•").paragraph().items("1.").paragraph().items("a)").items("(i)"), _NUMBER)
    yield known("table", story().paragraph().table(9, columns=5).paragraph().table(8, empty=0.3, dots=0.1))
    yield known("table-wrapped", story().paragraph().table(7, wrapped=True).paragraph(), _RULED)
    yield known("table-centred", story().paragraph().table(7, wrapped=True).paragraph(), _CENTRED)
    yield known("table-long", story().paragraph().table(70, columns=5).paragraph(), _NUMBER + _RULED)
    one = story().chapters(6)
    links = "".join(f'<li><a href="#c{at}">{head}</a></li>' for at, head in enumerate(one.truth.heads))
    body = Html(one).body
    for at in range(6):
        body = body.replace("<h1>", f'<h1 id="c{at}">', 1)
    yield one.known("weasyprint", "contents", ".pdf", printed(f'<ul class="toc">{links}</ul>{body}', _NUMBER + _CONTENTS), HEAD)
    for at, style in enumerate((_BESIDE, "", _BESIDE + _COLUMNS)):
        one = story()
        for _ in range(5):
            one.paragraph(5).figure()
        yield known(f"figures-{at}", one.paragraph(), _NUMBER + style)
    one = story()
    for _ in range(7):
        one.heading(kind="side").paragraph(6)
    yield known("side-headings", one, _NUMBER + _SIDE, HEAD)
    yield known("drop-caps", story().chapters(4), _NUMBER + _DROP)
    one = story().chapters(3, spaced=1)
    one.truth.heads = [head.upper() for head in one.truth.heads]
    yield known("letterspacing", one, _NUMBER + _SPACED)
    yield known("watermark", story().chapters(3), _NUMBER + _MARK, "DRAFT", before='<div class="mark">CONFIDENTIAL</div>')
    one = story().chapters(3)
    one.truth.absent.append("DRAFT VERSION")
    yield known("flat-watermark", one, _NUMBER + _FLAT_MARK, before='<div class="mark">DRAFT VERSION</div>')
    yield known("struck", story().paragraph(struck=2).paragraph(struck=3).paragraph(6), "p { text-align: left; }")
    yield known("formulas", story().paragraph(4, sub=True).paragraph(4, sub=True, notes=1))
    one = story().paragraph(3)
    fields = [(one.prose.place(), one.prose.name()) for _ in range(6)]
    one.truth.rows += [list(field) for field in fields]
    inputs = "".join(f'<p>{label} <input name="f{at}" type="text" value="{value}"></p>' for at, (label, value) in enumerate(fields))
    boxes = '<p><input type="checkbox" checked> The bridge is open.</p>'
    yield known("forms", one, "input { width: 8cm; } p { text-align: left }", before=inputs + boxes, forms=True)
    one = story()
    for _ in range(6):
        one.heading().items("•", 4)
    yield known("slides", one, _NUMBER + _SLIDES)
    yield known("boxes", story().chapters(1).paragraph(kind="box").paragraph().paragraph(kind="quote").chapters(1), _NUMBER)
    one = story().paragraph().paragraph()
    memo = _MEMO.format(one.prose.name(), one.prose.name(), 1961, one.prose.item())
    yield known("memo", one, before=memo)
    one = story().chapters(2)
    for block in one.blocks:
        if block.kind == "paragraph":
            words = block.runs[0].text.split(" ", 3)
            block.runs[:1] = [Run(" ".join(words[:3]), "small caps"), Run(" " + words[3])]
    yield known("small-caps", one, _NUMBER)
    for kind, language, templates, style in (
        ("german", "de", prose.GERMAN, ""),
        ("french", "fr", prose.FRENCH, ""),
        ("arabic", "ar", prose.ARABIC, "body { direction: rtl; font-family: 'DejaVu Sans' }"),
        ("hebrew", "he", prose.HEBREW, "body { direction: rtl; font-family: 'DejaVu Sans' }"),
    ):
        one = story()
        for _ in range(5):
            one.paragraph(4, templates=templates)
        yield known(kind, one, _NUMBER + style, language=language)
