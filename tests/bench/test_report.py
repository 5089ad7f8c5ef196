"""A benchmark as rows, as text, on a terminal and as an HTML page: the same figures, safe with any text."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import html
from rich.console import Console, RenderableType

from specextend_cli.bench.formats import Experiment, Format, Interval, Plot, Point, Table
from specextend_cli.bench.plots import draw
from specextend_cli.bench.report import SCHEMA, facts, render, write_report
from specextend_cli.bench.results import Divergence, Record
from specextend_cli.bench.statistics import Measurements, Row
from specextend_cli.ui.measurements import report
from tests.bench.made_benchmark import UNTRUSTED, benchmark, controls, realistic, record, untrusted_benchmark

# ------------------------------------------------------------------------------------------------------------ rows


def rows(*records: Record) -> tuple[Row, ...]:
    return Measurements(records).rows


def test_a_row_by_hand() -> None:
    """Plain: 1 s of prefill, 9 tokens in 9 s. Fast: 2 s of prefill, 9 tokens in 3 s and in 4.5 s."""
    fast = {"prefill_seconds": 2.0}
    plain, row = rows(
        record(document="a"),
        record(document="b"),
        record("fast", "a", decode_seconds=3.0, accepted=(5, 4), nodes=(8, 6), hit=0.5, **fast),
        record("fast", "b", decode_seconds=4.5, accepted=(3, 3, 3), nodes=(4,), hit=0.7, **fast),
    )
    assert (plain.method, row.method) == ("plain", "fast")
    assert plain.decode_speedup == Interval(1.0, 1.0, 1.0)
    assert (row.documents, row.runs, row.equal, row.difference, row.gap) == (2, 2, 2, None, None)
    assert (row.prefill_seconds, row.decode_seconds, row.total_seconds) == (2.0, 3.75, 5.75)
    assert row.tokens_per_second == pytest.approx((3 + 2) / 2)
    assert row.decode_speedup == Interval(pytest.approx(2.5), pytest.approx(2.0), pytest.approx(3.0))
    assert row.total_speedup is not None
    assert row.total_speedup.value == pytest.approx((10 / 5 + 10 / 6.5) / 2)
    assert row.accepted is not None
    assert row.accepted.value == pytest.approx((4.5 + 3) / 2)
    assert (row.nodes, row.hit) == (6.0, pytest.approx(60))


def test_a_shorter_output_is_not_a_faster_one() -> None:
    """Half the tokens in half the time: the same speed, and end to end the same seconds for as many tokens."""
    row = rows(record(), record("short", tokens=(1, 2, 3, 4), decode_seconds=3.0))[1]
    assert row.decode_speedup == row.total_speedup == Interval(1.0, None, None)


def test_wrong_tokens_are_told_with_the_earliest_and_the_largest_gap() -> None:
    bad = [record("bad", "a", divergence=Divergence(7, 3.5)), record("bad", "b", divergence=Divergence(2, 0.01))]
    row = rows(*(record(document=name) for name in "abc"), *bad, record("bad", "c"))[1]
    assert (row.runs, row.equal, row.difference, row.gap) == (3, 1, 3, 3.5)
    assert rows(record("alone"))[0].decode_speedup is None


# ------------------------------------------------------------------------------------------------------------ text


def test_facts_name_machine_software_settings_and_what_was_left_out() -> None:
    settings = {"dtype": "float32", "lengths": [512, 1024], "inputs": [], "draft": None, "tree": {"nodes": 50}}
    found = facts(benchmark(record(), settings=settings, skipped={"llama.cpp": "it is not installed"}))
    assert found["processor"] == "Example CPU @ 2.0 GHz, 2 threads"
    assert found["settings"] == "dtype float32, lengths 512/1024, tree (nodes 50)"
    assert (found["seed"], found["left out: llama.cpp"]) == ("7", "it is not installed")


def test_formats_agree() -> None:
    made = realistic()
    found = Measurements(made.records, made.seed).rows
    by_csv = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    whole = json.loads(render(made, "json"))
    assert render(made, "json", indent=None).count("\n") == 1
    assert whole["schema"] == SCHEMA
    assert len(whole["records"]) == len(made.records)
    for row, fields, summary in zip(found, by_csv, whole["summary"], strict=True):
        assert row.decode_speedup is not None
        assert summary["decode_speedup"]["low"] == row.decode_speedup.low == float(fields["decode_speedup low"])
        assert (summary["method"], summary["length"]) == (row.method, row.length) == (fields["method"], row.length)
    text = render(made, "md")
    assert text.startswith("## methods\n\nHow do the methods compare?\n\n### Methods\n\n| prompt (tokens) | method |")
    assert "- left out: llama.cpp: llama-cpp-python is not installed\n" in text


def test_experiments_have_their_tables_in_every_format() -> None:
    table = Table("Sizes", ("name", "n"), (("a", 1),))
    made = benchmark(experiments=(Experiment("one", "What?", (table, table)),))
    assert render(made, "csv") == "name,n\na,1\n\nname,n\na,1\n"
    assert render(made, "md").count("### Sizes") == 2
    assert json.loads(render(made, "json"))["experiments"][0]["tables"][0]["rows"] == [["a", 1]]


@pytest.mark.parametrize("form", ["md", "csv", "json"])
def test_an_empty_benchmark_and_untrusted_text_are_harmless(form: Format) -> None:
    assert render(benchmark(), form).endswith("\n")
    text = render(untrusted_benchmark(), form)
    assert not controls(text)
    text.encode()
    if form == "md":
        assert "<script" not in text.replace("\\<", "")


# -------------------------------------------------------------------------------------------------------- terminal


def shown(renderable: RenderableType, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, markup=True, highlight=False)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [40, 64, 80, 120, 200])
def test_the_table_fits_the_width_of_the_terminal(width: int) -> None:
    text = shown(report(realistic(lengths=(512, 8192)), width), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert all(needed in text for needed in ("512", "8,192 (scaled)", "specextend", "tokens/s"))
    assert ("equal" in text.partition("Tokens/s and")[0]) == (width >= 80)  # the most important columns come first
    assert ("nodes" in text) == (width == 200)


def test_untrusted_text_is_text_on_a_terminal() -> None:
    text = shown(report(untrusted_benchmark(), 400), 400)
    assert not controls(text)
    assert "[red]x[/red]<script>" in text


# ------------------------------------------------------------------------------------------------------------ page

SVG = "{http://www.w3.org/2000/svg}"
EXPERIMENT = Experiment(
    UNTRUSTED,
    UNTRUSTED,
    (Table(UNTRUSTED, (UNTRUSTED,), ((UNTRUSTED,), (None,)), UNTRUSTED),),
    (Plot(UNTRUSTED, UNTRUSTED, "$x$", {UNTRUSTED: [Point(1, 1)]}, note=UNTRUSTED),),
)


def test_a_page_has_the_table_every_plot_and_all_figures_beside_it(tmp_path: Path) -> None:
    index = write_report(tmp_path / "new" / "report", realistic())
    assert index == tmp_path / "new" / "report" / "index.html"
    assert json.loads((index.parent / "benchmark.json").read_text(encoding="utf-8"))["schema"] == SCHEMA
    page = html.parse(str(index)).getroot()
    pictures = {path.stem for path in index.parent.glob("*.svg")}
    assert len(page.findall(".//svg")) == len(pictures) == 3
    assert "1-decoding-speedup-over-plain" in pictures
    assert len(page.findall(".//table")) == 1
    said = page.text_content()
    for expected in ("Example CPU @ 2.0 GHz", "specextend", "llama-cpp-python is not installed", "seed"):
        assert expected in said


def test_a_page_with_any_text_is_safe_and_requests_nothing(tmp_path: Path) -> None:
    made = untrusted_benchmark()
    index = write_report(tmp_path, benchmark(preset=UNTRUSTED, experiments=(*made.experiments, EXPERIMENT)))
    text = index.read_text(encoding="utf-8")
    assert not controls(text)
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s'\"]+", text)) == namespaces
    elements = list(html.fromstring(text).iter())
    assert not {"script", "link", "img", "iframe", "object"} & {element.tag for element in elements}
    attributes = [pair for element in elements for pair in element.attrib.items()]
    references = {value for name, value in attributes if name in ("src", "href", "xlink:href")}
    assert {value for value in references if not value.startswith("#")} == {"benchmark.json"}
    assert not [name for name, _ in attributes if name.startswith("on")]
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert text.count("url(") == text.count("url(#")
    assert "<script>alert(1)</script>" in html.fromstring(text).text_content()


# ----------------------------------------------------------------------------------------------------------- plots


def texts(plot: Plot) -> list[str]:
    """The texts of the drawn plot, which must be well-formed."""
    return [element.text or "" for element in ElementTree.fromstring(draw(plot)).iter(f"{SVG}text")]


def line(*ys: float, **values: object) -> Plot:
    points = tuple(Point(2.0**index, y, y / 2, y * 2) for index, y in enumerate(ys, start=9))
    return Plot("title", "x label", "y label", {"one": points}, **values)  # type: ignore[arg-type]


def test_a_plot_names_its_axes_lines_and_lengths() -> None:
    drawn = texts(line(1.0, 2.0, 1.5, over_plain=True, note="a note"))
    assert {"title", "x label", "y label", "one", "plain", "a note", "512", "1K", "2K"} <= set(drawn)


@pytest.mark.parametrize(
    "plot", [Plot("t", "x", "y", {}), line(float("nan")), Plot("t", "x", "y", {"s": [Point(0, 1)]})]
)
def test_an_empty_plot_says_so(plot: Plot) -> None:
    assert "nothing was measured" in texts(plot)


def test_the_plots_of_a_benchmark_leave_plain_decoding_out() -> None:
    speedup, total, accepted = realistic().experiments[0].plots
    assert list(speedup.lines) == list(total.lines) == list(accepted.lines)  # the place is the look
    assert "plain" not in speedup.lines
    assert benchmark(record()).experiments[0].plots == ()
