"""What kind of text a document is and who speaks in it; and so what its reader wants: decisions of minutes, say.

The rules ask for what only such a text has, minutes in seven languages and others in English, and leave all others as
they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import regex

from specextend_cli.models.prompt_templates import Style
from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.text.words import length_of

Kind = Literal["conversation", "minutes", "chapter", "questions", "text"]


@dataclass(frozen=True)
class Wanted:
    """How a kind of text is summarized where nothing is asked for; `words`: at most."""

    style: Style
    words: int | None = None


WANTED: Mapping[Kind, Wanted] = {
    "conversation": Wanted("bullets", 200),
    "minutes": Wanted("bullets", 200),
    "chapter": Wanted("outline", 200),
    "questions": Wanted("outline"),  # an answer says little without its question
    "text": Wanted("paragraph"),
}

_PART = 60  # characters of a heading, or of a label before a colon, that are looked at
_OF_MINUTES = [
    regex.compile(pattern, regex.IGNORECASE)
    for pattern in (
        r"\b(?:attend(?:ees|ance|ing)|participants|(?:members |also )?present|apologies|absent"
        r"|anwesen(?:d|de)|présents|excusés|asistentes|presenti|presentes|aanwezig(?:en)?|obecni|присутствовали)\b",
        r"\b(?:agenda|matters arising|old business|new business|roll call|call to order|minutes of the"
        r"|tagesordnung|ordre du jour|orden del día|ordine del giorno|ordem do dia|porządek obrad|повестка дня)\b",
        r"\b(?:decisions?|motions?|resolutions?|votes?|agreed"
        r"|beschl(?:uss|üsse)|décisions?|acuerdos?|decisioni|decisões|besluit(?:en)?|uchwał[ay]|постановили)\b",
        r"\b(?:action (?:items?|points?)|actions|to-?dos?|next steps"
        r"|aufgaben?|actions à mener|tareas|azioni|tarefas|actiepunten|zadania|поручения)\b",
        r"\b(?:next meeting|adjourn(?:ment|ed)?|date of next"
        r"|nächste sitzung|prochaine (?:réunion|séance)|próxima reuni(?:ón|ão)|prossima riunione|volgende vergadering"
        r"|następne posiedzenie|следующее заседание)\b",
    )
]
_OF_CHAPTER = [
    regex.compile(pattern, regex.IGNORECASE)
    for pattern in (
        r"\b(?:learning (?:objectives|outcomes|goals)|by the end of this (?:section|chapter|module|lesson|unit))\b",
        r"\b(?:key (?:terms|concepts|points|takeaways|equations)|chapter (?:summary|review|objectives)|glossary)\b",
        r"\b(?:review questions|check your (?:learning|understanding)|exercises|problems|self-check|quiz)\b",
        r"^(?:chapter|lesson|unit|module) (?:\d+|[ivx]+)\b",
    )
]
_SIGNS = 2  # of a kind that a text of it has at least
_QUESTIONS = 3  # headings that are questions, at least, and half of all
_SPEAKER = regex.compile(
    r"""\W{0,3}(?P<name>[\p{Lu}\p{Lo}][\p{L}\p{M}\p{N}.'’ ・-]{0,38})
      (?:\ \([^()]{1,30}\)|（[^（）]{1,30}）)?(?::\ |：)(?=\S)""",
    regex.VERBOSE,
)
# A label of minutes before a colon, which is nobody's name.
_LABEL = regex.compile(
    r"(?:Decision|Action(?: item| point)?|Motion|Resolution|Vote|Beschluss|Aufgabe|Antrag|Décision|Acuerdo|Decisión"
    r"|Tarea|Decisione|Decisão|Tarefa|Besluit|Actie|Uchwała|Решение|Поручение)"
    r"s?(?: \d+)?(?=:)"
)
_TURNS = 0.2  # of a conversation's paragraphs, at least, begin with the name of somebody who speaks more than once
_LEAST = 2  # turns of such a speaker, and speakers of a conversation
_WORDS = 4  # of a name, at most
_FILLERS = regex.compile(
    r"""\b(?:u[hm]+|e[rh]m*|mm+|hm+|oh|ah|huh|yeah|yep|yes|no|okay|ok|well|so|right|alright|like|just|actually|basically
      |really|I\ (?:mean|guess|think|dunno|know)|you\ know|kind\ of|sort\ of|kinda|sorta|and|but)\b[,.;:!?-]*""",
    regex.VERBOSE | regex.IGNORECASE,
)


@dataclass(frozen=True)
class Speakers:
    """The speaker of each sentence, "" for none, [sentences]. `share`: the share of paragraphs that are turns."""

    names: tuple[str, ...]
    share: float

    @property
    def is_conversation(self) -> bool:
        """Whether the document is one."""
        return self.share > 0


def speakers(text: str, found: Sequence[Candidate]) -> Speakers:
    """Who says each of the sentences of a document. Nobody does where it is no conversation.

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
    if share < _TURNS or len(known) < _LEAST:
        return Speakers(("",) * len(said), 0.0)
    return Speakers(tuple(said), share)


def decides(line: str) -> bool:
    """Whether a line is a decision or a task of minutes, and says so before a colon."""
    return _LABEL.match(line) is not None


def words_told(line: str) -> float:
    """Words that are said, without the speaker's name and what fills pauses: 3 of "Bob: Um, yeah, on the TV"."""
    line = line[match.end() :] if (match := _SPEAKER.match(line)) else line
    return length_of(_FILLERS.sub(" ", line))


def kind_of(said: Speakers, found: Sequence[Candidate], text: str) -> Kind:
    """The kind of a document with these sentences, which somebody may have `said`."""
    if said.is_conversation:
        return "conversation"
    marks = _marks(text, found)
    if _signs(_OF_MINUTES, marks) >= _SIGNS:
        return "minutes"
    if _signs(_OF_CHAPTER, marks) >= _SIGNS:
        return "chapter"
    headings = {one.section: one.heading for one in found if one.heading}.values()
    asked = sum(heading.rstrip("*").endswith(("?", "？", "؟")) for heading in headings)
    return "questions" if asked >= max(_QUESTIONS, len(headings) / 2) else "text"


def _marks(text: str, found: Sequence[Candidate]) -> set[str]:
    """Headings, and what begins a paragraph and ends with a colon."""
    marks = {one.heading[:_PART] for one in found}
    for one in found:
        if one.place == 0:
            label, colon, _ = text[one.start : min(one.end, one.start + _PART)].partition(":")
            marks |= {label} if colon else set()
    return marks


def _signs(patterns: Sequence[regex.Pattern[str]], marks: Collection[str]) -> int:
    return sum(any(pattern.search(mark) for mark in marks) for pattern in patterns)
