"""Plots as SVG: lines with intervals, heat maps, stacked bars. Written by hand, so that a report needs no library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from specextend_cli.bench import svg
from specextend_cli.bench.tables import (
    MISSING,
    HeatMap,
    LinePlot,
    Plot,
    Point,
    StackedBars,
    format_cell,
    one_line,
)
from specextend_cli.humanize import format_percent

WIDTH = 720.0
_TOP = 30.0
"""Below the title."""


def draw(plot: Plot) -> str:
    """Any plot as a self-contained SVG. Values that are no numbers are left out."""
    match plot:
        case LinePlot():
            return line_plot(plot)
        case HeatMap():
            return heat_map(plot)
        case StackedBars():
            return stacked_bars(plot)


def line_plot(plot: LinePlot) -> str:
    """Lines, each with its own colour and mark; whiskers are the intervals."""
    drawn = [[point for point in series.points if _drawable(point, plot.log_x)] for series in plot.series]
    points = [point for series in drawn for point in series]
    if not points:
        return _nothing(plot.title)
    names = [series.name for series in plot.series]
    looks = [index if series.look is None else series.look for index, series in enumerate(plot.series)]
    legend, legend_height = svg.legend(names, 64, _TOP + 16, WIDTH - 88, looks=looks)
    named = svg.shorten(plot.reference_label, 90) if plot.reference is not None else ""
    left, right, top = 64.0, WIDTH - 16 - (svg.width_of(named) if named else 8), _TOP + 12 + legend_height
    bottom = top + 270

    reach = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    reach += [plot.reference] if plot.reference is not None else []
    y_ticks = svg.ticks(min(0.0, *reach) if plot.zero else min(reach), max(reach))
    y = _scale(y_ticks[0], y_ticks[-1], bottom, top)
    xs = sorted({point.x for point in points})
    turn: Callable[[float], float] = math.log2 if plot.log_x else float
    x_ticks = xs if len(xs) <= 10 else [tick for tick in svg.ticks(xs[0], xs[-1], 8) if xs[0] <= tick <= xs[-1]]
    place = _scale(turn(xs[0]), turn(xs[-1]), left + 30, right - 30)

    def x(value: float) -> float:
        return place(turn(value))

    elements = [svg.text(left, 20, svg.shorten(plot.title, WIDTH - 90), kind="title"), *legend]
    for tick, said in zip(y_ticks, svg.labels(y_ticks), strict=True):
        elements += [
            svg.line(left, y(tick), right, y(tick), "grid"),
            svg.text(left - 8, y(tick) + 4, said, kind="quiet", anchor="end"),
        ]
    taken = -math.inf
    for tick in x_ticks:
        half = svg.width_of(svg.label(tick)) / 2 + 3
        elements.append(svg.line(x(tick), bottom, x(tick), bottom + 5, "axis"))
        if x(tick) - half >= taken:  # close ticks stay, but their labels would run into each other
            elements.append(svg.text(x(tick), bottom + 19, svg.label(tick), kind="quiet", anchor="middle"))
            taken = x(tick) + half
    elements.append(svg.line(left, bottom, right, bottom, "axis"))
    if plot.reference is not None:
        elements.append(svg.line(left, y(plot.reference), right, y(plot.reference), "reference"))
        if named:
            elements.append(svg.text(right + 6, y(plot.reference) + 4, named, kind="quiet"))
    ranged = [any(point.low is not None for point in series) for series in drawn]
    for index, series in enumerate(drawn):
        # Intervals at one length would hide each other: lines that have one stand a little apart.
        shift = 6 * (sum(ranged[:index]) - (sum(ranged) - 1) / 2) if ranged[index] else 0.0
        places = [(x(point.x) + shift, y(point.y)) for point in series]
        elements.append(_line(looks[index], names[index], series, places, y))
    elements += [
        svg.text((left + right) / 2, bottom + 42, plot.x_label, anchor="middle"),
        svg.text(16, (top + bottom) / 2, plot.y_label, anchor="middle", turned=True),
    ]
    return _finish(plot.title, plot.note, bottom + 52, elements)


def _line(
    look: int, name: str, points: Sequence[Point], places: Sequence[tuple[float, float]], y: Callable[[float], float]
) -> str:
    elements = [svg.path(places, svg.dash(look))] if len(points) > 1 else []
    marks = []
    for point, (left, top) in zip(points, places, strict=True):
        said = f"{name}, {svg.label(point.x)}: {format_cell(point.y)}"
        if point.low is not None and point.high is not None:
            low, high = y(point.low), y(point.high)
            elements += [
                svg.line(left, low, left, high, "whisker"),
                svg.line(left - 3, low, left + 3, low, "whisker"),
                svg.line(left - 3, high, left + 3, high, "whisker"),
            ]
            said += f" ({format_cell(point.low)}-{format_cell(point.high)})"
        marks.append(svg.group("point", [svg.mark(left, top, look)], said))
    return svg.group(svg.colour(look), [*elements, *marks])


def heat_map(plot: HeatMap) -> str:
    """Every value as a colour and as a figure; from dark (low) to light (high), as even to the eye as to a printer."""
    known = [value for row in plot.values for value in row if value is not None and math.isfinite(value)]
    if not known:
        return _nothing(plot.title)
    low = min(known) if plot.low is None else plot.low
    high = max(known) if plot.high is None else plot.high
    largest = max(map(abs, known))
    decimals = None if plot.percent else 2 if largest < 10 else 1 if largest < 100 else 0
    left = 24 + min(max(svg.width_of(one_line(name)) for name in (*plot.rows, plot.y_label)), 220)
    cell = min((WIDTH - left - 16) / len(plot.columns), 76.0)
    height, top = 30.0, _TOP + 44
    bottom = top + height * len(plot.rows)
    elements = [
        svg.text(16, 20, svg.shorten(plot.title, WIDTH - 32), kind="title"),
        svg.text(left - 10, top - 8, svg.shorten(plot.y_label, left - 24), anchor="end"),
        svg.text(left + cell * len(plot.columns) / 2, _TOP + 14, plot.x_label, anchor="middle"),
    ]
    for column, name in enumerate(plot.columns):
        middle = left + cell * (column + 0.5)
        elements.append(svg.text(middle, top - 8, svg.shorten(name, cell), kind="quiet", anchor="middle"))
    for row, (name, values) in enumerate(zip(plot.rows, plot.values, strict=True)):
        y = top + height * row
        elements.append(svg.text(left - 10, y + 20, svg.shorten(name, left - 24), kind="quiet", anchor="end"))
        for column, value in enumerate(values):
            elements.append(_cell(left + cell * column, y, cell, height, value, low, high, decimals))
    return _finish(plot.title, plot.note, bottom + 14, elements)


def _cell(
    x: float, y: float, width: float, height: float, value: float | None, low: float, high: float, decimals: int | None
) -> str:
    place = (x + width / 2, y + height / 2 + 4)
    if value is None or not math.isfinite(value):
        outline = svg.rectangle(x + 2, y + 2, width - 4, height - 4, kind="absent")
        return outline + svg.text(*place, MISSING, kind="quiet", anchor="middle")
    share = min(max((value - low) / (high - low), 0.0), 1.0) if high > low else 0.5
    red, green, blue = _shade(share)
    # Black letters read better on it once its luminance passes this (equal contrast with black and white).
    light = 0.2126 * (red / 255) ** 2.2 + 0.7152 * (green / 255) ** 2.2 + 0.0722 * (blue / 255) ** 2.2 > 0.18
    said = format_percent(value) if decimals is None else f"{value:,.{decimals}f}"
    return svg.rectangle(x + 1, y + 1, width - 2, height - 2, fill=f"#{red:02x}{green:02x}{blue:02x}") + svg.text(
        *place, said, kind="on-light" if light else "on-dark", anchor="middle"
    )


_VIRIDIS = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))


def _shade(share: float) -> tuple[int, int, int]:
    """A colour of matplotlib's viridis, between five of its own."""
    position = share * (len(_VIRIDIS) - 1)
    index = min(int(position), len(_VIRIDIS) - 2)
    rest = position - index
    red, green, blue = (
        round(start + (end - start) * rest) for start, end in zip(_VIRIDIS[index], _VIRIDIS[index + 1], strict=True)
    )
    return red, green, blue


