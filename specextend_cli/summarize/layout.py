"""Sentences in the style that is asked for: what stands before each of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from specextend_cli.models.prompt_templates import Style
from specextend_cli.summarize.words import by_character

_ITEM = re.compile(r"\s*(?:[-*•–#]|\(?\d{1,3}[.)]|[IVX]{1,5}\.)\s+")
BRIEF = 2
"""Sentences of a tldr."""


class Placed(NamedTuple):
    """A sentence, and what stands before it: white space, the mark of a list."""

    lead: str
    text: str


class QuoteLayout:
    """Places sentences of a document in the style that is asked for."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self._last = ""

    def place(self, sentence: str, *, apart: bool = False) -> Placed:
        """The next sentence; it begins another paragraph where it is `apart` from the one before."""
        lead = ""
        if self._style == "bullets":
            lead = "\n- " if self._last else "- "
            sentence = sentence[listed.end() :] if (listed := _ITEM.match(sentence)) else sentence
        elif self._last:
            lead = "\n\n" if apart and self._style == "paragraph" else "" if by_character(self._last) else " "
        self._last = sentence
        return Placed(lead, sentence)


class AnswerLayout:
    """Places the sentences of a model's answer, behind a gap where it is not the `first` part of a summary.

    Prose becomes a list where the style is one: small models write prose when they are asked for a list. What is a list
    already stays as it is. In a list, a sentence that announces others, with a colon, waits for one: where the answer
    ends there, it says nothing.
    """

    def __init__(self, style: Style, *, first: bool) -> None:
        self._listed = style == "bullets"
        self._gap = "" if first else "\n" if self._listed else "\n\n"
        self._is_begun = False
        self._waiting: list[Placed] = []

    def place(self, sentence: str) -> list[Placed]:
        """The next sentence, with the white space around it; and those that have waited for it."""
        if not sentence.strip():
            self._gap += sentence
            return []
        if not self._is_begun:
            self._listed = self._listed and not _ITEM.match(sentence)
        self._is_begun, is_first = True, not self._is_begun
        if not self._listed:
            return [self._as_it_is(sentence)]
        lead = f"{self._gap}- " if is_first else "\n- "
        self._waiting.append(Placed(lead, " ".join(sentence.split())))
        if self._waiting[-1].text.endswith(":"):
            return []
        placed, self._waiting = self._waiting, []
        return placed

    def _as_it_is(self, sentence: str) -> Placed:
        body, end = sentence.lstrip(), len(sentence.rstrip())
        lead, self._gap = self._gap + sentence[: len(sentence) - len(body)], sentence[end:]
        mark = _ITEM.match(body) if not lead or "\n" in lead else None  # else a number within a line
        body = body.rstrip()
        if mark is not None and mark.end() < len(body):
            lead, body = lead + body[: mark.end()], body[mark.end() :]
        return Placed(lead, body)
