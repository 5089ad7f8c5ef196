from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specextend_cli.bench.formats import Cell, Interval, Table, dumps, format_cell, format_length, to_csv, to_markdown
from tests.bench.made_benchmark import UNTRUSTED, controls

ROWS = [
    {"name": "a|b", "speed": 1.23456, "gain": Interval(1.9, 1.8, 2.0), "hit": None},
    {"name": "c", "speed": 12345.6, "gain": None, "hit": 7},
]
TABLE = Table.of("Sizes", ROWS, "By size.")


def test_a_table_becomes_markdown() -> None:
    assert to_markdown(TABLE) == (
        "### Sizes\n\n| name | speed | gain | hit |\n|---|---:|---:|---:|\n| a\\|b | 1.23 | 1.90 (1.80-2.00) | – |\n"
        "| c | 12,346 | – | 7 |\n\nBy size.\n"
    )


def test_csv_keeps_numbers_whole_and_gives_an_interval_three_columns() -> None:
    assert to_csv(TABLE) == "name,speed,gain,gain low,gain high,hit\na|b,1.23456,1.9,1.8,2.0,\nc,12345.6,,,,7\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "inf"),
        (0.0, "0"),
        (0, "0"),
        (1234567, "1,234,567"),
        (0.04, "0.0400"),
        (0.00012345, "0.00012"),
        (-1.5, "-1.50"),
        (99.95, "100.0"),
        (1999.9, "2,000"),
        ("two\nlines", "two lines"),
        (Interval(1.5, None, None), "1.50"),
        (Interval(1.5, 1.5, 1.5), "1.50"),
    ],
)
def test_numbers_are_rounded_for_people(value: Cell, text: str) -> None:
    assert format_cell(value) == text


@pytest.mark.parametrize(("length", "shown"), [(512, "512"), (1024, "1K"), (16384, "16K"), (1000, "1000"), (0, "0")])
def test_lengths_are_shown_short(length: int, shown: str) -> None:
    assert format_length(length) == shown


@pytest.mark.parametrize("form", [to_markdown, to_csv])
def test_untrusted_text_is_harmless(form) -> None:
    text = form(Table(UNTRUSTED, (UNTRUSTED, "n"), ((UNTRUSTED, 1.0),), UNTRUSTED))
    assert not controls(text)
    text.encode()
    if form is to_markdown:
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
