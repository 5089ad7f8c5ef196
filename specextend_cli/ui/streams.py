"""The two output streams, and the text that may go to them.

stdout carries the result and nothing else; stderr carries progress, warnings and errors. Whether a stream is a
terminal, and whether it wants colour, is asked of each of them separately.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from specextend_cli.ui.colours import AMBER

# CSI sequences; OSC, DCS, PM, APC and SOS strings (bounded, so that a stray introducer cannot swallow the text);
# every other escape sequence. Both the seven-bit forms and the C1 ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,256}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_UNFINISHED = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,256}\x1b?|\x1b[ -/]*)\Z"
)
_CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def sanitize(text: str) -> str:
    """`text` without escape sequences and control characters; newlines and tabs stay."""
    return _SEQUENCE.sub("", text).translate(_CONTROL)


class Sanitizer:
    """`sanitize` for text that arrives in pieces: a sequence cut in two is still recognized."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """What may be written now; the start of an unfinished sequence is held back."""
        text = self._held + delta
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        return sanitize(text[: len(text) - len(self._held)])

    def close(self) -> str:
        """The rest, when no more will come."""
        held, self._held = self._held, ""
        return sanitize(held)


class Output:
    """stdout and stderr of this process: what they are, and the only way to write to them."""

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.stdout = _forgiving(stdout or sys.stdout)
        self.stderr = _forgiving(stderr or sys.stderr)
        self.console = _console(self.stderr)
        self.pager = _console(self.stdout)

    @property
    def stdout_is_terminal(self) -> bool:
        """Whether a person reads stdout as it is written."""
        return self.stdout.isatty()

    @property
    def animated(self) -> bool:
        """Whether stderr can show a live panel. FORCE_COLOR asks for colour, never for animation."""
        return self.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")

    @property
    def shared(self) -> bool:
        """Whether both streams end on the same terminal, so that what one writes disturbs the other."""
        if not (self.stdout.isatty() and self.stderr.isatty()):
            return False
        return os.path.samestat(os.fstat(self.stdout.fileno()), os.fstat(self.stderr.fileno()))

    def write(self, text: str) -> None:
        """Write to stdout as it is, at once. A reader that has gone away raises BrokenPipeError."""
        self.stdout.write(text)
        self.stdout.flush()

    def note(self, text: str | Text, style: str = "") -> None:
        """Write one line to stderr; strings are sanitized and never read as markup."""
        self.console.print(Text(sanitize(text)) if isinstance(text, str) else text, style=style, soft_wrap=True)

    def warn(self, message: str) -> None:
        """Write one warning to stderr."""
        self.note(Text.assemble(("warning: ", AMBER), sanitize(message)))

    def show(self, renderable: RenderableType) -> None:
        """Print a result made for people (a table, a list) on stdout."""
        self.pager.print(renderable, soft_wrap=isinstance(renderable, (str, Text)))


def silence(stream: TextIO) -> None:
    """Point a broken stream at nowhere, so that the interpreter's last flush does not complain."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), stream.fileno())


def _forgiving(stream: TextIO) -> TextIO:
    """A character the stream's encoding does not have is replaced, not fatal."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
    return stream


def _console(stream: TextIO) -> Console:
    return Console(file=stream, markup=False, highlight=False, emoji=False)
