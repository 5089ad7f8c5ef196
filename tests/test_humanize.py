from __future__ import annotations

import pytest

from specextend_cli.humanize import (
    format_bytes,
    format_many,
    format_numbers,
    format_percent,
    format_seconds,
    format_speedup,
)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (format_seconds(0.42), "0.4 s"),
        (format_seconds(42.4), "42 s"),
        (format_seconds(5400), "1:30:00"),
        (format_bytes(93_000_000), "93.0 MB"),
        (format_percent(0.999), "99%"),
        (format_percent(1.0), "100%"),
        (format_speedup(0.97), "0.97×"),
        (format_speedup(1.92), "1.9×"),
        (format_numbers((90, 31, 88, 89)), "31, 88-90"),
        (format_many(1200, "page"), "1,200 pages"),
    ],
)
def test_formats(shown: str, expected: str) -> None:
    assert shown == expected
