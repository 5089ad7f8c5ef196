"""Sentence boundaries in any script, and whole sentences from a stream of text, without repetitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import regex

from specextend_cli.summarize.answer_checks import idle

_CLOSING = r"[\p{Pe}\p{Pf}]"
_OWN = r"[\p{STerm}།--[.!?]]"
_PHRASED = r"[\p{Thai}\p{Lao}]"
# Marks of other scripts (。 । ؟) end a sentence without a space behind, but not before decimals ("３．５") nor where
# somebody is quoted in Japanese (「…。」と). Thai has no such mark: there a space between words may end one.
_END = regex.compile(
    rf"""(?:
        [.!?…]["')\]”’]*(?=\s)
      | (?!．\d){_OWN}++ (?:{_CLOSING}++(?!と|って)|(?!{_CLOSING})) (?=[\s\S])
      | (?<={_PHRASED})\ (?={_PHRASED})
      | \n
    )\s*""",
    regex.VERBOSE | regex.V1,
)
# A full stop that ends no sentence: after an abbreviation, an initial, or the number of an item in a list.
_ABBREVIATION = regex.compile(
    r"(?:\b(?:\p{Lu}|[\p{Cyrillic}\p{Arabic}\p{Hebrew}\p{Devanagari}]|Mr|Mrs|Ms|Dr|Prof|St|Mt|No|vs|etc|al|e\.g|i\.e|U\.S"
    r"|Inc|Corp|Fig|Sen|Rep|Gov|Gen|Col|Rev|Jan|Feb|Aug|Sept|Oct|Nov|Dec"
    r"|[HS]\.(?:Con\.|J\.)?\s?Res|Sra?|Dra|Mme|Mlle|Nr|bzw|núm|pág))\.\Z"
)
_NUMBER = regex.compile(r"\s*\d+\.")
_TAIL = 24  # characters; no shortened word has more
_PHRASE = 40  # characters; after fewer, a space ends no sentence
_WORD = re.compile(r"\w+")
_PATIENCE = 2


def split(text: str) -> list[str]:
    """The sentences of a text, none left out: each with the white space after it."""
    return [text[start:end] for start, end in pairwise((0, *_ends(text), len(text))) if start < end]


def _ends(text: str) -> Iterator[int]:
    """Where each sentence ends, with the white space after it. The work grows with the text, not with its sentences."""
    start = 0
    for mark in _END.finditer(text):
        if not _goes_on(text, start, mark):
            yield mark.end()
            start = mark.end()


def _goes_on(text: str, start: int, mark: regex.Match[str]) -> bool:
    """Whether what seems to be the end of the sentence that began at `start` is none."""
    end = mark.start() + len(mark[0].rstrip())
    # Only the last characters are searched, so that long sentences take linear time.
    tail = text[max(start, end - _TAIL) : end].rstrip()
    if tail.endswith("."):
        return bool(_ABBREVIATION.search(tail) or _NUMBER.fullmatch(text[start : min(end, start + _TAIL)]))
    at_a_space = "\n" not in mark[0] and regex.search(_PHRASED + r"\Z", tail) is not None
    return at_a_space and end - start < _PHRASE


def spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of `text` lie; white space between them is in none."""
    found, at = [], 0
    for sentence in split(text):
        start = at + len(sentence) - len(sentence.lstrip())
        at += len(sentence)
        if body := sentence.strip():
            found.append((start, start + len(body)))
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
        start, complete = 0, []
        for end in _ends(self._open):
            sentence, start = self._open[start:end], end
            if self._is_new(sentence):
                complete.append(sentence)
        self._open = self._open[start:]
        return "".join(complete)

    def finish(self, *, whole: bool) -> str:
        """What is left: an unfinished sentence too when decoding ended by itself (`whole`), or there is no other."""
        rest, self._open = self._open, ""
        return rest if (whole or not self._seen) and rest.strip() and self._is_new(rest) else ""

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
