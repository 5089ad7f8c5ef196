"""Who speaks in a transcript or in minutes: the name before the colon at the beginning of a turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import regex

from specextend_cli.summarize.ranking.candidates import Candidate

_SPEAKER = regex.compile(
    r"\W{0,3}(?P<name>\p{Lu}[\p{L}\p{N}.'’ -]{0,38})(?:\ \([^()]{1,30}\))?:\ (?=\S)", regex.VERBOSE
)
_TURNS = 0.2  # of a conversation's paragraphs, at least, begin with the name of somebody who speaks more than once
_LEAST = 2  # turns of such a speaker, and speakers of a conversation
_WORDS = 4  # of a name, at most


@dataclass(frozen=True)
class Speakers:
    """The speaker of each sentence, "" for none, [sentences]. `share`: the share of paragraphs that are turns."""

    names: tuple[str, ...]
    share: float

    @property
    def is_conversation(self) -> bool:
        """Whether the document is one."""
        return self.share > 0


def speakers(texts: Sequence[str], found: Sequence[Candidate]) -> Speakers:
    """Who says each of a document's sentences, `texts` [sentences]. Nobody does where it is no conversation.

    A paragraph without a name, after a named one, is nobody's.
    """
    said: list[str] = []
    name, blocks = "", 0
    for body, one in zip(texts, found, strict=True):
        if one.place == 0:
            blocks += 1
            match = _SPEAKER.match(body) if one.kind in ("prose", "item") else None
            name = match["name"].strip() if match and len(match["name"].split()) <= _WORDS else ""
        said.append(name)
    turns = Counter(name for name, one in zip(said, found, strict=True) if one.place == 0 and name)
    known = {name: number for name, number in turns.items() if number >= _LEAST}
    share = sum(known.values()) / max(blocks, 1)
    if share < _TURNS or len(known) < _LEAST:
        return Speakers(("",) * len(said), 0.0)
    return Speakers(tuple(said), share)
