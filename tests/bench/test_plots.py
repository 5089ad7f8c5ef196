"""Plots are valid SVG and PNG, show what they are given, and are safe with any text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from specextend_cli.bench.plots import draw
from specextend_cli.bench.report import charts, distribution
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.tables import HeatMap, LinePlot, Plot, Point
from tests.bench.made_benchmark import benchmark, realistic, record
from tests.bench.untrusted_text import UNTRUSTED, controls

NAMESPACE = "{http://www.w3.org/2000/svg}"


def texts(plot: Plot) -> list[str]:
    """The texts of the drawn plot."""
    picture = draw(plot)
    assert picture.png.startswith(b"\x89PNG")
    return [element.text or "" for element in ElementTree.fromstring(picture.svg).iter(f"{NAMESPACE}text")]


def line(*ys: float, **values: object) -> LinePlot:
    points = tuple(Point(2.0**index, y, y / 2, y * 2) for index, y in enumerate(ys, start=9))
    return LinePlot("title", "x label", "y label", {"one": points}, **values)  # type: ignore[arg-type]


def test_a_line_plot_names_its_axes_lines_and_lengths() -> None:
    shown = texts(line(1.0, 2.0, 1.5, over_plain=True, note="a note"))
    assert {"title", "x label", "y label", "one", "plain", "a note", "512", "1K", "2K"} <= set(shown)


def test_a_heat_map_shows_its_values() -> None:
    shown = texts(
        HeatMap("t", "length", "depth", {"0%": {"1K": 0.1, "2K": 1.0}, "50%": {"1K": None, "2K": float("nan")}})
    )
    assert shown.count("–") == 2
    assert {"10%", "100%", "1K", "50%", "length", "depth"} <= set(shown)


@pytest.mark.parametrize(
    "plot",
    [
        LinePlot(UNTRUSTED, UNTRUSTED, "$x$", {UNTRUSTED: [Point(1, 1)]}, UNTRUSTED),
        HeatMap(UNTRUSTED, UNTRUSTED, UNTRUSTED, {UNTRUSTED: {UNTRUSTED: 1.0}}),
    ],
    ids=["lines", "heat map"],
)
def test_untrusted_text_is_text(plot: Plot) -> None:
    drawn = draw(plot).svg
    assert not controls(drawn)
    tags = {element.tag.removeprefix(NAMESPACE) for element in ElementTree.fromstring(drawn).iter()}
    assert tags <= {"svg", "style", "text", "tspan", "path", "rect", "g", "defs", "use", "clipPath"}


@pytest.mark.parametrize(
    "plot",
    [
        LinePlot("t", "x", "y", {}),
        line(float("nan")),
        LinePlot("t", "x", "y", {"s": [Point(0, 1)]}),
        HeatMap("t", "x", "y", {}),
    ],
)
def test_an_empty_plot_says_so(plot: Plot) -> None:
    assert "nothing was measured" in texts(plot)


def test_the_charts_of_a_benchmark() -> None:
    made = charts(summarize(realistic(documents=2, lengths=(512, 1024))))
    assert [type(plot).__name__ for plot in made] == ["LinePlot"] * 3 + ["HeatMap"] * 2
    speedup, accepted = made[0], made[2]
    assert isinstance(speedup, LinePlot)
    assert isinstance(accepted, LinePlot)
    assert "plain" not in speedup.lines
    assert list(accepted.lines) == list(speedup.lines)  # the place is the look


def test_long_accepted_lengths_share_the_last_column() -> None:
    (plot,) = distribution(summarize(benchmark(record("lucky", accepted=(1, 12, 40)))), 1024)
    assert list(plot.values["lucky"])[-1] == "12+"
    assert plot.values["lucky"]["12+"] == pytest.approx(2 / 3)


def test_without_drafting_there_are_no_charts_about_it() -> None:
    made = charts(summarize(benchmark(record(), record("external", accepted=()))))
    assert {type(plot) for plot in made} == {LinePlot}
