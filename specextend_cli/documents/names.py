"""File names, page labels and numbers as messages show them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from specextend_cli.documents.line import runs
from specextend_cli.humanize import printable

_RANGES = 40  # of pages in a message
_LABEL = 20  # characters of a page label
_PUNCTUATION = str.maketrans("", "", "[](),;")  # of citations
STDIN = "standard input"


def argument(name: str) -> str:
    """A file name as an argument of a command that the user may paste; FILE for stdin."""
    return "FILE" if name == STDIN else shlex.quote(printable(name))


def page_label(label: str, number: int) -> str:
    """A page label for citations; "" where it is the page `number`."""
    shown = printable(" ".join(label.translate(_PUNCTUATION).split()))[:_LABEL]
    return "" if shown == str(number) else shown


def places(numbers: Sequence[int], unit: str = "page") -> str:
    """ "Page 3" or "Sections 3, 5-7"."""
    ranges = list(runs(sorted(numbers), lambda run, number: number == run[-1] + 1))
    spans = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in ranges[:_RANGES])
    if len(ranges) > _RANGES:
        spans += f" and {sum(map(len, ranges[_RANGES:])):,} more"
    return f"{unit.capitalize()}{'' if len(numbers) == 1 else 's'} {spans}"
