"""PDFs by ReportLab: what word processors, TeX, courts, parliaments, printer drivers and old tools draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from reportlab.lib.pagesizes import A4, landscape

from tests.documents.known.sheet import DEJAVU, Look, Sheet, Word, words_of
from tests.documents.known.story import Known, Run, Story
from tests.documents.raw_pdf import bitmap_font_pdf

HEAD = "Bulletin of the Geological Survey"
DOCKET = "Case 3:31-cv-02033-WHO   Document 71   Filed 03/15/31   Page {} of 9"
_TWO = ((60, 225), (310, 225))
_NARROW = ((170, 370),)
Draw = Callable[[Sheet], None]


def _heads(head: str = HEAD, form: str = "{}", size: float = 9) -> Draw:
    def draw(sheet: Sheet) -> None:
        sheet.text(72, 800, head, size)
        sheet.text(290, 40, form.format(sheet.number), size)

    return draw


def _docket(sheet: Sheet) -> None:
    sheet.text(100, 812, DOCKET.format(sheet.number), 10.5, "Helvetica")
    sheet.canvas.line(72, 790, 523, 790)


def _mark(angle: float, size: float, grey: float) -> Draw:
    def draw(sheet: Sheet) -> None:
        canvas: Any = sheet.canvas
        canvas.saveState()
        canvas.setFillGray(grey)
        canvas.translate(150, 300)
        canvas.rotate(angle)
        sheet.text(0, 0, "PRELIMINARY", size, "Helvetica-Bold")
        canvas.restoreState()

    return draw


def _hidden(sheet: Sheet, story: Story) -> None:
    """Words that nobody sees: in render mode 3, white on white, under a box, and outside of the page."""
    gone = [f"{story.prose.words(3, 5)} {way}" for way in ("nowhere", "whitened", "covered", "outside")]
    story.truth.absent += gone
    canvas: Any = sheet.canvas
    canvas.saveState()
    text = canvas.beginText(72, 60)
    text.setFont("Times-Roman", 10)
    text.setTextRenderMode(3)
    text.textOut(gone[0])
    canvas.drawText(text)
    canvas.restoreState()
    canvas.saveState()
    canvas.setFillGray(1)
    sheet.text(72, 48, gone[1])
    canvas.restoreState()
    sheet.text(72, 780, gone[2])
    canvas.rect(60, 774, 460, 18, fill=1)
    sheet.text(700, 500, gone[3])


_OT1 = {"ffi": "\x0e", "ffl": "\x0f", "ff": "\x0b", "fi": "\x0c", "fl": "\x0d", "“": "\x5c", "”": "\x22", "’": "\x27"}
_T1 = {"ffi": "\x1e", "ffl": "\x1f", "ff": "\x1b", "fi": "\x1c", "fl": "\x1d", "“": "\x10", "”": "\x11", "’": "\x27"}
_LIGATURES = {"ffi": "ﬃ", "ffl": "ﬄ", "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ"}


def _replaced(text: str, letters: dict[str, str]) -> str:
    for before, after in letters.items():
        text = text.replace(before, after)
    return text


def _bitmap(story: Story, codes: dict[str, str]) -> bytes:
    """Type 3 type without names, as TeX's bitmap fonts; capitals with accents are left to the text fonts."""
    for _ in range(4):
        story.paragraph(4)
    sheet = Sheet(Look(font="Courier"))
    lines: list[str] = []
    for block in story.blocks:
        words = words_of(block.text)
        for line in sheet.wrap(words, 75 * 6.3, "Courier", 10.5):
            lines.append(_replaced(" ".join(word.text for word in line), codes))
    return bitmap_font_pdf(lines)


