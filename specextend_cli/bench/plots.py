"""Plots drawn by matplotlib (the extra `bench`), as SVG."""

from __future__ import annotations

import io
import logging
import math
import textwrap
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING

from specextend_cli.bench.formats import Plot, format_length, one_line
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which differ under all common colour blindness; without yellow, which is pale on white.
_COLOURS = ("#0072b2", "#c25400", "#00805e", "#a8548a", "#e69f00", "#56b4e9", "#555555")
_MARKS, _DASHES = "os^Dv", ("-", "--", ":", "-.")
_STYLE = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "specextend",  # ids are the same in every run
    "text.parse_math": False,
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid.axis": "y",
    "grid.color": "#e4e4e4",
}
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def require() -> None:
    """UsageError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        why, fix = "matplotlib is not installed", "pip install 'specextend-cli[bench]'"
        raise UsageError("--report cannot draw its plots", why=why, fix=fix)


def draw(plot: Plot) -> str:
    """A plot as an SVG element. Values that are not finite are left out."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no word about its font cache on stderr
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    file = io.BytesIO()
    with rc_context(_STYLE), warnings.catch_warnings():  # type: ignore[arg-type, unused-ignore]
        warnings.simplefilter("ignore")  # a glyph that the font lacks
        figure = Figure(figsize=(7.5, 4.6), layout="constrained")  # inches
        axes = figure.add_subplot()
        axes.set_title(_short(plot.title), loc="left", fontweight="bold")
        axes.set_axisbelow(True)
        if not _lines(figure, axes, plot):
            axes.text(0.5, 0.5, "nothing was measured", ha="center", transform=axes.transAxes)
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
    svg = file.getvalue().decode("utf-8")
    return svg[svg.index("<svg") :]


def _lines(figure: Figure, axes: Axes, plot: Plot) -> bool:
    """Every line has its own colour, mark and dashes; error bars are the intervals."""
    lines = {
        name: [one for one in points if one.x > 0 and all(math.isfinite(value) for value in one if value is not None)]
        for name, points in plot.lines.items()
    }
    xs = sorted({point.x for points in lines.values() for point in points})
    axes.set_xscale("log", base=2)
    if xs and len(xs) <= 10:
        axes.set_xticks(xs, [format_length(int(x)) if x == int(x) else f"{x:g}" for x in xs], minor=False)
        axes.minorticks_off()
    for look, (name, points) in enumerate(lines.items()):
        if not points:
            continue
        # Intervals at one x would hide each other, so each line is shifted by a small share of the axis.
        shift = max(xs[-1] / xs[0], 2.0) ** (0.008 * (look - (len(lines) - 1) / 2))
        below = [0.0 if point.low is None else max(point.y - point.low, 0.0) for point in points]
        above = [0.0 if point.high is None else max(point.high - point.y, 0.0) for point in points]
        axes.errorbar(
            [point.x * shift for point in points],
            [point.y for point in points],
            yerr=[below, above],
            color=_COLOURS[look % len(_COLOURS)],
            marker=_MARKS[look % len(_MARKS)],
            linestyle=_DASHES[look // len(_COLOURS) % len(_DASHES)],
            markersize=5,
            capsize=2,
            elinewidth=1,
            label=_short(name),
        )
    if plot.over_plain:
        axes.axhline(1.0, color="#666666", linestyle=(0, (6, 4)), linewidth=1)
        axes.annotate("plain", (1, 1.0), xycoords=("axes fraction", "data"), va="center")
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    axes.grid(True)
    axes.set_xlabel(f"{_short(plot.x_label)}\n{_short(plot.note)}".strip())
    axes.set_ylabel(_short(plot.y_label))
    if xs:
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return bool(xs)


def _short(text: str, width: int = 100) -> str:
    return textwrap.shorten(one_line(text), width, placeholder="…") or " "
