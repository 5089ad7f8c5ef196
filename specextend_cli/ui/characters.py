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
    zip("▁▂▃▄▅▆▇█━─│╭╮╰╯┌┐└┘├┤╴╶╸╺·×…–—✓✗→", "_.:-=+*#=-|++++++++||-----x.--+x>", strict=True)  # one cell each
)
LACKING, BOTH = "specextend.lacking", "specextend.both"
"""Error handlers: LACKING for encodings that lack characters; BOTH for ASCII locales, where only drawings change."""


def fit(stream: TextIO, *, drawn: bool) -> TextIO:
    """`stream`, made to replace characters that its encoding lacks or, if it is `drawn` on, its locale."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is None:
        return stream
    if drawn and (stream.encoding or "").lower().startswith("utf") and _ascii_locale():
        reconfigure(encoding="ascii", errors=BOTH)
    elif stream.errors != BOTH:
        reconfigure(errors=LACKING)
    return stream


def encodable(text: str, stream: TextIO) -> str:
    """`text` with replacements for the characters that the encoding of `stream` lacks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, LACKING).decode(encoding)


def _ascii_locale() -> bool:
    """True if the user chose an ASCII locale. A locale that is not installed does not count."""
    chosen = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    if chosen not in ("C", "POSIX"):
        return False
    try:
        return codecs.lookup(locale.nl_langinfo(locale.CODESET)).name == "ascii"
    except LookupError:
        return False


def _lacking(error: UnicodeError) -> tuple[str, int]:
    """Replace drawing characters by similar ones, others by a question mark."""
    assert isinstance(error, UnicodeEncodeError)  # the handlers are for writing only
    return "".join(PLAIN.get(one, "?") for one in error.object[error.start : error.end]), error.end


def _both(error: UnicodeError) -> tuple[bytes, int]:
    """Replace drawing characters by similar ones; others stay, in UTF-8."""
    assert isinstance(error, UnicodeEncodeError)
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
    """The share, 0 to 1, of each of `cells` equal parts of `length` positions that the half-open `spans` cover."""
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