def reportlab_files() -> Iterator[Known]:
    seeds = count(500)
    plain = Look(decorate=_heads())

    def story() -> Story:
        return Story(next(seeds))

    def known(kind: str, one: Story, look: Look = plain, *junk: str, before: Draw = lambda sheet: None) -> Known:
        sheet = Sheet(look)
        before(sheet)
        data = sheet.story(one).data()
        return one.known("reportlab", kind, ".pdf", data, *(junk or (HEAD,) if sheet.number > 1 else ()))

    for kind, form in (("number", "{}"), ("dashes", "- {} -"), ("page", "Page {} of 9"), ("chapter", "3 - {}")):
        yield known(f"pages-{kind}", story().chapters(3), replace(plain, decorate=_heads(form=form)))
    yield known("large-head", story().chapters(3), replace(plain, decorate=_heads(size=12)))
    for at, hyphen in enumerate(("\u2011", "\u2010", "\xad", "-")):
        look = replace(plain, font=DEJAVU, size=9.5, hyphen=hyphen, frames=((72, 300),))
        yield known(f"hyphens-{at}", story().chapters(2), look)
    for at in range(2):
        look = replace(plain, frames=_TWO, by_rows=at == 1)
        yield known(f"columns-{at}", story().chapters(4), look)
    yield known("columns-ragged", story().chapters(4), replace(plain, frames=_TWO, by_rows=True, justified=False))
    yield known("notes", story().chapters(3, notes=1), plain)
    yield known("late-marks", story().chapters(3, notes=2), replace(plain, late=frozenset(["marks"])))
    yield known("items", story().paragraph().items("•").paragraph().items("1.").paragraph().items("a)"))
    for at in range(2):
        look = replace(plain, rules=at == 1)
        yield known(f"table-{at}", story().paragraph().table(12, columns=5).paragraph().table(9, empty=0.25).paragraph(), look)
        yield known(f"table-dots-{at}", story().paragraph().table(8, dots=0.4).paragraph(), look)
        yield known(f"table-long-{at}", story().paragraph().table(90, columns=4).paragraph(), look)
    yield known("table-wrapped", story().paragraph().table(8, wrapped=True).paragraph(), replace(plain, rules=True))
    yield known("table-centred", story().paragraph().table(8, wrapped=True).paragraph(), replace(plain, rules=True, centred=True))
    for at in range(2):
        one = story()
        for _ in range(6):
            one.heading(kind="side").paragraph(6)
        yield known(f"side-headings-{at}", one, replace(plain, frames=_NARROW, late=frozenset(["sides"] if at else [])))
        yield known(f"line-numbers-{at}", story().chapters(2), replace(plain, leading=24, line_numbers=True, late=frozenset(["numbers"] if at else [])))
        yield known(f"drop-caps-{at}", story().chapters(2), replace(plain, drop_caps=True, late=frozenset(["caps"] if at else [])))
        one = story()
        for _ in range(8):
            one.paragraph(6).figure()
        yield known(f"figures-{at}", one, replace(plain, frames=_TWO if at else plain.frames))
    yield known("words", story().chapters(2), replace(plain, draw="words"))
    yield known("tight", story().chapters(2), replace(plain, draw="tight", justified=False))
    yield known("accents", story().chapters(2), replace(plain, draw="accents"))
    yield known("letterspacing", story().chapters(2, spaced=1))
    yield known("struck", story().paragraph(struck=2).paragraph(struck=3).paragraph(6))
    one = story().chapters(2)
    for block in one.blocks:
        if block.kind == "paragraph":
            words = block.runs[0].text.split(" ", 4)
            block.runs[:1] = [Run(" ".join(words[:4]), "bold"), Run(" " + words[4])]
    yield known("double-strike", one)
    one = story().chapters(2)
    yield known("hidden", one, before=lambda sheet: _hidden(sheet, one))
    for kind, angle, size, grey in (("watermark", 45, 60, 0.8), ("watermark-flat", 0, 50, 0.85)):
        one = story().chapters(3)
        one.truth.absent.append("PRELIMINARY")
        yield known(kind, one, replace(plain, decorate=_mark(angle, size, grey)), "PRELIMINARY")
    court = replace(plain, decorate=_docket, leading=20, size=11.5, font="Times-Roman", top=750)
    one = story().chapters(1, notes=1).paragraph(kind="quote").chapters(1, notes=1).paragraph(kind="quote").paragraph(8)
    yield known("court", one, court, "Case 3:31-cv-02033-WHO")
    bill = replace(plain, leading=25, line_numbers=True, size=13, decorate=_heads("H.R. 2033", "• HR 2033 IH {}"))
    one = story()
    for _ in range(4):
        one.heading().items("1)", 2).paragraph(6)
    yield known("bill", one, bill, "H.R. 2033")
    transcript = replace(plain, font="Courier", size=11, leading=25, line_numbers=True, justified=False, hyphen="")
    yield known("transcript", story().paragraph(12).paragraph(10).paragraph(9), transcript)
    one = story()
    for _ in range(6):
        one.heading().items("•", 4)
    slides = replace(plain, page=landscape(A4), top=500, size=22, leading=30, frames=((60, 700),))
    yield known("slides", one, replace(slides, decorate=lambda sheet: sheet.text(760, 20, str(sheet.number), 10)))
    yield known("turned", story().chapters(2).table(6), replace(plain, turned=90, page=landscape(A4)))
    for kind, codes in (("type3-ot1", _OT1), ("type3-t1", _T1)):
        one = story()
        data = _bitmap(one, codes)
        yield one.known("reportlab", kind, ".pdf", data)
    one = story().chapters(2)
    for block in one.blocks:
        block.runs = [run._replace(text=_replaced(run.text, _LIGATURES)) for run in block.runs]
    yield known("ligatures", one, replace(plain, font=DEJAVU, size=9.5))
    yield known("formulas", story().paragraph(4, sub=True).paragraph(4, sub=True, notes=1))
    one = story().paragraph(3)
    fields = [(one.prose.place(), one.prose.name()) for _ in range(5)]
    one.truth.rows += [list(entry) for entry in fields]

    def form(sheet: Sheet) -> None:
        for row, (label, value) in enumerate(fields):
            sheet.text(72, 400 - 30 * row, label)
            sheet.canvas.acroForm.textfield(value=value, x=250, y=395 - 30 * row, width=200, height=18, name=f"f{row}")

    yield known("form", one, before=form)
    one = story().paragraph().paragraph()

    def letter(sheet: Sheet) -> None:
        for row, (left, right) in enumerate((("Office of Works", "14 March 1931"), ("Mill Lane 4", "Ref. 33/207"), ("Northgate", ""))):
            sheet.text(72, 800 - 13 * row, left)
            sheet.text(400, 800 - 13 * row, right)
        sheet.y -= 30

    yield known("letter", one, replace(Look(), top=740), "x" * 9, before=letter)
    sized = story()
    texts = [(sized.prose.title(), sized.prose.sentence()) for _ in range(8)]
    sized.truth.heads += [title for title, _ in texts]
    sized.truth.sentences += [sentence for _, sentence in texts]

    def beside(sheet: Sheet) -> None:
        for title, sentence in texts:
            sheet.text(40, sheet.y, title[:60], 8, "Helvetica-Bold")
            sheet.set(list(sheet.wrap(words_of(sentence), 250, "Times-Roman", 10.5)), left=230, plain=True)
            sheet.y -= 14

    yield known("sizes", sized, Look(), before=beside)
    contents = story()
    titles = [contents.prose.title() for _ in range(14)]
    contents.truth.heads.clear()

    def leaders(sheet: Sheet) -> None:
        for page, title in enumerate(titles, 3):
            sheet.set([[Word(title), Word(". " * 30 + str(page))]], plain=True)

    contents.truth.items += titles
    yield known("contents", contents.chapters(2), plain, before=leaders)
