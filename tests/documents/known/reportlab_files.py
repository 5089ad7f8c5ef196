"""PDFs by ReportLab: what word processors, TeX, courts, parliaments, printer drivers and old tools draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from reportlab.lib.pagesizes import A4, landscape

from tests.documents.known.sheet import DEJAVU, Look, Sheet
from tests.documents.known.story import Known, Story

HEAD = "Bulletin of the Geological Survey"
MARK = "PRELIMINARY"


def _heads(sheet: Sheet, head: str = HEAD, foot: str = "{}", size: float = 9) -> None:
    sheet.text(72, 800, head, size)
    sheet.text(290, 40, foot.format(sheet.number), size)


def _number(sheet: Sheet) -> None:
    sheet.text(760, 20, str(sheet.number), 10)


def _docket(sheet: Sheet) -> None:
    sheet.text(100, 812, f"Case 3:31-cv-02033   Document 71   {HEAD}   Page {sheet.number} of 9", 10.5)
    sheet.canvas.line(72, 790, 523, 790)


def _mark(sheet: Sheet) -> None:
    sheet.canvas.saveState()
    sheet.canvas.setFillGray(0.8)
    sheet.canvas.translate(150, 300)
    sheet.canvas.rotate(45)
    sheet.text(0, 0, MARK, 55, "Helvetica-Bold")
    sheet.canvas.restoreState()


_PLAIN = Look(decorate=_heads)
_DEJAVU = replace(_PLAIN, font=DEJAVU, size=9.5, frames=((72, 300),))
_COLUMNS = replace(_PLAIN, frames=((60, 225), (310, 225)))
_WIDE = replace(_PLAIN, leading=24, line_numbers=True)
_SIDE = replace(_PLAIN, frames=((170, 370),))
_FILES: tuple[tuple[str, str, Look], ...] = (
    ("pages", "hpppp" * 3, _PLAIN),
    ("pages-dashes", "hpppp" * 3, replace(_PLAIN, decorate=partial(_heads, foot="- {} -"))),
    ("large-head", "hpppp" * 3, replace(_PLAIN, decorate=partial(_heads, size=12))),
    *((f"hyphens-{ord(sign):x}", "hpppp" * 2, replace(_DEJAVU, hyphen=sign)) for sign in "\u2011\u2010\xad-"),
    ("columns", "hpppp" * 4, _COLUMNS),
    ("columns-by-rows", "hpppp" * 4, replace(_COLUMNS, by_rows=True)),
    ("columns-ragged", "hpppp" * 4, replace(_COLUMNS, by_rows=True, justified=False)),
    ("loose", "hpppp" * 2, replace(_COLUMNS, hyphen="")),
    ("notes", "h1111" * 3, _PLAIN),
    ("notes-late", "h2222" * 3, replace(_PLAIN, late=True)),
    ("table", "ptpepdp", _PLAIN),
    ("table-close", "ptpep", replace(_PLAIN, frames=((72, 270),), size=9.5)),
    ("table-long", "pTp", _PLAIN),
    ("table-first", "Tp", _PLAIN),
    ("table-wrapped", "pvp", _PLAIN),
    ("side-headings", "sp" * 7, _SIDE),
    ("side-headings-late", "sp" * 7, replace(_SIDE, late=True)),
    ("line-numbers", "hpppp" * 2, _WIDE),
    ("line-numbers-late", "hpppp" * 2, replace(_WIDE, late=True)),
    ("drop-caps", "hpppp" * 2, replace(_PLAIN, drop_caps=True)),
    ("drop-caps-late", "hpppp" * 2, replace(_PLAIN, drop_caps=True, late=True)),
    ("tight", "hpppp" * 2, replace(_PLAIN, draw="tight", justified=False)),
    ("accents", "hpppp" * 2, replace(_PLAIN, draw="accents")),
    ("letterspacing", "hwwpp" * 2, _PLAIN),
    ("double-strike", "hBBBB" * 2, _PLAIN),
    ("watermark", "hpppp" * 3, replace(_PLAIN, decorate=_mark)),
    ("court", "h1111qh1111qpp", replace(_PLAIN, decorate=_docket, leading=20, size=11.5, top=750)),
    ("bill", "hppp" * 4, replace(_WIDE, size=13, decorate=partial(_heads, foot="• HR 2033 IH {}"))),
    ("transcript", "pppppp", replace(_WIDE, font="Courier", size=11, justified=False, hyphen="")),
    ("turned", "hpppp" * 2 + "c", replace(_PLAIN, turned=90, page=landscape(A4), top=520, decorate=_number)),
    ("hidden", "hpppp" * 2, _PLAIN),
    ("form", "p", _PLAIN),
)


def _hidden(sheet: Sheet, story: Story) -> None:
    """Words that nobody sees: in render mode 3, white on white, under a box, and outside of the page."""
    gone = [f"{story.prose.words(3, 5)} {way}" for way in ("nowhere", "whitened", "covered", "outside")]
    story.truth.absent += gone
    sheet.canvas.saveState()
    sheet.canvas.drawString(72, 60, gone[0], mode=3)
    sheet.canvas.setFillGray(1)
    sheet.canvas.drawString(72, 48, gone[1], mode=0)
    sheet.canvas.restoreState()
    sheet.text(72, 780, gone[2])
    sheet.canvas.rect(60, 774, 460, 18, fill=1)
    sheet.text(700, 500, gone[3])


def _form(sheet: Sheet, story: Story) -> None:
    for row, (label, value) in enumerate(story.fields()):
        sheet.text(72, 400 - 30 * row, label)
        sheet.canvas.acroForm.textfield(value=value, x=250, y=395 - 30 * row, width=200, height=18, name=f"f{row}")


_BEFORE = {"hidden": _hidden, "form": _form}


def reportlab_files() -> Iterator[Known]:
    for kind, recipe, look in _FILES:
        sheet, story = Sheet(look), Story(f"{kind} drawn", recipe)
        story.truth.absent += [MARK] * (kind == "watermark")
        if kind in _BEFORE:
            _BEFORE[kind](sheet, story)
        junk = (HEAD,) if look.decorate != Look.decorate else ()
        yield story.known("reportlab", kind, ".pdf", sheet.story(story).data(), *junk)
