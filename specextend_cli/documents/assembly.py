"""Pages that are put together one after the other, each with blocks of its own, into one text."""

from __future__ import annotations

from collections.abc import Iterable

from specextend_cli.documents.document import Block, Page
from specextend_cli.documents.layout import Text

_JOINT = "\n\n"


class Assembly:
    """The text of a document under construction: `add` its pages in order, then ask for the `text`."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._starts: list[tuple[int, int, str]] = []
        self._blocks: list[Block] = []
        self._at = 0

    def add(self, number: int, body: str, blocks: Iterable[Block], title: str = "") -> None:
        """One more page or section; `blocks` lie in its `body`. One without text is passed over."""
        if not body:
            return
        if self._parts:
            self._parts.append(_JOINT)
            self._at += len(_JOINT)
        self._starts.append((number, self._at, title))
        self._blocks += (Block(block.kind, self._at + block.start, self._at + block.end) for block in blocks)
        self._parts.append(body)
        self._at += len(body)

    @property
    def text(self) -> Text:
        """What was added: pages lie next to each other, the blank line between two belonging to the first."""
        ends = [*(start for _, start, _ in self._starts[1:]), self._at]
        pages = [
            Page(number, start, end, title)
            for (number, start, title), end in zip(self._starts, ends, strict=False)  # one end too many without pages
        ]
        return Text("".join(self._parts), pages, self._blocks)
