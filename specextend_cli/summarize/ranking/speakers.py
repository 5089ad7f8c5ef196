"""Who says what in a conversation: a transcript, a chat, an interview."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import regex

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.words import length_of

_SPEAKER = regex.compile(
    r"""\W{0,3}(?P<name>[\p{Lu}\p{Lo}][\p{L}\p{M}\p{N}.'’ ・-]{0,38})
      (?:\ \([^()]{1,30}\)|（[^（）]{1,30}）)?(?::\ |：)(?=\S)""",
    regex.VERBOSE,
)
# A label of minutes before a colon, which is nobody's name.
_LABEL = regex.compile(
    r"(?:Decision|Action(?: item| point)?|Motion|Resolution|Vote|Beschluss|Aufgabe|Antrag|Décision|Acuerdo|Decisión"
    r"|Tarea|Decisione|Decisão|Tarefa|Решение|Поручение)s?(?: \d+)?(?=:)"
)
_TURNS = 0.2  # of a conversation's paragraphs, at least, begin with the name of somebody who speaks more than once
_LEAST = 2  # turns of such a speaker, and speakers of a conversation
_WORDS = 4  # of a name, at most
_FILLERS = regex.compile(
    r"""\b(?:u[hm]+|e[rh]m*|mm+|hm+|oh|ah|huh|yeah|yep|yes|no|okay|ok|well|so|right|alright|like|just|actually|basically
      |really|I\ (?:mean|guess|think|dunno|know)|you\ know|kind\ of|sort\ of|kinda|sorta|and|but)\b[,.;:!?-]*""",
    regex.VERBOSE | regex.IGNORECASE,
)


def speakers(text: str, found: Sequence[Candidate]) -> tuple[str, ...]:
    """Who says each of the sentences of a conversation, "" for nobody, [sentences]; () where a document is none.

    A paragraph without a name, after a named one, is nobody's.
    """
    said: list[str] = []
    name, blocks = "", 0
    for one in found:
        if one.place == 0:
            body = " ".join(text[one.start : one.end].split())
            blocks += 1
            match = _SPEAKER.match(body) if one.kind in ("prose", "item") else None
            name = match["name"].strip() if match and len(match["name"].split()) <= _WORDS else ""
            name = "" if decides(body) else name
        said.append(name)
    turns = Counter(name for name, one in zip(said, found, strict=True) if one.place == 0 and name)
    known = {name: number for name, number in turns.items() if number >= _LEAST}
    share = sum(known.values()) / max(blocks, 1)
    return tuple(said) if share >= _TURNS and len(known) >= _LEAST else ()


def decides(line: str) -> bool:
    """Whether a line is a decision or a task of minutes, and says so before a colon."""
    return _LABEL.match(line) is not None


def words_told(line: str) -> float:
    """Words that are said, without the speaker's name and what fills pauses: 3 of "Bob: Um, yeah, on the TV"."""
    line = line[match.end() :] if (match := _SPEAKER.match(line)) else line
    return length_of(_FILLERS.sub(" ", line))
