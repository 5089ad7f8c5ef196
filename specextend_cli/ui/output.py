"""stdout, which carries only the result, and stderr, each with a console of its own; sanitized text for them."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import IO, Any, TextIO
from weakref import WeakSet

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from specextend_cli.bench.formats import dumps
from specextend_cli.errors import SpecextendError, UsageError
from specextend_cli.ui.standard_streams import is_writable, status_of

# Colours only repeat what words and figures say.
ACCENT, QUIET, AMBER = "cyan", "bright_black", "yellow"
GOOD, ADDED, REMOVED = "green", "green", "red"
_DUMB = "", "dumb", "unknown"  # what TERM is where escape sequences are not understood
_TABLE = 80  # columns of a table that a narrower terminal has no room for: it breaks the lines, and loses no column
_unfinished: WeakSet[TextIO] = WeakSet()  # streams whose last line is unfinished, for every `Output` of the process

# CSI sequences; OSC, DCS, PM, APC and SOS strings (bounded, so that a stray introducer cannot swallow the text);
# every other escape sequence. Both the seven-bit forms and the C1 ones.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,256}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def sanitize(text: str) -> str:
    """`text` without escape sequences and control characters; newlines and tabs stay."""
    return _SEQUENCE.sub("", text).translate(_CONTROL)


class Output:
    """stdout and stderr of this process; everything is written through it. `quiet`: no progress, no statistics."""

    def __init__(self, stdout: TextIO | None = None, stderr: TextIO | None = None, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self._wrote = False  # to stdout
        self.stdout, self.stderr = stdout or sys.stdout, stderr or sys.stderr
        for stream in (self.stdout, self.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="replace")  # what its encoding lacks
        self.console = _console(self.stderr)
        self.pager = _console(self.stdout)

    @property
    def animated(self) -> bool:
        """True if stderr can show a live panel, which erases no text. FORCE_COLOR enables colours, not animation."""
        if self._wrote and self.piped:
            return False
        return self.stderr.isatty() and os.environ.get("TERM", "") not in _DUMB

    @property
    def piped(self) -> bool:
        """True if stdout is a pipe: its reader (`| tee FILE`) may print the result on the terminal of stderr."""
        status = status_of(self.stdout)
        return status is not None and stat.S_ISFIFO(status.st_mode)

    @property
    def shared(self) -> bool:
        """True if both streams are the same terminal, file or pipe."""
        one, other = status_of(self.stdout), status_of(self.stderr)
        return one is not None and other is not None and os.path.samestat(one, other)

    @property
    def width(self) -> int:
        """Columns of a table on stdout; a pipe or file has no limit."""
        return self.pager.width if self.stdout.isatty() else sys.maxsize

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
        self.write(dumps(value, indent=2) + "\n")

    def show(self, what: RenderableType) -> None:
        """Print a table or text on stdout; in a pipe or file, tables are tab-separated lines."""
        if self.stdout.isatty():
            _print(self.pager, what)
        else:
            self.write("".join(f"{line}\n" for line in tab_separated(what)))

    def note(self, what: RenderableType) -> None:
        """Print a line, or a table, on stderr; strings are sanitized and not read as markup."""
        if self.stdout in _unfinished and self.shared:
            self.stderr.write("\n")
            _unfinished.discard(self.stdout)
        _print(self.console, Text(sanitize(what)) if isinstance(what, str) else what)

    def status(self, what: RenderableType) -> None:
        """`note`, unless `quiet`."""
        if not self.quiet:
            self.note(what)

    def warn(self, message: str) -> None:
        """Write one warning to stderr."""
        self.note(Text.assemble(("warning: ", AMBER), sanitize(message)))


def format_error(error: SpecextendError) -> Text:
    """`error: …`, `why:   …`, `try:   …`, without empty lines; never broken, so that commands can be copied."""
    text = Text.assemble(("error: ", "bold red"), sanitize(error.what), no_wrap=True, overflow="ignore")
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


def closed() -> UsageError:
    """The error for a closed stdout."""
    return UsageError("stdout is closed", why="the result has nowhere to go", fix="redirect it: > FILE, or > /dev/null")


def silence(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null, so that the interpreter's last flush succeeds."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), stream.fileno())


def tab_separated(what: RenderableType) -> Iterator[str]:
    """A table or text as lines for programs: table cells separated by tabs, text unchanged."""
    if isinstance(what, Group):
        for part in what.renderables:
            yield from tab_separated(part)
    elif isinstance(what, Table):
        headers = [[column.header for column in what.columns]] if what.show_header else []
        for row in (*headers, *zip(*(column.cells for column in what.columns), strict=True)):
            yield "\t".join(" ".join(_plain(cell).split()) for cell in row)
    else:
        yield _plain(what)


def _plain(content: RenderableType) -> str:
    return content.plain if isinstance(content, Text) else str(content)


def _console(stream: IO[str], width: int | None = None) -> Console:
    is_dumb = os.environ.get("TERM", "") in _DUMB and "FORCE_COLOR" not in os.environ
    plain = False if is_dumb else None
    return Console(file=stream, width=width, force_terminal=plain, markup=False, highlight=False, emoji=False)


def _print(console: Console, what: RenderableType) -> None:
    """Print on a terminal, with lines that end between words; elsewhere as `tab_separated`."""
    terminal = console.file.isatty()
    if isinstance(what, Text):
        console.print(what, soft_wrap=not terminal)
    elif not terminal:
        console.file.write("".join(f"{line}\n" for line in tab_separated(what)))
    elif console.measure(what, options=console.options.update_width(_TABLE)).minimum > console.width:
        _console(console.file, _TABLE).print(what)
    else:
        console.print(what)
