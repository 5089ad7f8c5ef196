from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.bench.tables import (
    Cell,
    Experiment,
    Format,
    HeatMap,
    LinePlot,
    Point,
    Table,
    dumps,
    format_cell,
    render,
    to_csv,
    to_markdown,
)
from specextend_cli.humanize import format_percent
from tests.bench.untrusted_text import UNTRUSTED, controls

TABLE = Table("Sizes", ("name", "speed", "hit"), (("a|b", 1.23456, None), ("c", 12345.6, 7)), "By size.")
EXPERIMENT = Experiment(
    "parameters",
    "What does each size buy?",
    (TABLE, replace(TABLE, title="Again")),
    (
        LinePlot("p", "x", "y", {"s": [Point(1, 2, 1.5, 2.5)]}),
        HeatMap("h", "x", "y", {"a": {"1": None}}),
    ),
)


def test_a_table_becomes_markdown() -> None:
    assert to_markdown(TABLE) == (
        "### Sizes\n\n| name | speed | hit |\n|---|---:|---:|\n| a\\|b | 1.23 | – |\n| c | 12,346 | 7 |\n\nBy size.\n"
    )


def test_csv_keeps_numbers_whole() -> None:
    assert to_csv(TABLE) == "name,speed,hit\na|b,1.23456,\nc,12345.6,7\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
        (0.0, "0"),
        (0, "0"),
        (12, "12"),
        (1234567, "1,234,567"),
        (0.04, "0.0400"),
        (0.00012345, "0.00012"),
        (-1.5, "-1.50"),
        (99.95, "100.0"),
        (1999.9, "2,000"),
        ("two\nlines", "two lines"),
    ],
)
def test_numbers_are_rounded_for_people(value: Cell, text: str) -> None:
    assert format_cell(value) == text


def test_percent_says_none_and_all_only_where_it_is_so() -> None:
    assert [format_percent(share) for share in (0, 0.001, 0.814, 0.999, 1)] == ["0%", "1%", "81%", "99%", "100%"]


def test_every_format() -> None:
    assert render(EXPERIMENT, "md").startswith("## parameters\n\nWhat does each size buy?\n\n### Sizes\n")
    assert render(EXPERIMENT, "csv").count("name,speed,hit\n") == 2
    value = json.loads(render(EXPERIMENT, "json"))
    assert [plot["kind"] for plot in value["plots"]] == ["LinePlot", "HeatMap"]
    assert value["tables"][0]["rows"] == [["a|b", 1.23456, None], ["c", 12345.6, 7]]
    lines = [json.loads(line) for line in render(EXPERIMENT, "jsonl").splitlines()]
    assert lines[0] == {"experiment": "parameters", "table": "Sizes", "name": "a|b", "speed": 1.23456, "hit": None}
    assert len(lines) == 4


@pytest.mark.parametrize("format", ["md", "csv", "json", "jsonl"])
def test_untrusted_text_is_harmless(format: Format) -> None:
    table = Table(UNTRUSTED, (UNTRUSTED, "n"), ((UNTRUSTED, 1.0),), UNTRUSTED)
    text = render(Experiment(UNTRUSTED, UNTRUSTED, (table,)), format)
    assert not controls(text)
    text.encode()
    if format == "md":
        assert "<script" not in text.replace("\\<", "")
        assert "\n# h" not in text


@given(st.text())
def test_json_is_for_terminals_too_and_comes_back(text: str) -> None:
    said = dumps({"key": [text, float("nan"), float("inf"), 1.5]})
    assert not {character for character in said if ord(character) < 32 or 0x7F <= ord(character) < 0xA0}
    assert json.loads(said) == {"key": [text, None, None, 1.5]}


@given(st.lists(st.tuples(st.text(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1))
def test_csv_comes_back(rows: list[tuple[str, float]]) -> None:
    read = list(csv.reader(io.StringIO(to_csv(Table("", ("a", "b"), tuple(rows))))))
    assert [float(row[1]) for row in read[1:]] == [row[1] for row in rows]


def test_a_row_of_another_length_than_the_header_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under a header of 2"):
        Table("", ("a", "b"), ((1,),))
