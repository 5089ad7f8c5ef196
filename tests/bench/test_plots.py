"""Pictures are XML, hold what they were given and nothing foreign, and stay within their frame."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.bench import svg
from specextend_cli.bench.charts import charts, distribution
from specextend_cli.bench.plots import draw
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.tables import HeatMap, LinePlot, Plot, Point, Series, StackedBars
from tests.bench.made_benchmark import benchmark, realistic, record
from tests.bench.untrusted_inputs import HOSTILE, controls

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parse(plot: Plot) -> ElementTree.Element:
    return ElementTree.fromstring(draw(plot))


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{NAMESPACE}text")]


def line(*ys: float, **values: object) -> LinePlot:
    points = tuple(Point(2.0**index, y) for index, y in enumerate(ys, start=9))
    return LinePlot("title", "x label", "y label", (Series("one", points),), **values)  # type: ignore[arg-type]


def test_a_line_plot_says_its_axes_names_and_values() -> None:
    root = parse(line(1.0, 2.0, 1.5, log_x=True, reference=1.0, reference_label="plain", note="a note"))
    assert {"title", "x label", "y label", "one", "plain", "a note", "512", "1K", "2K", "0.0", "2.0"} <= set(
        texts(root)
    )
    hints = [element.text for element in root.iter(f"{NAMESPACE}title")]
    assert hints == ["one, 512: 1.00", "one, 1K: 2.00", "one, 2K: 1.50"]


def test_intervals_are_whiskers() -> None:
    plot = LinePlot("t", "x", "y", (Series("one", (Point(1, 2, 1, 3),)),))
    whiskers = [element for element in parse(plot).iter() if element.get("class") == "whisker"]
    assert len(whiskers) == 3


def test_series_differ_in_more_than_colour() -> None:
    """Two series of one colour have other marks or other dashes."""
    looks = [(svg.colour(index), svg.mark(0, 0, index), svg.dash(index)) for index in range(28)]
    assert len(set(looks)) == len(looks)
    assert len({svg.mark(0, 0, index) for index in range(6)}) == 6


def test_heat_maps_say_their_values() -> None:
    plot = HeatMap("t", "length", "depth", ("1K", "2K"), ("0%", "50%"), ((0.1, 1.0), (None, float("nan"))))
    assert texts(parse(plot)).count("–") == 2
    assert {"0.10", "1.00", "1K", "50%", "length", "depth"} <= set(texts(parse(plot)))


def test_letters_on_a_heat_map_can_be_read() -> None:
    plot = HeatMap("t", "", "", tuple("abcdef"), ("r",), (tuple(index / 5 for index in range(6)),))
    elements = list(parse(plot).iter())
    for rectangle, text in pairwise(elements):
        if rectangle.get("fill"):
            colour = rectangle.get("fill", "")
            letters = {"on-light": 0.0, "on-dark": 1.0}[text.get("class", "")]
            assert _contrast(_luminance(colour), letters) >= 4.5, colour


def test_letters_on_bars_can_be_read() -> None:
    for mode in (svg._LIGHT, svg._DARK):
        for colour, letters in mode:
            assert _contrast(_luminance(colour), _luminance(letters)) >= 4.5, colour


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: float, other: float) -> float:
    light, dark = max(one, other), min(one, other)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    "plot",
    [
        LinePlot(HOSTILE, HOSTILE, HOSTILE, (Series(HOSTILE, (Point(1, 1),)),), reference=1, reference_label=HOSTILE),
        HeatMap(HOSTILE, HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE,), ((1.0,),), note=HOSTILE),
        StackedBars(HOSTILE, HOSTILE, (HOSTILE,), (HOSTILE, "b"), ((0.5, 0.5),)),
    ],
    ids=["lines", "heat map", "bars"],
)
def test_hostile_text_is_text(plot: Plot) -> None:
    drawn = draw(plot)
    assert not controls(drawn)
    root = ElementTree.fromstring(drawn)
    assert {element.tag.removeprefix(NAMESPACE) for element in root.iter()} <= {
        "svg", "style", "text", "path", "rect", "g", "title",
    }  # fmt: skip


@pytest.mark.parametrize(
    "plot",
    [
        LinePlot("t", "x", "y", ()),
        line(float("nan")),
        LinePlot("t", "x", "y", (Series("s", (Point(0, 1),)),), log_x=True),
        HeatMap("t", "x", "y", (), (), ()),
        StackedBars("t", "x", (), (), ()),
        StackedBars("t", "x", ("a",), ("b",), ((0.0,),), percent=False),
    ],
)
def test_nothing_to_draw_is_said(plot: Plot) -> None:
    assert "nothing was measured" in texts(parse(plot))


NUMBERS = st.floats(-1e6, 1e6)


@given(st.lists(st.lists(st.tuples(st.floats(0.001, 1e6), NUMBERS, NUMBERS), max_size=9), max_size=12), st.booleans())
def test_everything_stays_in_the_frame(lines: list[list[tuple[float, float, float]]], log_x: bool) -> None:
    series = tuple(
        Series(f"line {index}", tuple(Point(x, y, min(y, z), max(y, z)) for x, y, z in sorted(points)))
        for index, points in enumerate(lines)
    )
    root = parse(LinePlot("t", "x", "y", series, log_x=log_x, zero=False))
    width, height = (float(root.get(side, "")) for side in ("width", "height"))
    places = re.findall(
        r"[ML](-?[\d.]+) (-?[\d.]+)", " ".join(e.get("d", "") for e in root.iter() if not e.get("transform"))
    )
    assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in places)


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_ticks_enclose_the_values_evenly(low: float, spread: float) -> None:
    found = svg.ticks(low, low + spread)
    assert 2 <= len(found) <= 12
    slack = 1e-6 * max(abs(found[0]), abs(found[-1]), found[1] - found[0])
    assert found[0] <= low + slack
    assert found[-1] >= low + spread - slack


def test_a_benchmarks_charts() -> None:
    made = charts(summarize(realistic(documents=2, lengths=(512, 1024))))
    assert [type(plot).__name__ for plot in made] == ["LinePlot"] * 3 + ["StackedBars"] + ["HeatMap"] * 2
    for plot in made:
        parse(plot)
    speedup, accepted = made[0], made[2]
    assert isinstance(speedup, LinePlot)
    assert isinstance(accepted, LinePlot)
    assert "plain" not in {series.name for series in speedup.series}
    looks = {series.name: series.look for series in speedup.series}
    assert all(looks[series.name] == series.look for series in accepted.series)


def test_long_accepted_lengths_share_the_last_column() -> None:
    plot = distribution(summarize(benchmark(record("lucky", accepted=(1, 12, 40)))), 1024)
    assert plot is not None
    assert plot.columns[-1] == "12+"
    assert plot.values[0][-1] == pytest.approx(2 / 3)


def test_without_drafting_there_are_no_charts_about_it() -> None:
    assert charts(summarize(benchmark(record(), record("transformers", accepted=())))) != ()
    assert all(
        isinstance(plot, LinePlot) for plot in charts(summarize(benchmark(record(), record("peer", accepted=()))))
    )