def stacked_bars(plot: StackedBars) -> str:
    """Bars one below the other; each part says its size where there is room for it."""
    totals = [sum(values) for values in plot.values]
    longest = 1.0 if plot.percent else max(totals, default=0.0)
    if not plot.bars or not longest:
        return _nothing(plot.title)
    left = 24 + min(max(svg.width_of(one_line(name)) for name in plot.bars), 260)
    legend, legend_height = svg.legend(plot.parts, left, _TOP + 16, WIDTH - left - 16)
    top, height = _TOP + 8 + legend_height, 26.0
    bottom = top + height * len(plot.bars)
    marks = svg.ticks(0.0, longest)
    x = _scale(0.0, marks[-1], left, WIDTH - 30)
    elements = [svg.text(16, 20, svg.shorten(plot.title, WIDTH - 32), kind="title"), *legend]
    for tick in marks:
        said = f"{tick:.0%}" if plot.percent else svg.label(tick)
        elements += [
            svg.line(x(tick), top, x(tick), bottom + 5, "grid"),
            svg.text(x(tick), bottom + 19, said, kind="quiet", anchor="middle"),
        ]
    for bar, (name, values) in enumerate(zip(plot.bars, plot.values, strict=True)):
        y = top + height * bar
        elements.append(svg.text(left - 10, y + 17, svg.shorten(name, left - 20), anchor="end"))
        start = 0.0
        for part, value in enumerate(values):
            elements.append(_part(plot, part, value, x(start), x(start + value), y))
            start += value
    elements.append(svg.text((left + WIDTH - 30) / 2, bottom + 42, plot.x_label, anchor="middle"))
    return _finish(plot.title, plot.note, bottom + 52, elements)


def _part(plot: StackedBars, part: int, value: float, start: float, end: float, y: float) -> str:
    said = format_percent(value) if plot.percent else format_cell(value)
    elements = [svg.rectangle(start, y + 3, max(end - start, 0.0), 20, kind="fill gap")]
    if end - start > svg.width_of(said) + 6:
        elements.append(svg.text((start + end) / 2, y + 17, said, kind=svg.ink(part), anchor="middle"))
    return svg.group(svg.colour(part), elements, f"{plot.parts[part]}: {said}")


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """From values to pixels; a single value stands in the middle."""
    if high <= low:
        return lambda value: (start + end) / 2
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _drawable(point: Point, log_x: bool) -> bool:
    values = [value for value in point if value is not None]
    return all(math.isfinite(value) for value in values) and (point.x > 0 or not log_x)


def _finish(title: str, note: str, height: float, elements: list[str]) -> str:
    """The picture, with its note below."""
    if note:
        height += 18
        elements = [*elements, svg.text(16, height - 8, svg.shorten(note, WIDTH - 20), kind="quiet")]
    return svg.picture(title, WIDTH, height, elements)


def _nothing(title: str) -> str:
    elements = [
        svg.text(16, 20, svg.shorten(title, WIDTH - 32), kind="title"),
        svg.text(16, 50, "nothing was measured"),
    ]
    return svg.picture(title, WIDTH, 66, elements)
