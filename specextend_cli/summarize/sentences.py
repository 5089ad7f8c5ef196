"""Text released sentence by sentence: what reaches the user ends with a whole sentence and says nothing twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specextend_cli.summarize.flaws import idle

_END = re.compile(
    r"(?:[.!?…][\"')\]\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}]*(?=\s)|[。！？][」』”]*|\n)\s*"
)
# What ends with a full stop and ends nothing: a shortened word, or the number of an item in a list.
_ABBREVIATION = re.compile(
    r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Mt|No|vs|etc|al|e\.g|i\.e|U\.S|Inc|Corp|Fig|Sen|Rep|Gov|Gen|Col|Rev"
    r"|Jan|Feb|Aug|Sept|Oct|Nov|Dec)$"
)
_LONGEST = 5  # characters of an abbreviation, and the one before it
_ITEM = re.compile(r"\s*\d+\.")
_WORD = re.compile(r"\w+")
_PATIENCE = 2


def split(text: str) -> list[str]:
    """The sentences of a text, none left out: each with the white space after it."""
    sentences, start = [], 0
    for end in _ends(text):
        sentences.append(text[start:end])
        start = end
    return [*sentences, text[start:]] if start < len(text) else sentences


def _ends(text: str) -> Iterator[int]:
    """Where each sentence ends, with the white space after it. The work grows with the text, not with its sentences."""
    item = _ITEM.match(text)
    for end in _END.finditer(text):
        stop = end.start()
        marked = text[stop] == "." and text[stop + 1 : stop + 2].isspace()
        if marked and (item is not None and item.end() == stop + 1):
            continue
        if marked and _ABBREVIATION.search(text[max(stop - _LONGEST, 0) : stop]):
            continue
        yield end.end()
        item = _ITEM.match(text, end.end())


def spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of `text` lie; white space between them is in none."""
    found, at = [], 0
    for sentence in split(text):
        body = sentence.strip()
        start = at + len(sentence) - len(sentence.lstrip())
        if body:
            found.append((start, start + len(body)))
        at += len(sentence)
    return found


class Sentences:
    """Takes deltas, gives whole sentences; drops one that repeats an earlier one or is idle, and counts those."""

    def __init__(self) -> None:
        self.dropped = 0
        self.looping = False
        self._open = ""
        self._seen: set[tuple[str, ...]] = set()
        self._in_a_row = 0

    def add(self, delta: str) -> str:
        """Sentences that `delta` completes, or ""."""
        self._open += delta
        return "".join(self._complete())

    def finish(self, *, whole: bool) -> str:
        """What is left: an unfinished sentence too when decoding ended by itself (`whole`), or there is no other."""
        rest, self._open = self._open, ""
        if (whole or not self._seen) and rest.strip() and self._is_new(rest):
            return rest
        return ""

    def _complete(self) -> Iterator[str]:
        start = 0
        for end in _ends(self._open):
            sentence, start = self._open[start:end], end
            if self._is_new(sentence):
                yield sentence
        self._open = self._open[start:]

    def _is_new(self, sentence: str) -> bool:
        words = tuple(_WORD.findall(sentence.lower()))
        if not words:
            return True
        if idle(sentence):
            self.dropped += 1
            return False
        if words in self._seen:
            self.dropped += 1
            self._in_a_row += 1
            self.looping = self._in_a_row >= _PATIENCE
            return False
        self._in_a_row = 0
        self._seen.add(words)
        return True
