"""The characters that bars, boxes and separators are drawn with, and what stands for them where there are none.

A stream's encoding may lack them; or its locale does (`LC_ALL=C`), while Python, which takes that for a mistake, would
write them in UTF-8.
"""

from __future__ import annotations

import codecs
import locale
import os
from typing import TextIO

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


codecs.register_error(LACKING, _lacking)
codecs.register_error(BOTH, _both)
