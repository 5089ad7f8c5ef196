"""Small charts of block characters, and replacements for characters that a stream's encoding or locale lacks.

With `LC_ALL=C` Python would write UTF-8 although the locale is ASCII; `fit` follows the locale.
"""

from __future__ import annotations

import codecs
import locale
import os
from collections.abc import Mapping, Sequence
from math import ceil
from typing import TextIO

BLOCKS = "▁▂▃▄▅▆▇█"
BINS = 6

PLAIN = dict(
    zip("▁▂▃▄▅▆▇█━─│╭╮╰╯┌┐└┘├┤╴╶╸╺·×…–—✓✗→", "_.:-=+*#=-|++++++++||-----x.--+x>", strict=True)  # one cell for one
)
LACKING, BOTH = "specextend.lacking", "specextend.both"
"""Error handlers: for an encoding that has not all characters, and for ASCII where only what is drawn has to change."""


def fit(stream: TextIO, *, drawn: bool) -> TextIO:
    """`stream`, on which a character that its encoding or, for what is `drawn`, its locale lacks is never fatal."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None:
        return stream
    if drawn and (stream.encoding or "").lower().startswith("utf") and _ascii_locale():
        reconfigure(encoding="ascii", errors=BOTH)
    elif stream.errors != BOTH:
        reconfigure(errors=LACKING)
    return stream


def _ascii_locale() -> bool:
    """Whether the user chose a locale that has ASCII alone. One that is not installed was no such choice."""
    chosen = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    if chosen not in ("C", "POSIX"):
        return False
    try:
        return codecs.lookup(locale.nl_langinfo(locale.CODESET)).name == "ascii"
    except LookupError:
        return False


def _lacking(error: UnicodeError) -> tuple[str, int]:
    """What is drawn becomes something like it, everything else a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(PLAIN.get(one, "?") for one in error.object[error.start : error.end]), error.end


def _both(error: UnicodeError) -> tuple[bytes, int]:
    """What is drawn becomes something like it; names and words stay what they are, in UTF-8."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(PLAIN.get(one, one) for one in error.object[error.start : error.end])
    return text.encode("utf-8", "replace"), error.end


def block(share: float) -> str:
    """The block character whose height shows `share` of one."""
    return BLOCKS[min(int(share * len(BLOCKS)), len(BLOCKS) - 1)]


def histogram(lengths: Mapping[int, int]) -> list[tuple[str, float]]:
    """Accepted lengths in the bins "1" ... "6+", each with its share of all steps."""
    total = sum(lengths.values()) or 1
    counts = [0] * BINS
    for length, count in lengths.items():
        counts[min(length, BINS) - 1] += count
    return [(f"{size}+" if size == BINS else str(size), count / total) for size, count in enumerate(counts, start=1)]


def density(spans: Sequence[tuple[int, int]], length: int, cells: int) -> list[float]:
    """How much of each of `cells` equal parts of `length` positions the sorted half-open `spans` cover, 0 to 1."""
    covered = [0.0] * cells
    if not length:
        return covered
    width = length / cells
    for start, end in spans:
        for cell in range(int(start / width), min(ceil(end / width), cells)):
            covered[cell] += max(min(end, (cell + 1) * width) - max(start, cell * width), 0.0)
    return [min(amount / width, 1.0) for amount in covered]


codecs.register_error(LACKING, _lacking)
codecs.register_error(BOTH, _both)
