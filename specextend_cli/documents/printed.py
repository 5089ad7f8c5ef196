"""A line of a PDFium text page while it is read: its text with the places of its characters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from specextend_cli.documents.glyphs import Glyph, Glyphs


@dataclass
class Printed:
    """`body[n]` is the character at `first + n` of the page's text. `head` and `tail` are its ends on the base line.

    `gaps`: the left and right ends of the wide spaces, which are tabs in its text. `changed`: what its text has in
    place of characters of the body.
    """

    glyphs: Glyphs
    body: str
    first: int
    left: float
    right: float
    head: Glyph
    tail: Glyph
    gaps: list[tuple[float, float]] = field(default_factory=list)
    changed: dict[int, str] = field(default_factory=dict)

    @property
    def size(self) -> float:
        """Of the larger end."""
        return max(self.head.size, self.tail.size)

    @property
    def base(self) -> float:
        """Of the larger end."""
        return self.head.base if self.head.size >= self.tail.size else self.tail.base

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """The left and right ends of all characters."""
        return self.glyphs.spans(self.first, len(self.body), self.head.turn)

    @property
    def text(self) -> str:
        """The body with its changes."""
        if not self.changed:
            return self.body
        return "".join(self.changed.get(at, letter) for at, letter in enumerate(self.body))
