"""Every number of a table comes out whole, however it is kerned and drawn, and the cells stay apart."""

from __future__ import annotations

import random

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.raw_pdf import raw_pdf, show, show_apart, width

MOST = 0.08  # em of kerning
PRODUCERS = ("a text a cell", "an array a row", "a character at a time")


def number(chance: random.Random) -> str:
    kinds = (
        lambda: f"{chance.randint(1, 99_999_999):,}",
        lambda: f"{chance.randint(0, 23)}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}",
        lambda: f"{chance.uniform(-99, 99):.2f}",
        lambda: f"{chance.uniform(1, 9):.1f}e{chance.randint(-9, 9)}",
        lambda: f"({chance.randint(1_000, 999_999):,})",
        lambda: f"${chance.randint(1, 99_999):,}.{chance.randint(0, 99):02}",
        lambda: str(chance.randint(0, 9_999)),
        lambda: f"{chance.uniform(0, 100):.1f}%",
    )
    return chance.choice(kinds)()


def kerned(text: str, size: float, kerning: list[float]) -> tuple[list[tuple[float, str]], float]:
    """The characters with their distance from the first, and the width."""
    at, made = 0.0, []
    for letter, gap in zip(text, kerning, strict=False):
        made.append((at, letter))
        at += width(letter, size) + gap * size
    return made, at - kerning[len(text) - 1] * size


def table(seed: int, producer: str) -> tuple[bytes, list[list[str]]]:
    """A table with columns of numbers, kerned alike in all rows or each by itself, set to the left or right."""
    chance = random.Random(seed)
    size, columns, count = chance.choice((8, 9, 10, 11)), chance.randint(2, 5), chance.randint(3, 9)
    alike, right, gap = chance.random() < 0.6, chance.random() < 0.5, chance.choice((1.0, 1.5, 3.0)) * size
    of_one_form = chance.random() < 0.5
    cells = [
        [f"{chance.randint(10_000_000, 99_999_999):,}" if of_one_form else number(chance) for _ in range(columns)]
        for _ in range(count)
    ]
    rows = [[f"Item {chr(65 + row)}", *more] for row, more in enumerate(cells)]
    levels = (0, 0, 0.03, 0.05, MOST)
    common = [[chance.choice(levels) if alike else MOST for _ in range(14)] for _ in range(columns + 1)]
    widths = [max(kerned(row[at], size, common[at])[1] for row in rows) for at in range(columns + 1)]
    content = show(72, 740, "All numbers in thousands of dollars of the year", size)
    for line, row in enumerate(rows):
        left, y, drawn = 72.0, 700 - 1.3 * size * line, []
        for at, cell in enumerate(row):
            kerning = common[at] if alike else [chance.uniform(0, MOST) for _ in range(14)]
            letters, wide = kerned(cell, size, kerning)
            start = left + (widths[at] - wide if right and at else 0)
            drawn.append([(start + place, letter) for place, letter in letters])
            left += widths[at] + gap
        if producer == "a text a cell":
            content += "".join(show_apart(cell, y, size) for cell in drawn)
        elif producer == "an array a row":
            content += show_apart([letter for cell in drawn for letter in cell], y, size)
        else:
            content += "".join(show(x, y, letter, size) for cell in drawn for x, letter in cell)
    return raw_pdf([content]), rows


@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 200), marks=pytest.mark.full)])
def test_numbers_of_tables_are_whole(producer: str, seeds: range) -> None:
    for seed in seeds:
        data, rows = table(seed, producer)
        text = read_bytes("a.pdf", data).text.split("\n\n", 1)[1]
        assert text == "\n".join("  ".join(row) for row in rows), seed


def test_digits_kerned_at_one_place_in_all_rows_are_no_columns() -> None:
    content = show(72, 720, "All numbers in thousands of dollars of the year", 8)
    values = ("14,918,000", "17,628,000", "11,347,000", "12,745,000")
    for row, value in enumerate(values):
        content += show(72, 700 - 12 * row, f"Item {'ABCD'[row]}", 8)
        parts = f"({value[0]}) -30 ({value[1:5]}) -30 ({value[5:]})"
        content += f"BT /F0 8 Tf 172 {700 - 12 * row} Td [{parts}] TJ ET\n"
    lines = read_bytes("a.pdf", raw_pdf([content])).text.split("\n")
    assert lines[2:] == [f"Item {'ABCD'[row]}  {value}" for row, value in enumerate(values)]


def test_letter_spaced_numbers_are_whole() -> None:
    """All digits are further apart than the letters beside them."""
    content = ""
    for row, value in enumerate(("12:15:45", "12:16:45", "13:10:05", "09:41:30")):
        letters, _ = kerned(value, 12, [0.12] * len(value))
        content += show(72, 700 - 14 * row, f"Reading {'ABCD'[row]} of the mill")
        content += show_apart([(240 + place, letter) for place, letter in letters], 700 - 14 * row, 12)
    lines = read_bytes("a.pdf", raw_pdf([content])).text.split("\n")
    assert [line.split("  ")[-1] for line in lines] == ["12:15:45", "12:16:45", "13:10:05", "09:41:30"]


@pytest.mark.parametrize("gap", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("rise", [2.0, 4.0])
def test_a_raised_change_beside_a_price_is_no_exponent(gap: float, rise: float) -> None:
    content, at = "", 72.0
    for text, size, up in (("The share stood at 12.14", 12, 0.0), ("-0.11", 8, rise), ("(-0.90%)", 8, rise)):
        content += show(at, 700 + up, text, size)
        at += width(text, size) + gap
    content += show(72, 660, "It rose to 1,234.50") + show(72 + width("It rose to 1,234.50", 12), 660 + rise, "+12%", 8)
    text = " ".join(read_bytes("a.pdf", raw_pdf([content])).text.replace("(", " (").split())
    assert text == "The share stood at 12.14 -0.11 (-0.90%) It rose to 1,234.50 +12%"


def test_a_raised_decimal_after_an_integer_is_an_exponent() -> None:
    content = show(72, 700, "About 10") + show(72 + width("About 10", 12), 704, "4.5", 8)
    content += show(72 + width("About 10", 12) + width("4.5", 8), 700, " litres")
    assert read_bytes("a.pdf", raw_pdf([content])).text == "About 10^4.5 litres"
