"""Numbers formatted for people."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby


def format_count(number: float) -> str:
    """8192 -> "8,192"."""
    return f"{number:,.0f}"


def format_seconds(seconds: float) -> str:
    """0.42 -> "0.4 s", 42 -> "42 s", 90 -> "1:30", 5400 -> "1:30:00"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else format_clock(whole)


def format_speed(tokens_per_second: float) -> str:
    """ "9.1 tok/s", "1,204 tok/s", or nothing where none is known."""
    if not tokens_per_second:
        return ""
    return f"{tokens_per_second:,.{0 if tokens_per_second >= 10 else 1}f} tok/s"


def format_clock(seconds: float) -> str:
    """Elapsed time in a fixed format, for a display that is updated: 75 -> "1:15"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def format_bytes(number: float) -> str:
    """1_300_000_000 -> "1.3 GB" (decimal units)."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            value = number / size
            return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
    return f"{number:.0f} B"


def format_percent(share: float) -> str:
    """0.814 -> "81%"; "100%" and "0%" are exact."""
    if 0 < share < 1:
        return f"{min(max(round(share * 100), 1), 99)}%"
    return f"{share * 100:.0f}%"


def format_speedup(speedup: float) -> str:
    """1.92 -> "1.9×", 0.97 -> "0.97×": near one, the second digit matters."""
    return f"{speedup:.2f}×" if speedup < 1.095 else f"{speedup:.1f}×"


def is_slower(speedup: float) -> bool:
    """Whether plain decoding is faster by more than timing noise."""
    return speedup < 0.97


def format_many(number: int, noun: str) -> str:
    """(1, "page") -> "1 page", (1200, "page") -> "1,200 pages"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_or(names: Iterable[str]) -> str:
    """ "none, ngram or lm"."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


def format_numbers(numbers: Iterable[int]) -> str:
    """(31, 88, 89, 90) -> "31, 88-90"."""
    runs = (
        [number for _, number in run]
        for _, run in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    )
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def format_pages(first: int, last: int, unit: str = "page") -> str:
    """ "page 4" or "pages 4-9", or "sections 4-9"."""
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"


def printable(name: str) -> str:
    """A file name without control characters, as names may contain terminal escapes."""
    return "".join(character if character.isprintable() else "�" for character in name)
