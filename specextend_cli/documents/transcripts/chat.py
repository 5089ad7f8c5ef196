"""Chats as messengers and meetings save them: lines that begin with a time and a name, or one of both above a text."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DAY = r"(?P<day>\d{1,4}[./-]\d{1,2}[./-]\d{2,4})"
_CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?"
_NAME = r"(?P<name>[^\s:<>\[\]][^:<>\[\]\n]{0,58}?)"
_STAMP = rf"[\u200e\u200f]?\[?(?:{_DAY},?\s{{1,3}})?{_CLOCK}\]?\s{{0,3}}(?:[-–]\s)?"  # after a mark of direction
_BEGINS = [
    # [12/03/2025, 10:15:22] Ann: …  12/03/25, 10:15 - Ann: …  10:15:22 From Ann to Everyone: …  [00:10:15] Ann: …
    re.compile(rf"{_STAMP}(?:From\s)?{_NAME}(?:\s[Tt]o\s[^:\n]{{1,60}})?\s?:(?:\s(?P<text>.*)|$)"),
    re.compile(rf"{_STAMP}<[@+%&~ ]?(?P<name>[^>\s]{{1,40}})>\s(?P<text>.*)"),  # [10:15] <ann> …
    re.compile(rf"(?P<name>[A-Z][^:\d\[(\n]{{1,58}}?)\s{{1,4}}[\[(]?{_CLOCK}[\])]?:?\s*$"),  # Ann  10:15 AM, above
]
_STAMPED = re.compile(rf"{_STAMP}(?=\S)(?P<text>.*)")
_NOTICES = re.compile(
    r"<?(?:Media|image|video|audio|sticker|GIF|document|Contact card) omitted>?|"
    r"(?:This message was|You) deleted(?: this message)?\.?"
)
_PROGRAM = "\u200e"  # a mark of direction; it begins what a messenger writes itself
_APPENDED = re.compile(r"\s?\u200e?<(?:This message was edited|attached: [^<>\n]{1,200})>$")
_RECORDED = re.compile(r"[^\s:][^:\n]{0,58} (?:started|stopped) transcription")
_LEVELS = frozenset(("TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"))
_LEAST, _SHARE = 4, 0.3  # messages, and their share of a text's lines: others go on with the message before
_LOOKED_AT = 400  # lines


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody of that `name` writes or says; `day` as it is written there, or ""."""

    day: str
    name: str
    text: str


def is_chat(text: str) -> bool:
    """Whether the lines of a text are messages of two people or more. The lines of a program's log are not."""
    lines = [line.strip() for line in text.split("\n")[:_LOOKED_AT] if line.strip()]
    names = [begun["name"] for line in lines if (begun := _begun(line))]
    if _LEVELS & {name.upper() for name in names}:
        return False
    return len(names) >= max(_LEAST, _SHARE * len(lines)) and len(set(names)) > 1 and len(set(names)) < len(names)


def messages(text: str) -> tuple[list[Message], list[str]]:
    """The messages in order, and the notices that nobody wrote; a text before the first message is nobody's."""
    found, notices = list[Message](), list[str]()
    day, name, lines = "", "", list[str]()

    def end() -> None:
        body = "\n".join(lines).strip()
        if _NOTICES.fullmatch(body) or (body.startswith(_PROGRAM) and "\n" not in body):
            notices.append(body)
        elif body:
            found.append(Message(day, name, body))
        lines.clear()

    for raw in text.split("\n"):
        line = raw.strip()
        if appended := _APPENDED.search(line):
            notices.append(appended[0])
            line = line[: appended.start()]
        if begun := _begun(line):
            end()
            groups = begun.groupdict()
            day, name = groups.get("day") or day, " ".join(groups["name"].split())
            name = name[0].upper() + name[1:]  # a nickname, which begins a sentence where it is quoted
            lines.append(groups.get("text") or "")
        elif (stamped := _STAMPED.match(line)) and stamped["day"]:
            end()
            notices.append(stamped["text"])
        elif _RECORDED.fullmatch(line):
            notices.append(line)
        else:
            lines.append(line)
    end()
    return found, notices


def _begun(line: str) -> re.Match[str] | None:
    return next((match for pattern in _BEGINS if (match := pattern.match(line))), None)
