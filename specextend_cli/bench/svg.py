"""The few SVG elements the plots are made of, one style for light and dark, and axis ticks. Returns strings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape as escape_text
from xml.sax.saxutils import quoteattr

from specextend_cli.bench.tables import one_line

SIZE = 12
"""Of all letters, in units of the picture, which are pixels at its natural width."""

# Okabe and Ito's colours, which people with any common colour blindness tell apart; yellow, too pale on white, is left
# out, and purple is darker. Lighter on dark. Each comes with the colour of letters that can be read on it.
_LIGHT = (
    ("#0072b2", "#fff"),
    ("#c25400", "#fff"),
    ("#00805e", "#fff"),
    ("#a8548a", "#fff"),
    ("#e69f00", "#000"),
    ("#56b4e9", "#000"),
    ("#555555", "#fff"),
)
_DARK = (
    ("#4ba3d9", "#000"),
    ("#f0803c", "#000"),
    ("#2fc79b", "#000"),
    ("#d893bd", "#000"),
    ("#f0b840", "#000"),
    ("#a8dcf8", "#000"),
    ("#b5b5b5", "#000"),
)
COLOURS = len(_LIGHT)


def _palette(colours: Sequence[tuple[str, str]]) -> str:
    return "".join(
        f".sx .s{index}{{color:{colour}}}.sx .i{index}{{fill:{letters}}}"
        for index, (colour, letters) in enumerate(colours)
    )


STYLE = (
    ".sx{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;color:#222}"
    ".sx text{fill:#222}.sx .title{font-weight:600;font-size:14px}.sx .quiet{fill:#595959}"
    ".sx .axis{stroke:#888;stroke-width:1;fill:none}.sx .grid{stroke:#e4e4e4;stroke-width:1;fill:none}"
    ".sx .reference{stroke:#666;stroke-width:1;stroke-dasharray:6 4;fill:none}"
    ".sx .line{stroke:currentColor;stroke-width:2;fill:none}"
    ".sx .whisker{stroke:currentColor;stroke-width:1.2;fill:none}"
    ".sx .mark{fill:currentColor;stroke:#fff;stroke-width:1}.sx .fill{fill:currentColor}.sx .gap{stroke:#fff}"
    ".sx .absent{fill:none;stroke:#bbb;stroke-dasharray:3 3}"
    f".sx .on-light{{fill:#000}}.sx .on-dark{{fill:#fff}}{_palette(_LIGHT)}"
    "@media (prefers-color-scheme:dark){"
    ".sx text{fill:#e8e8e8}.sx .quiet{fill:#aaa}.sx .grid{stroke:#333}.sx .reference{stroke:#aaa}"
    ".sx .mark,.sx .gap{stroke:#161616}.sx .absent{stroke:#555}"
    f".sx .on-light{{fill:#000}}.sx .on-dark{{fill:#fff}}{_palette(_DARK)}}}"
)
"""Of every picture; the same in each, so that many of them may stand in one page."""


def picture(title: str, width: float, height: float, elements: Iterable[str]) -> str:
    """A whole SVG that scales to its place, with a title for those who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="sx" role="img" aria-label={attribute(title)} '
        f'viewBox="0 0 {number(width)} {number(height)}" width="{number(width)}" height="{number(height)}">'
        f"<style>{STYLE}</style>{''.join(elements)}</svg>"
    )


def text(x: float, y: float, value: str, *, kind: str = "", anchor: str = "start", turned: bool = False) -> str:
    """Foreign text at a place; `turned` reads from the bottom up."""
    turn = f' transform="rotate(-90 {number(x)} {number(y)})"' if turned else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" class="{kind}" text-anchor="{anchor}"{turn}>'
        f"{escape_text(one_line(value))}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line."""
    return f'<path class="{kind}" d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"/>'


def path(points: Sequence[tuple[float, float]], dash: str = "") -> str:
    """A data line through the points."""
    steps = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return f'<path class="line" d="M{steps}"{f" stroke-dasharray={attribute(dash)}" if dash else ""}/>'


