"""Tables for programs: a line a row, cells between tabs, nothing folded, cut or drawn."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

_BREAK = re.compile(r"\s*[\t\n\r]+\s*")


def lines(renderable: RenderableType) -> Iterator[str]:
    """What a result made for people is in a pipe: a table's header and rows, between tabs; texts as they are."""
    if isinstance(renderable, Group):
        for part in renderable.renderables:
            yield from lines(part)
    elif isinstance(renderable, Table):
        yield "\t".join(_cell(column.header) for column in renderable.columns)
        for row in zip(*(column.cells for column in renderable.columns), strict=True):
            yield "\t".join(map(_cell, row))
    else:
        yield _plain(renderable)


def _cell(content: RenderableType) -> str:
    """On one line, and without a tab of its own."""
    return _BREAK.sub(" ", _plain(content)).strip()


def _plain(content: RenderableType) -> str:
    return content.plain if isinstance(content, Text) else str(content)
