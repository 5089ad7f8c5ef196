"""The three standard streams of the process, made safe before anything is opened or written, and their characters.

A closed descriptor would be reused by the next file that is opened, which would then receive output. Errors on stderr
(a full disk, a reader that is gone) lose messages, never the result. Characters that a stream's encoding or locale
lacks are replaced: with `LC_ALL=C` Python would write UTF-8 although the locale is ASCII; `fit` follows the locale.
"""

from __future__ import annotations

import codecs
import fcntl
import io
import locale
import os
import stat
import sys
from typing import TextIO

STDIN, STDOUT, STDERR = 0, 1, 2

PLAIN = dict(
    zip("▁▂▃▄▅▆▇█━─│╭╮╰╯┌┐└┘├┤╴╶╸╺·×…–—✓✗→", "_.:-=+*#=-|++++++++||-----x.--+x>", strict=True)  # one cell each
)
LACKING, BOTH = "specextend.lacking", "specextend.both"
"""Error handlers: LACKING for encodings that lack characters; BOTH for ASCII locales, where only drawings change."""


def prepare() -> None:
    """Open closed streams on /dev/null, and make writing to stderr never fail. Called at the start of `main`."""
    # stdout gets a read-only descriptor: a result that goes nowhere is an error.
    for descriptor, mode in ((STDIN, os.O_RDONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_WRONLY)):
        if not _is_open(descriptor):
            opened = os.open(os.devnull, mode)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = os.fdopen(STDIN, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    sys.stderr = forgiving(STDERR, encoding)


def forgiving(descriptor: int, encoding: str, errors: str = "backslashreplace") -> TextIO:
    """A text stream onto `descriptor` that drops what cannot be written."""
    buffer = io.BufferedWriter(_Forgiving(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, encoding=encoding, errors=errors, line_buffering=True)


def is_writable(stream: TextIO) -> bool:
    """True if the descriptor of the stream is writable; True without one."""
    try:
        return fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except (OSError, ValueError):
        return True


def are_one(first: TextIO, second: TextIO) -> bool:
    """True if two streams are the same terminal, file (`> all.txt 2>&1`) or pipe (`2>&1 | less`)."""
    try:
        return os.path.samestat(os.fstat(first.fileno()), os.fstat(second.fileno()))
    except (OSError, ValueError):
        return False


def is_pipe(stream: TextIO) -> bool:
    """True if the stream is a pipe."""
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class _Forgiving(io.FileIO):
    def write(self, data: object) -> int:
        """Write the data, or drop it and report success."""
        try:
            written = super().write(data)  # type: ignore[arg-type]  # whatever the buffer above hands over
        except OSError:
            written = None
        return len(data) if written is None else written  # type: ignore[arg-type]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


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


codecs.register_error(LACKING, _lacking)
codecs.register_error(BOTH, _both)
