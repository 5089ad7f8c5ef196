from __future__ import annotations

import pytest

from specextend_cli.documents.request import parse_pages
from specextend_cli.errors import InputError, UsageError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("3", (3,)), ("3-5,9", (3, 4, 5, 9)), (" 2 - 3 , 1,1 ", (1, 2, 3)), ("8-", (8, 9, 10)), ("2–4", (2, 3, 4))],
)
def test_ranges(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_pages(text).numbers(10, "x.pdf") == numbers


@pytest.mark.parametrize("text", ["", "a", "1,,2", "-3", "0", "0-4", "9-3", "1-2-3", "1.5", "9" * 12])
def test_unreadable(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pages(text)
    assert caught.value.why
    assert caught.value.fix == "--pages 3-10,20"


@pytest.mark.parametrize("text", ["11", "4-11", "12-"])
def test_out_of_range(text: str) -> None:
    with pytest.raises(InputError, match=r"x\.pdf has 10 pages: there is no page 1[12]") as caught:
        parse_pages(text).numbers(10, "x.pdf")
    assert caught.value.fix == "--pages 1-10"


def test_printed_as_typed() -> None:
    assert str(parse_pages("3-10, 20, 30-")) == "3-10,20,30-"
