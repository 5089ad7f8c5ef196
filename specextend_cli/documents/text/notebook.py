"""Jupyter notebooks to Markdown: cells in their order, code and the text that it printed in fences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

SUFFIX = ".ipynb"


def as_markdown(text: str) -> tuple[str, int] | None:
    """The Markdown of a notebook, and the number of pictures in it; None for other texts."""
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return None
    # Notebooks of before 2015 have sheets of cells.
    sheets = [book, *_list(book, "worksheets")] if isinstance(book, dict) and "nbformat" in book else []
    cells = [cell for sheet in sheets for cell in _list(sheet, "cells")]
    if not cells:
        return None
    outputs = [output for cell in cells for output in _list(cell, "outputs")]
    pictures = sum(_is_picture(output) for output in outputs)
    return "\n\n".join(part for cell in cells for part in _parts(cell)), pictures


def _parts(cell: dict[str, Any]) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") != "code":
        level = cell.get("level") if cell.get("cell_type") == "heading" else 0
        yield "#" * level + " " * (level > 0) + source if isinstance(level, int) else source
        return
    for block in (source, *map(_printed, _list(cell, "outputs"))):
        if block.strip():
            fence = "```" if "```" not in block else "~~~~~~"
            yield f"{fence}\n{block.rstrip()}\n{fence}"


def _printed(output: dict[str, Any]) -> str:
    """The text that an output is or has beside a picture or a table."""
    data = output.get("data")
    return _joined(data.get("text/plain", "") if isinstance(data, dict) else output.get("text", ""))


def _is_picture(output: dict[str, Any]) -> bool:
    data = output.get("data")
    return isinstance(data, dict) and any(kind.startswith("image/") for kind in data)


def _joined(lines: Any) -> str:
    return "".join(filter(lambda line: isinstance(line, str), lines)) if isinstance(lines, list | str) else ""


def _list(element: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = element.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
