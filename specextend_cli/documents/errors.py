"""Messages about files: names, pages and numbers as they show them, and errors for files that cannot be read."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from specextend_cli.documents.formats import FORMATS, format_names, kind_by_suffix
from specextend_cli.documents.source import Source
from specextend_cli.errors import InputError, SpecextendError, UsageError, cause
from specextend_cli.humanize import format_many, format_numbers, printable

ERRORS: dict[str, type[SpecextendError]] = {"input": InputError, "usage": UsageError}
"""The errors that a process of the sandbox reports, by the names under which it does."""
MAX_BYTES = 512 << 20
MAX_TEXT_BYTES = 64 << 20
_NAME = 100  # characters
_RANGES = 300  # characters of the pages in a message
_LABEL = 20  # characters of a page label
_NAMED = 10  # attachments in a message
_PUNCTUATION = str.maketrans("", "", "[](),;")  # of citations
_TYPED = frozenset(("text", "markdown", "transcript"))
STDIN = "standard input"


def argument(name: str) -> str:
    """A file name as an argument of a command that the user may paste; FILE for stdin."""
    return "FILE" if name == STDIN else shlex.quote(printable(name))


def argument_of(source: Source) -> str:
    """The same for the document of a request."""
    return argument(source.given or source.name)


def page_label(label: str, number: int) -> str:
    """A page label for citations; "" where it is the page `number`."""
    shown = printable(" ".join(label.translate(_PUNCTUATION).split()))[:_LABEL]
    return "" if shown == str(number) else shown


def places(numbers: Sequence[int], unit: str = "page") -> str:
    """ "Page 3" or "Sections 3, 5-7"."""
    spans = shorten(format_numbers(numbers), _RANGES, placeholder=" …")
    return f"{unit.capitalize()}{'' if len(numbers) == 1 else 's'} {spans}"


def unread(names: Sequence[str]) -> str:
    """ "2 attachments were not read: a.png, b.zip." """
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{were(len(names), 'attachment')} not read: {', '.join(names[:_NAMED])}{more}."


def were(count: int, noun: str) -> str:
    """ "1 picture was" or "2 pictures were"."""
    return f"{format_many(count, noun)} {'was' if count == 1 else 'were'}"


def unreadable(path: Path, name: str, error: OSError) -> InputError:
    """For a path that the system cannot open."""
    if isinstance(error, FileNotFoundError) and path.is_symlink():
        why = f"it is a link to {printable(str(path.readlink()))}"
        return InputError(f"{name} leads to a file that does not exist", why=why)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        why = "" if path.parent.is_dir() else f"there is no directory {printable(str(path.parent))}"
        return InputError(f"{name} does not exist", why=why)
    if isinstance(error, PermissionError):
        return InputError(f"{name} cannot be read", why="permission denied", fix=f"chmod u+r {argument(str(path))}")
    return InputError(f"{name[:_NAME]} cannot be read", why=cause(error))


def not_read(source: Source, kind: str) -> InputError:
    """For a format that is recognized and not read."""
    name = source.name
    fix = with_ocr(source) if kind == "image" else FORMATS[kind].hint.replace("FILE", argument_of(source))
    *names, last = format_names()
    why = f"read are {', '.join(names)} and {last}"
    return InputError(f"{name} is {FORMATS[kind].label}{contradiction(name, kind)}", why=why, fix=fix)


def contradiction(name: str, kind: str) -> str:
    """ ", not a PDF": where the suffix of a file promises another format than it has; else ""."""
    promised = kind_by_suffix(Path(name).suffix) or kind
    agrees = promised == kind or {promised, kind} <= _TYPED
    return "" if agrees else f", not {FORMATS[promised].label}"


def with_ocr(source: Source) -> str:
    """The command that reads a scan."""
    return f"specextend summarize {argument_of(source)} --ocr"
