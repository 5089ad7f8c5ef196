"""PDFs by WeasyPrint: margin boxes, floats, columns, notes, forms, leaders and drop caps, as browsers make them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator

from tests.documents.known.markup import Html, page
from tests.documents.known.story import Known, Story

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of systems that have no subset library of HarfBuzz
    from weasyprint import HTML
    from weasyprint.text.fonts import FontConfiguration

HEAD = "Proceedings of the Harbour Commission"
_BASE = """
@page { size: A4; margin: 2.4cm 2.2cm; }
body { font: 10.5pt/1.35 "DejaVu Serif"; text-align: justify; hyphens: auto; }
p { margin: 0 0 0.6em; } h1 { font-size: 14pt; } h1, td, th { hyphens: none; text-align: left; }
td, th { padding: 2pt 6pt; vertical-align: middle; font-size: 9pt; } table { border-collapse: collapse; width: 100%; }
.note { float: footnote; } .spaced { letter-spacing: 0.2em; } sup { font-size: 65%; } figcaption { font-size: 9pt; }
.picture { border: 1pt solid; height: 2cm; width: 9cm; font-size: 8pt; } .picture span { margin-right: 1.5cm; }
"""
_FONTS = FontConfiguration()


def _edge(where: str, content: str) -> str:
    return f"@page {{ @{where} {{ content: {content}; font-size: 9pt; }} }}"


_NUMBER = _edge("bottom-center", "counter(page)")
_HEAD = _edge("top-center", f'"{HEAD}"')
_ALTERNATING = f"""
@page :left {{ @top-left {{ content: counter(page) "   {HEAD}"; font-size: 9pt; }} }}
@page :right {{ @top-right {{ content: "{HEAD}   " counter(page); font-size: 9pt; }} }}
"""
_CHAPTERS = "h1 { string-set: chapter content(); break-before: page; }"
_CHAPTERS += _edge("top-right", "string(chapter) '  ' counter(page)")
_DROP = "h1 + p::first-letter { float: left; font-size: 42pt; line-height: 34pt; padding-right: 4pt; }"
_MARK = ".mark { position: fixed; top: 9cm; left: 2cm; font-size: 60pt; "
_STAMP = '<div class="mark">CONFIDENTIAL</div>'
_CONTENTS = '.toc a::after { content: leader(".") target-counter(attr(href), page); } .toc { list-style: none; }'
_SPACED = "h1 { letter-spacing: 0.35em; text-transform: uppercase; font-size: 12pt; }"
_RULED = "td, th { border: 0.5pt solid; }"
_BESIDE = "figure { float: right; width: 6cm; margin: 0 0 0.5cm 0.5cm; } .picture { width: 5.5cm; }"
_COLUMNS = "body { columns: 2; column-gap: 0.8cm; font-size: 9.5pt; } h1.all { column-span: all; }"
_MEMO = "<p>To: Ada Miller<br>From: The Superintendent<br>Date: 14 March 1961<br>Subject: The third weir</p><hr>"
_FILES = (
    ("pages", "hpppp" * 3 + "•", _NUMBER + _HEAD, ""),
    ("alternating", "hpppp" * 4, _ALTERNATING, ""),
    ("chapter-heads", "hppppppp" * 4, _CHAPTERS, ""),
    ("columns", "hpppphppppchpppp", _NUMBER + _COLUMNS, f'<h1 class="all">{HEAD}</h1>'),
    ("notes", "h2222" * 3, _NUMBER + _HEAD, ""),
    ("end-notes", "h1111" * 3, _NUMBER, ""),
    ("items", "p•p#pai", _NUMBER, ""),
    ("table", "ptpepdp", "", ""),
    ("table-wrapped", "pvp", _RULED, ""),
    ("contents", "hpppp" * 6, _NUMBER + _CONTENTS, ""),
    ("figures", "pf" * 5 + "p", _NUMBER + _BESIDE, ""),
    ("figures-columns", "pf" * 5 + "p", _NUMBER + _BESIDE + _COLUMNS, ""),
    ("drop-caps", "hpppp" * 4, _NUMBER + _DROP, ""),
    ("letterspacing", "hwwpp" * 3, _NUMBER + _SPACED, ""),
    ("watermark", "hpppp" * 3, _NUMBER + _MARK + "transform: rotate(-45deg); }", _STAMP),
    ("watermark-flat", "hpppp" * 3, _NUMBER + _MARK + "}", _STAMP),
    ("memo", "pp", "", _MEMO),
    ("forms", "p", "input { width: 8cm; } p { text-align: left }", ""),
)


def _known(kind: str, story: Story, style: str, before: str) -> Known:
    truth = story.truth
    html = Html(story, linked=kind == "end-notes").body.replace("↩", "")
    if "CONFIDENTIAL" in before:
        truth.absent.append("CONFIDENTIAL")
    if kind == "letterspacing":
        truth.heads = [head.upper() for head in truth.heads]
    if kind == "contents":
        before = "".join(f'<li><a href="#c{at}">{head}</a></li>' for at, head in enumerate(truth.heads))
        for at in range(len(truth.heads)):
            html = html.replace("<h1>", f'<h1 id="c{at}">', 1)
        before = f'<ul class="toc">{before}</ul>'
    if kind == "forms":
        for at, (label, value) in enumerate(story.fields()):
            before += f'<p>{label} <input name="f{at}" type="text" value="{value}"></p>'
        before += '<p><input type="checkbox" name="b" checked> The bridge is open.</p>'
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    source = HTML(string=page(before + html, _BASE + style))
    data = source.write_pdf(font_config=_FONTS, pdf_forms=kind == "forms")
    assert data
    junk = truth.heads if kind == "chapter-heads" else {HEAD} if "counter(page)" in style else ()
    return story.known("weasyprint", kind, ".pdf", data, *junk)


def weasy_files() -> Iterator[Known]:
    for kind, recipe, style, before in _FILES:
        yield _known(kind, Story(f"{kind} printed", recipe), style, before)
