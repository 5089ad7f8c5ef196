"""Sentences in the style that is asked for. Prose is made into a list where the style is one.

Small models write prose when they are asked for a list. An answer that is a list already stays as it is.
"""

from __future__ import annotations

import re

from specextend_cli.models.prompt_templates import Style
from specextend_cli.summarize.text.sentences import split
from specextend_cli.summarize.text.words import by_character

_ITEM = re.compile(r"\s*(?:[-*•–#]|\(?\d{1,3}[.)]|[IVX]{1,5}\.)\s")
BRIEF = 2
"""Sentences of a tldr."""
_LISTS = ("bullets", "outline")


class Formatter:
    """Puts the deltas of one part of a summary, whole sentences each, into a style; this one as they are."""

    gap = "\n\n"
    """What stands between this part and the one before."""

    def feed(self, delta: str) -> str:
        """The text for the next delta."""
        return delta


class Brief(Formatter):
    """Its first two sentences."""

    gap = " "

    def __init__(self) -> None:
        self._left = BRIEF

    def feed(self, delta: str) -> str:
        """The sentences that still count."""
        kept = [sentence for sentence in split(delta) if sentence.strip()][: self._left]
        self._left -= len(kept)
        return "".join(kept)


class Items(Formatter):
    """A line for each sentence, marked with `first` or `others`; a list that the model made stays as it is.

    A sentence that announces others, with a colon, waits for one: where the text ends there, it says nothing.
    """

    gap = "\n"

    def __init__(self, first: str, others: str) -> None:
        self._first, self._others = first, others
        self._begun = self._listed = False
        self._waiting = ""

    def feed(self, delta: str) -> str:
        """Lines, each but the first after a line break."""
        if not self._begun:
            self._listed = bool(_ITEM.match(delta))
        if self._listed:
            self._begun = True
            return delta
        lines = []
        for sentence in split(delta):
            if body := " ".join(sentence.split()):
                line = f"\n{self._others}{body}" if self._begun else self._first + body
                self._begun = True
                if body.endswith(":"):
                    self._waiting += line
                else:
                    lines.append(self._waiting + line)
                    self._waiting = ""
        return "".join(lines)


class QuoteLayout:
    """Document sentences in a style: each with the white space and the mark before it."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._topics = 0
        self._last = ""

    @property
    def mark(self) -> int:
        """How many words a sentence has there besides its own."""
        return 1 if self._style in _LISTS else 0

    def head(self, heading: str) -> str:
        """A heading of an outline, under which the next sentences are placed."""
        before, self._last = self._before(True), heading
        self._topics += 1
        return f"{before}{self._topics}. {heading}"

    def place(self, sentence: str, *, topic: bool) -> str:
        """The next sentence; with a `topic` begins another part of the text."""
        before, mark = self._before(topic), ""
        if self._style in _LISTS:
            self._topics += topic
            mark = "- " if self._style == "bullets" else f"{self._topics}. " if topic else "   - "
            listed = _ITEM.match(sentence)
            sentence = sentence[listed.end() :] if listed else sentence
        self._last = sentence
        return before + mark + sentence

    def _before(self, topic: bool) -> str:
        if not self._last:
            return ""
        if self._style in _LISTS:
            return "\n"
        return "\n\n" if topic and self._style == "paragraph" else "" if by_character(self._last) else " "


def formatter(style: Style, part: int, parts: int, *, brief: bool = True) -> Formatter:
    """The formatter of part `part` of `parts` of a summary in that style; a tldr that is not `brief` is prose."""
    if style == "bullets":
        return Items("- ", "- ")
    if style == "outline":
        return Items(f"{part}. ", "   - ")
    return Brief() if style == "tldr" and brief else Formatter()
