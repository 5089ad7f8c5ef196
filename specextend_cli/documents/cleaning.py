"""Cleaning and layout of what was read, within limits: a text of any size goes to another process, as parsing does.

The steps are linear in the size of the text. The limits hold where one of them turns out not to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specextend_cli.documents.clean import sheet, tidy
from specextend_cli.documents.document import Block, Edit, Page, Sheet
from specextend_cli.documents.layout import Text, compose
from specextend_cli.documents.line import Line, grid
from specextend_cli.documents.markdown import compose_markdown
from specextend_cli.documents.names import places
from specextend_cli.documents.outline import Outline
from specextend_cli.documents.process import StoppedError, worker
from specextend_cli.documents.repairs.headers_footers import KEPT
from specextend_cli.documents.repairs.watermarks import KEPT_MARK
from specextend_cli.errors import InputError

SECONDS = 60.0
SECONDS_PER_CHARACTER = 1e-5
SECONDS_PER_PAGE = 2e-3
MEMORY = 4 << 30
SMALL = 8_000
"""Characters; a text of no more is cleaned in this process: even quadratic work on it ends within seconds."""
MAX_ANSWER = 1 << 30

_WITHDRAWN = {KEPT: "lines that return at the edge of the pages", KEPT_MARK: "slanted lines that return"}
_START = "from specextend_cli.documents.cleaning_worker import serve; serve()"


@dataclass(slots=True)
class Cleaned:
    """The text of a document or of some of its pages, what was changed on the way, and each page before and after."""

    text: Text = field(default_factory=Text)
    edits: list[Edit] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """Sentences about repairs that were withdrawn, for they would have removed too much."""
        found = []
        for kind, what in _WITHDRAWN.items():
            if pages := sorted({edit.page for edit in self.edits if edit.kind == kind}):
                found.append(f"{places(pages)}: {what} were kept, because they are a large part of the text there.")
        return found

    def to_json(self) -> dict[str, Any]:
        """As a worker answers."""
        return {
            "text": self.text.text,
            "pages": [(page.number, page.start, page.end, page.title) for page in self.text.pages],
            "blocks": [(block.kind, block.start, block.end) for block in self.text.blocks],
            "joined": self.text.joined,
            "edits": [(edit.kind, edit.page, edit.before, edit.after) for edit in self.edits],
            "sheets": [(page.number, page.found, page.cleaned) for page in self.sheets],
        }

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> Cleaned:
        """The inverse of `to_json`."""
        pages, blocks = [Page(*page) for page in answer["pages"]], [Block(*block) for block in answer["blocks"]]
        sheets = [Sheet(number, tuple(found), tuple(cleaned)) for number, found, cleaned in answer["sheets"]]
        edits = [Edit(*edit) for edit in answer["edits"]]
        return cls(Text(answer["text"], pages, blocks, answer["joined"]), edits, sheets)


def clean_lines(name: str, pages: Sequence[Sequence[Line]], outline: Outline, keep: Iterable[int]) -> Cleaned:
    """Pages of lines; those not in `keep` only help to tell running heads. InputError beyond the limits."""
    lines = [[_packed(line) for line in page] for page in pages]
    job = {"form": "lines", "pages": lines, "outline": list(outline), "keep": sorted(keep)}
    return _cleaned(name, job, sum(len(line.text) for page in pages for line in page))


def clean_text(name: str, pages: Sequence[str], keep: Iterable[int]) -> Cleaned:
    """The pages of a text, of which `keep` are wanted. InputError beyond the limits."""
    return _cleaned(name, {"form": "text", "pages": list(pages), "keep": sorted(keep)}, sum(map(len, pages)))


def clean_markdown(name: str, pages: Sequence[tuple[int, str]]) -> Cleaned:
    """Numbered pages of Markdown. InputError beyond the limits."""
    return _cleaned(name, {"form": "markdown", "pages": list(pages)}, sum(len(text) for _, text in pages))


def answer(job: Mapping[str, Any]) -> Cleaned:
    """What one of the functions above asks for, in whichever process."""
    if job["form"] == "markdown":
        return Cleaned(*compose_markdown([(number, text) for number, text in job["pages"]]))
    if job["form"] == "text":
        found = [grid(text, number) for number, text in enumerate(job["pages"], 1)]
    else:
        found = [[_unpacked(line) for line in page] for page in job["pages"]]
    keep = frozenset(job["keep"])
    tidied, edits = tidy(found)
    kept = [[line for line in page if line.page in keep] for page in tidied]
    text = compose([page for page in kept if page], [(title, page) for title, page in job.get("outline", ())])
    sheets = [sheet(page[0].page, page, left) for page, left in zip(found, tidied, strict=True) if page]
    return Cleaned(
        text, [edit for edit in edits if edit.page in keep], [made for made in sheets if made.number in keep]
    )


def _cleaned(name: str, job: dict[str, Any], size: int) -> Cleaned:
    if size <= SMALL:
        return answer(job)
    seconds = SECONDS + SECONDS_PER_CHARACTER * size + SECONDS_PER_PAGE * len(job["pages"])
    try:
        with worker(_START, {**job, "memory": MEMORY}, first=seconds, most=MAX_ANSWER) as answers:
            return Cleaned.from_json(next(answers))
    except StoppedError:
        why = f"putting its text in order took more than {seconds:,.0f} seconds or {MEMORY >> 30} GB of memory"
        raise InputError(f"{name} could not be read", why=why, fix="split it and give the parts") from None


def _packed(line: Line) -> tuple[Any, ...]:
    placed = (line.text, line.page, line.left, line.right, line.base, line.size)
    return (*placed, line.bold, line.slanted, line.turn, line.gaps)


def _unpacked(line: Sequence[Any]) -> Line:
    text, page, left, right, base, size, bold, slanted, turn, gaps = line
    ends = tuple((start, end) for start, end in gaps)
    return Line(text, page, left, right, base, size, bold, slanted, ends, turn)
