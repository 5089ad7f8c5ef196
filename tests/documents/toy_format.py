"""A parser of a toy format: lines that begin with "= " are headings."""

from __future__ import annotations

from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source


def parse(source: Source) -> Parsed:
    parsed = Parsed("toy")
    for line in source.path.read_text().splitlines()[1:]:
        parsed.add("heading" if line.startswith("= ") else "paragraph", line.removeprefix("= "))
    return parsed
