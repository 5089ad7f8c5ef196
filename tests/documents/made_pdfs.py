"""PDFs made on the spot: realistic pages with running heads, footers, hyphens and headings."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

WIDTH, HEIGHT = A4
SENTENCES = (
    "The water rises slowly at first and then within an hour it covers the road.",
    "Every station on the river reports its level to the office in the valley.",
    "A warning helps only those who hear it in time and know what to do.",
    "The committee met again in spring to compare what had been promised and done.",
)


def wrap(text: str, width: int = 78) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


class Sheets:
    """A PDF under construction: `page(lines)` sets lines of (text, font size, gap above) below each other.

    `data` ends the last page, unless it is empty.
    """

    def __init__(self) -> None:
        self._data = io.BytesIO()
        self.canvas = Canvas(self._data, pagesize=A4, invariant=1)
        self.number = 0

    def page(self, lines: Sequence[tuple[str, float, float] | str], *, head: str = "", foot: str = "") -> None:
        self.number += 1
        self.text(head, 72, HEIGHT - 40, 9)
        self.text(foot.replace("#", str(self.number)), 72, 30, 9)
        y = HEIGHT - 90
        for line in lines:
            text, size, gap = (line, 11, 0) if isinstance(line, str) else line
            y -= 14 + gap
            self.text(text, 72, y, size)
        self.canvas.showPage()

    def text(self, text: str, x: float, y: float, size: float) -> None:
        self.canvas.setFont("Helvetica", size)
        self.canvas.drawString(x, y, text)

    def picture(self) -> None:
        image = ImageReader(Image.new("L", (32, 32), 128))
        self.canvas.drawImage(image, 50, 50, 400, 600)
        self.canvas.showPage()

    def data(self) -> bytes:
        self.canvas.save()
        return self._data.getvalue()


def report_bytes(pages: int) -> bytes:
    """A report with a running head, a foot "Page 3 of the report", a heading and two paragraphs a page."""
    book = Sheets()
    for number in range(1, pages + 1):
        story = [sentence.replace(" ", f" {chr(96 + number) * n} ", 1) for n, sentence in enumerate(SENTENCES * 4)]
        first = wrap(f"This is page {number} of the story. " + " ".join(story[:8] * 2))
        second = wrap(f"Elsewhere on page {number} it goes on. " + " ".join(story[8:]))
        lines: list[tuple[str, float, float] | str] = [(f"{number}. Chapter of Water", 16, 0), (first[0], 11, 8)]
        lines += [*first[1:], (second[0], 11, 10), *second[1:]]
        book.page(lines, head="Reports on Rivers, Volume II", foot="Page # of the report")
    return book.data()
