"""Numbers of lines in the margin, as pleadings, scripts and bills have them, go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from specextend_cli.documents.document import Edit
from specextend_cli.documents.line import Line
from specextend_cli.documents.repairs.repair import Pages, Repaired

_NUMBERED = re.compile(r"(\d{1,4})(?:\t\s*(?=\S)|$)")
_ENOUGH, _MOST = 8, 200  # numbers on a page
_NEAR = 3  # pages


def line_numbers(pages: Pages) -> Repaired:
    """Numbers that count up one below the other, left of prose, at the same heights on several pages."""
    found = [_longest(page) for page in pages]
    heights = [{round(line.base) for line in run} for run in found]
    edits: list[Edit] = []
    fixed: list[list[Line]] = []
    for place, (page, run) in enumerate(zip(pages, found, strict=True)):
        around = (heights[at] for at in range(max(place - _NEAR, 0), min(place + _NEAR + 1, len(pages))) if at != place)
        enough = _ENOUGH <= len(run) <= _MOST and any(len(heights[place] & other) >= 0.8 * len(run) for other in around)
        fixed.append(_without(page, run, edits) if enough and _beside_prose(page, run) else list(page))
    return fixed, edits


def _longest(page: Sequence[Line]) -> list[Line]:
    """The longest run of lines that begin with numbers, each the one above plus one."""
    numbered = [line for line in page if line.size != 1 and _NUMBERED.match(line.text)]
    return max(_runs(sorted(numbered, key=lambda line: -line.base)), key=len)


def _runs(lines: Iterable[Line]) -> Iterable[list[Line]]:
    run: list[Line] = []
    for line in lines:
        alike = run and abs(line.left - run[-1].left) < 2 * line.size
        if not (alike and _number(line) == _number(run[-1]) + 1):
            yield run
            run = []
        run.append(line)
    yield run


def _number(line: Line) -> int:
    return int(line.text.split("\t")[0])


def _beside_prose(page: Sequence[Line], run: Sequence[Line]) -> bool:
    """Whether most numbers have text beside them, and that text no further columns, as a table has."""
    edge = max(line.left for line in run)
    bases = [line.base for line in page if line.left > edge and "\t" not in line.text]
    joined = sum(line.text.count("\t") == 1 for line in run)
    return joined + sum(any(abs(base - line.base) < line.size for base in bases) for line in run) >= 0.6 * len(run)


def _without(page: Sequence[Line], run: Sequence[Line], edits: list[Edit]) -> list[Line]:
    numbers = {id(line) for line in run}
    kept: list[Line] = []
    for line in page:
        if id(line) not in numbers:
            kept.append(line)
            continue
        number, _, rest = line.text.partition("\t")
        edits.append(Edit("line number", line.page, number))
        if rest:
            kept.append(replace(line, text=rest.strip(), left=line.right - len(rest) * line.em))
    return kept