def rectangle(x: float, y: float, width: float, height: float, *, kind: str = "", fill: str = "") -> str:
    """A rectangle, coloured by its class or by `fill`."""
    colour = f' fill="{fill}"' if fill else ""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f'class="{kind}"{colour}/>'
    )


def group(kind: str, elements: Iterable[str], title: str = "") -> str:
    """Elements of one class; `title` is shown where a pointer rests on them."""
    hint = f"<title>{escape_text(one_line(title))}</title>" if title else ""
    return f'<g class="{kind}">{hint}{"".join(elements)}</g>'


_MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",  # circle
    "M-4 -4H4V4H-4Z",  # square
    "M0 -5L5 4H-5Z",  # triangle
    "M0 -5.5L5.5 0L0 5.5L-5.5 0Z",  # diamond
    "M0 5L5 -4H-5Z",  # triangle, point down
    "M-1.8 -5H1.8V-1.8H5V1.8H1.8V5H-1.8V1.8H-5V-1.8H-1.8Z",  # plus
)
_DASHES = ("", "7 3", "2 3", "9 3 2 3")


def mark(x: float, y: float, index: int) -> str:
    """The mark of series `index`: lines are told apart by shape, not by colour alone."""
    return f'<path class="mark" transform="translate({number(x)} {number(y)})" d="{_MARKS[index % len(_MARKS)]}"/>'


def dash(index: int) -> str:
    """The dashes of series `index`, which change with every round of colours."""
    return _DASHES[index // COLOURS % len(_DASHES)]


def colour(index: int) -> str:
    """The class that colours series `index`."""
    return f"s{index % COLOURS}"


def ink(index: int) -> str:
    """The class of letters written on the colour of series `index`."""
    return f"i{index % COLOURS}"


def width_of(value: str, size: float = SIZE) -> float:
    """About how wide a text will be: no font is at hand to ask, so rather too wide."""
    return len(value) * size * 0.58


def shorten(value: str, width: float) -> str:
    """`value`, or as much of it as fits with an ellipsis."""
    value = one_line(value)
    room = max(int(width / (SIZE * 0.58)), 2)
    return value if len(value) <= room else value[: room - 1] + "…"


def legend(
    names: Sequence[str], x: float, y: float, width: float, *, looks: Sequence[int] | None = None
) -> tuple[list[str], float]:
    """The names beside lines of these looks, or beside patches, wrapped to `width`; and the height they take."""
    elements = []
    left, top = x, y
    for index, name in zip(range(len(names)) if looks is None else looks, names, strict=True):
        name = shorten(name, width - 30)
        needed = 40 + width_of(name)
        if left > x and left + needed > x + width:
            left, top = x, top + 20
        sample = (
            [path([(left, top - 4), (left + 22, top - 4)], dash(index)), mark(left + 11, top - 4, index)]
            if looks is not None
            else [rectangle(left + 4, top - 10, 14, 12, kind="fill")]
        )
        elements += [group(colour(index), sample), text(left + 27, top, name)]
        left += needed
    return elements, (top - y + 20 if names else 0.0)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from at most `low` to at least `high`, about that many; the ends of an axis among them."""
    if high - low <= max(1e-9 * max(abs(low), abs(high)), 1e-30):  # equal but for rounding
        spread = abs(low) * 0.1 or 1.0
        low, high = low - spread, high + spread
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def labels(values: Sequence[float]) -> list[str]:
    """The texts of an axis' ticks, with as many decimals as the finest of them needs."""
    plain = [label(value) for value in values]
    decimals = max((len(said.partition(".")[2]) for said in plain if "e" not in said and "K" not in said), default=0)
    return [f"{value:,.{decimals}f}" for value in values] if decimals else plain


def label(value: float) -> str:
    """A tick's text: 8192 -> "8K", 0.25 -> "0.25", 8000 -> "8,000"."""
    if value >= 1024 and value % 1024 == 0:
        return f"{value / 1024:,.0f}K"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def number(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def attribute(value: str) -> str:
    """Foreign text as a quoted attribute."""
    return quoteattr(one_line(value))
