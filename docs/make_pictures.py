"""Draws the pictures of docs/how-it-works.md: `python docs/make_pictures.py`. Boxes, arrows and words, as SVG."""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).with_name("pictures")
INK, QUIET, PAPER, BLUE, GREEN, AMBER = "#1f2933", "#6b7785", "#ffffff", "#dbeafe", "#d9f2e3", "#fdeccb"
FONT = "font-family='system-ui, Helvetica, Arial, sans-serif'"


class Drawing:
    """An SVG of that size, on paper of its own, so that it can be read on any background."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' role='img'>",
            f"<title>{escape(title)}</title>",
            "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
            f"orient='auto'><path d='M0 0 L8 4 L0 8 z' fill='{QUIET}'/></marker></defs>",
            f"<rect width='{width}' height='{height}' rx='10' fill='{PAPER}'/>",
        ]

    def box(
        self, x: float, y: float, w: float, h: float, text: str = "", *, fill: str = BLUE, dash: bool = False
    ) -> None:
        """A box with lines of text in its middle."""
        style = " stroke-dasharray='4 3'" if dash else ""
        self._parts.append(
            f"<rect x='{x}' y='{y}' width='{w}' height='{h}' rx='5' fill='{fill}' stroke='{INK}' "
            f"stroke-width='1'{style}/>"
        )
        lines = text.split("\n") if text else []
        for number, line in enumerate(lines):
            self.text(x + w / 2, y + h / 2 + 5 + 17 * (number - (len(lines) - 1) / 2), line, anchor="middle")

    def bar(self, x: float, foot: float, w: float, h: float) -> None:
        """A bar of that height, standing on `foot`."""
        self._parts.append(f"<rect x='{x}' y='{foot - h}' width='{w}' height='{h}' fill='#f0a83a'/>")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        size: int = 14,
        colour: str = INK,
        bold: bool = False,
    ) -> None:
        """One line."""
        weight = " font-weight='600'" if bold else ""
        self._parts.append(
            f"<text x='{x}' y='{y}' {FONT} font-size='{size}' fill='{colour}' text-anchor='{anchor}'{weight}>"
            f"{escape(text)}</text>"
        )

    def arrow(self, *points: tuple[float, float]) -> None:
        """Along the points."""
        path = " ".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(points))
        self._parts.append(f"<path d='{path}' fill='none' stroke='{QUIET}' stroke-width='1.4' marker-end='url(#tip)'/>")

    def save(self, name: str) -> None:
        """Write the file."""
        (FOLDER / name).write_text("\n".join([*self._parts, "</svg>"]) + "\n", encoding="utf-8")


def pipeline() -> None:
    """Document, chunks, chunk summaries, summary."""
    made = Drawing(760, 330, "From a document to its summary: chunks, chunk summaries, the summary")
    for x, word in ((20, "document"), (170, "chunks"), (330, "chunk summaries"), (500, "joined"), (640, "summary")):
        made.text(x, 32, word, bold=True)
    made.box(20, 50, 100, 230, "12 pages\n\ntext and\nheadings,\nrepairs\ncounted")
    for row in range(6):
        y = 50 + row * 39
        made.box(170, y, 100, 34, f"p. {2 * row + 1}-{2 * row + 2}")
        made.box(330, y, 110, 34, f"summary {row + 1}", fill=GREEN)
        made.arrow((122, y + 17), (166, y + 17))
        made.arrow((272, y + 17), (326, y + 17))
    for group in range(2):
        top = 50 + group * 117
        made.box(500, top + 28, 84, 56, f"summaries\n{3 * group + 1}-{3 * group + 3}", fill=GREEN)
        for row in range(3):
            made.arrow((442, top + 17 + row * 39), (496, top + 56))
        made.arrow((586, top + 56), (636, 165 + 12 * (2 * group - 1)))
    made.box(640, 128, 100, 74, "summary", fill=AMBER)
    made.text(170, 312, "every token is in exactly one prompt", size=13, colour=QUIET)
    made.text(430, 312, "every level has fewer texts than the one before", size=13, colour=QUIET)
    made.save("pipeline.svg")


def tree() -> None:
    """A draft tree, verified in one forward pass."""
    made = Drawing(800, 290, "A draft tree, and the path of it that the target accepts")
    made.text(20, 32, "1  the drafter proposes", bold=True)
    made.text(400, 32, "2  the target checks all of it at once", bold=True)
    nodes = {
        "root": (30, 130, "The"),
        "a": (130, 80, "harbour"),
        "b": (130, 180, "town"),
        "aa": (240, 50, "was"),
        "ab": (240, 110, "burned"),
        "aaa": (345 - 15, 50, "founded"),
    }
    edges = (("root", "a"), ("root", "b"), ("a", "aa"), ("a", "ab"), ("aa", "aaa"))
    for shift, chosen in ((0, set()), (385, {"root", "a", "aa"})):
        for start, end in edges:
            x, y, word = nodes[start]
            width = 14 + 8 * len(word)
            made.arrow((x + shift + width, y + 15), (nodes[end][0] + shift - 2, nodes[end][1] + 15))
        for key, (x, y, word) in nodes.items():
            kept = key in chosen
            made.box(
                x + shift, y, 14 + 8 * len(word), 30, word, fill=GREEN if kept else BLUE, dash=bool(shift) and not kept
            )
    made.box(385 + 330, 110, 54, 30, "built", fill=AMBER)
    made.arrow((385 + 240 + 40, 70), (385 + 328, 120))
    made.text(20, 244, "A wrong draft costs time, never output:", size=13, colour=QUIET)
    made.text(20, 264, "the target decides every token.", size=13, colour=QUIET)
    made.text(400, 244, "Green: equal to the target's choices, accepted. Amber: the", size=13, colour=QUIET)
    made.text(400, 264, "target's next token, the bonus. Three tokens for one pass.", size=13, colour=QUIET)
    made.save("tree.svg")


def retrieval() -> None:
    """Which chunks the drafter sees."""
    made = Drawing(760, 260, "The target reads everything; the drafter sees the chunks that the target attends to")
    made.text(20, 34, "the target's cache: all of the prompt", bold=True)
    heights = (6, 10, 30, 8, 5, 9, 34, 26, 7, 5, 6, 12, 5, 22, 6, 8)
    seen = {0, 2, 6, 7, 13, 14, 15}
    for number, height in enumerate(heights):
        x = 20 + 45 * number
        made.box(x, 90, 40, 26, fill=GREEN if number in seen else "#eef1f4")
        made.bar(x + 12, 84, 16, height)
    made.text(
        20,
        142,
        "amber: the attention of the target's last token, measured every few steps",
        size=13,
        colour=QUIET,
    )
    made.text(20, 178, "the drafter's cache: a few chunks", bold=True)
    for place in range(len(seen)):
        made.box(20 + 45 * place, 192, 40, 26, fill=GREEN)
    made.text(350, 210, "first tokens, retrieved chunks, newest tokens", size=13, colour=QUIET)
    made.text(20, 244, "The drafter's cache does not grow with the prompt.", size=13, colour=QUIET)
    made.save("retrieval.svg")


def draw() -> None:
    """All of them."""
    pipeline()
    tree()
    retrieval()


if __name__ == "__main__":
    draw()
