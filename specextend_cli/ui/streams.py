"""stdout, which carries only the result, and stderr, each with a console of its own; sanitized text for them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import IO, Any, TextIO
from weakref import WeakSet

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from specextend_cli.errors import SpecextendError, UsageError
from specextend_cli.ui.standard_streams import are_one, fit, is_pipe, is_writable

# Colours only repeat what words and figures say.
ACCENT, QUIET, AMBER = "cyan", "bright_black", "yellow"
GOOD, ADDED, REMOVED = "green", "green", "red"
WIDE = 200  # columns of tables in a pipe or file
WARNED = len("warning: ")
_TABLE = 80  # columns of a table that a narrower terminal has no room for: it breaks the lines, and loses no column
_NARROW = 24  # columns for words, below which lines are not indented
_unfinished: WeakSet[TextIO] = WeakSet()  # streams whose last line is unfinished, for every `Output` of the process

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
_BREAK = re.compile(r"\s*[\t\n\r]+\s*")
_CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def sanitize(text: str) -> str:
    """`text` without escape sequences and control characters; newlines and tabs stay."""
    return _SEQUENCE.sub("", text).translate(_CONTROL)


class Sanitizer:
    """`sanitize` for text in pieces: a sequence split between two of them is recognized."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """The sanitized text; the beginning of an unfinished sequence is kept back."""
        text = self._held + delta
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        return sanitize(text[: len(text) - len(self._held)])

    def close(self) -> str:
        """The rest, at the end of the text."""
        held, self._held = self._held, ""
        return sanitize(held)


class Output:
    """stdout and stderr of this process; everything is written through it. `quiet`: no progress, no statistics."""

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._wrote = False  # to stdout
        self.stdout = fit(stdout or sys.stdout, drawn=False)
        self.stderr = fit(stderr or sys.stderr, drawn=True)
        self.console = _console(self.stderr)
        self.pager = _console(self.stdout)

    @property
    def stdout_is_terminal(self) -> bool:
        """True if stdout is a terminal."""
        return self.stdout.isatty()

    @property
    def animated(self) -> bool:
        """True if stderr can show a live panel, which erases no text. FORCE_COLOR enables colours, not animation."""
        if self._wrote and self.piped:
            return False
        return self.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")

    @property
    def piped(self) -> bool:
        """True if stdout is a pipe: its reader (`| tee FILE`) may print the result on the terminal of stderr."""
        return is_pipe(self.stdout)

    @property
    def shared(self) -> bool:
        """True if both streams are the same terminal, file or pipe."""
        return are_one(self.stdout, self.stderr)

    def draw_on(self, stderr: TextIO) -> None:
        """From now on, write messages to `stderr`."""
        self.stderr = fit(stderr, drawn=True)
        self.console.file = self.stderr

    @property
    def width(self) -> int:
        """Columns of a table on stdout."""
        return self.pager.width if self.stdout_is_terminal else WIDE

    def require_stdout(self) -> None:
        """UsageError if stdout is not writable, before a result is computed."""
        if not is_writable(self.stdout):
            raise closed()

    def write(self, text: str) -> None:
        """Write to stdout unchanged and flush. BrokenPipeError: the reader is gone."""
        self._wrote = True
        self.stdout.write(text)
        self.stdout.flush()
        if text:
            (_unfinished.discard if text.endswith("\n") else _unfinished.add)(self.stdout)

    def write_json(self, value: Any) -> None:
        """Write a record to stdout as indented JSON."""
        from specextend_cli.ui.jsonl import format_json

        self.write(format_json(value) + "\n")

    def note(self, text: str | Text, *, indent: int | None = None) -> None:
        """Write one line to stderr; strings are sanitized and not read as markup.

        With `indent`, a terminal's lines end between words, and all but the first begin with so many spaces.
        """
        self._begin_line()
        shown = Text(sanitize(text)) if isinstance(text, str) else text
        if indent is not None and self.stderr.isatty():
            shown = _wrapped(shown, self.console, indent)
        self.console.print(shown, soft_wrap=True)

    def status(self, text: str | Text, *, indent: int | None = None) -> None:
        """Write one line to stderr, unless `quiet`; `indent` as in `note`."""
        if not self.quiet:
            self.note(text, indent=indent)

    def note_table(self, renderable: RenderableType) -> None:
        """Print a table on stderr."""
        self._begin_line()
        if self.stderr.isatty():
            _for_tables(self.console, renderable).print(renderable)
        else:
            for line in tab_separated(renderable):
                self.stderr.write(f"{line}\n")

    def _begin_line(self) -> None:
        """End an unfinished line of stdout first if both streams are the same file."""
        if self.stdout in _unfinished and self.shared:
            self.stderr.write("\n")
            _unfinished.discard(self.stdout)

    def warn(self, message: str) -> None:
        """Write one warning to stderr."""
        self.note(warning(message), indent=WARNED)

    def show(self, renderable: RenderableType, *, indent: int | None = None) -> None:
        """Print a table or list on stdout; in a pipe or file, tables are tab-separated lines. `indent` as in `note`."""
        if self.stdout_is_terminal:
            if isinstance(renderable, Text) and indent is not None:
                renderable = _wrapped(renderable, self.pager, indent)
            if isinstance(renderable, (str, Text)):
                self.pager.print(renderable, soft_wrap=True)
            else:
                _for_tables(self.pager, renderable).print(renderable)
        else:
            self.write("".join(f"{line}\n" for line in tab_separated(renderable)))


def format_error(error: SpecextendError) -> Text:
    """`error: …`, `why:   …`, `try:   …`, without empty lines."""
    text = Text.assemble(("error: ", "bold red"), sanitize(error.what))
    for label, value in (("why:   ", error.why), ("try:   ", error.fix)):
        if value:
            text.append(f"\n{label}", style="bold")
            text.append(sanitize(value).replace("\n", "\n       "))
    return text


def defect(error: BaseException) -> SpecextendError:
    """An unexpected exception, with what to do about it."""
    detail = f"{type(error).__name__}: {error}".splitlines()[0]
    why = "this is a defect in specextend, not in your document"
    fix = "run again with --debug, and report the traceback with the output of: specextend doctor"
    return SpecextendError(f"something unexpected went wrong ({sanitize(detail)[:300]})", why=why, fix=fix)


def warning(message: str) -> Text:
    """A warning as it is shown."""
    return Text.assemble(("warning: ", AMBER), sanitize(message))


def closed() -> UsageError:
    """The error for a closed stdout."""
    return UsageError("stdout is closed", why="the result has nowhere to go", fix="redirect it: > FILE, or > /dev/null")


def _wrapped(text: Text, console: Console, indent: int) -> Text:
    """`text` in lines that end between words; those that continue another one begin with `indent` spaces."""
    room = console.width - indent
    if room < _NARROW:
        indent, room = 0, console.width
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        head, *rest = line.divide([indent]) if indent else (Text(), line)
        parts = list(rest[0].wrap(console, room)) if rest else []
        lines += [Text.assemble(head if n == 0 else " " * indent, part) for n, part in enumerate(parts)] or [head]
    return Text("\n").join(lines)


def silence(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null, so that the interpreter's last flush succeeds."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), stream.fileno())


def tab_separated(renderable: RenderableType) -> Iterator[str]:
    """A table or text as lines for programs: table cells separated by tabs, text unchanged."""
    if isinstance(renderable, Group):
        for part in renderable.renderables:
            yield from tab_separated(part)
    elif isinstance(renderable, Table):
        yield "\t".join(_one_line(column.header) for column in renderable.columns)
        for row in zip(*(column.cells for column in renderable.columns), strict=True):
            yield "\t".join(map(_one_line, row))
    else:
        yield _plain(renderable)


def _one_line(content: RenderableType) -> str:
    """The text of a cell without line breaks and tabs."""
    return _BREAK.sub(" ", _plain(content)).strip()


def _plain(content: RenderableType) -> str:
    return content.plain if isinstance(content, Text) else str(content)


class _Console(Console):
    """Rich's console with the size of its own terminal, not that of any standard stream."""

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and rows."""
        found = super().size
        try:
            columns, rows = os.get_terminal_size(self.file.fileno())
        except (OSError, ValueError):
            return found
        return ConsoleDimensions(self._width or columns or found.width, self._height or rows or found.height)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size


def _console(stream: IO[str], width: int | None = None) -> Console:
    return _Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def _for_tables(console: Console, renderable: RenderableType) -> Console:
    """`console`, or one of `_TABLE` columns where the words of the table are wider than the terminal."""
    wide = _console(console.file, _TABLE)
    return wide if wide.measure(renderable).minimum > console.width else console
