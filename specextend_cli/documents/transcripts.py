"""Captions and chats to sections: a paragraph for each turn, which begins with the name of who speaks.

Captions are WebVTT, SubRip, or lines with times that are copied from a player. Chats are lines as messengers and
meetings save them, which begin with a time and a name, or have both above a text. Times are not text: captions have a
section for every five minutes, named by its time, and chats one for every day.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from itertools import pairwise

from specextend_cli.documents.decode import decode
from specextend_cli.documents.line import runs
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source

_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})(?:[.,]\d{1,3})?"
_TIMES = re.compile(rf"{_TIME}[ \t]*-->[ \t]*{_TIME}")
_CAPTIONS = re.compile(rf"\s*(?:WEBVTT\b|(?:\d{{1,6}}[ \t]*\n)?[ \t]*{_TIMES.pattern})")
_COMMENT = re.compile(r"^(?:NOTE|STYLE|REGION)\b.*(?:\n.*\S.*)*", re.MULTILINE)
_COUNTER = re.compile(r"(?:\A|(?<=\n\n))(?:\d{1,6}[ \t]*$|[^\n]+\n(?=.*-->))|^\d{1,6}[ \t]*\n(?=.*-->)", re.MULTILINE)
_CUE = re.compile(r"^(.*-->.*)$", re.MULTILINE)
_CLOCK = re.compile(rf"^[ \t]*[\[(]?({_TIME})[\])]?[ \t]*(?=[ \t]\S|$)", re.MULTILINE)
_FIRST = 60.0  # seconds: a player begins with zero, an agenda with the morning
_VOICE = re.compile(r"<v(?:\.[^\s>]{0,60})?[ \t]+([^>\n]{1,100})>")
_TAG = re.compile(r"</?[a-zA-Z0-9][^<>\n]{0,200}>|\{\\[^{}\n]{0,60}\}")
_ROLLING = re.compile(r"<\d\d:\d\d")  # words with times of their own: every cue repeats the line of the one before
_ROLLS = 0.4  # of the cues of captions that roll up, at least, repeat lines of the one before
_COMPARED = 8  # lines of a cue
_NAMED = re.compile(r"(?:>>\s?)?([^\W\d_a-z][^:.?!\n]{0,38}):\s+(?=\S)")
_ENDED = re.compile(r"[.?!…][\"'”’)]*$")
_PAUSE = 4.0  # seconds after which a new paragraph begins
_LONG, _LONGEST = 400, 1500  # characters: one ends with a sentence from here on, and in any case
_SECTION = 300.0  # seconds
_LEAST, _SHARE = 4, 0.3  # times or messages, and their share of a text's lines: others go on with the one before
_LOOKED_AT = 400  # lines

_DAY = r"(?P<day>\d{1,4}[./-]\d{1,2}[./-]\d{2,4})"
_HOUR = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?"
_STAMP = rf"[\u200e\u200f]?\[?(?:{_DAY},?\s{{1,3}})?{_HOUR}\]?\s{{0,3}}(?:[-–]\s)?"  # after a mark of direction
_MESSAGES = (
    # [12/03/2025, 10:15:22] Ann: …  12/03/25, 10:15 - Ann: …  10:15:22 From Ann to Everyone: …  [00:10:15] Ann: …
    re.compile(
        rf"{_STAMP}(?:From\s)?(?P<name>[^\s:<>\[\]][^:<>\[\]\n]{{0,58}}?)(?:\s[Tt]o\s[^:\n]{{1,60}})?\s?:"
        r"(?:\s(?P<text>.*)|$)"
    ),
    re.compile(rf"(?P<name>[A-Z][^:\d\[(\n]{{1,58}}?)\s{{1,4}}[\[(]?{_HOUR}[\])]?:?(?P<text>\s*)$"),  # above a text
)
_STAMPED = re.compile(rf"{_STAMP}(?=\S)(?P<text>.*)")
_NOTICE = re.compile("\u200e.*|<?[A-Za-z ]{3,20} omitted>?")  # of a messenger, which begins its own with such a mark
_LEVELS = frozenset(("DEBUG", "INFO", "WARN", "WARNING", "ERROR"))

_Cue = tuple[float, float, str, str]
"""From when to when, in seconds, who says what; the name may be ""."""


def is_transcript(text: str) -> bool:
    """Whether a text is one, by how it begins."""
    return _CAPTIONS.match(text) is not None or _is_copied(text) or _is_chat(text)


def parse(source: Source) -> Parsed:
    """The turns of a file."""
    text, warnings = decode(source.name, source.path.read_bytes())
    parsed = Parsed("transcript", warnings=warnings)
    if _CAPTIONS.match(text):
        for comment in _COMMENT.findall(text):
            parsed.remove("notice", comment)
        _add_captions(parsed, list(_cues(_COUNTER.sub("", _COMMENT.sub("", text)))))
    elif _is_copied(text):  # each line is said until the next one
        _add_captions(parsed, list(_cues(_CLOCK.sub(r"\1 --> 999:59:59\n", text))))
    else:
        _add_messages(parsed, text)
    return parsed


def _is_copied(text: str) -> bool:
    """Whether lines begin with times, or are times, that increase from zero."""
    lines = [line.strip() for line in text.split("\n")[:_LOOKED_AT] if line.strip()]
    times = [_seconds(*match.groups()[1:]) for line in lines if (match := _CLOCK.match(line))]
    enough = len(times) >= max(_LEAST, _SHARE * len(lines)) and _CLOCK.match(lines[0]) is not None
    return enough and times[0] < _FIRST and times == sorted(times)


def _cues(text: str) -> Iterator[_Cue]:
    """The cues in order, without lines that are shown again; one whose times are broken follows the one before."""
    start = end = 0.0
    shown: list[tuple[float, float, list[str]]] = []
    _, *parts = _CUE.split(text)
    for times, body in zip(parts[::2], parts[1::2], strict=True):
        if match := _TIMES.search(times):
            start, end = _seconds(*match.groups()[:3]), _seconds(*match.groups()[3:])
        if lines := list(filter(_plain, body.split("\n"))):
            shown.append((start, end, lines))
    again = [0, *(_again(before[2], now[2]) for before, now in pairwise(shown))]
    rolls = _ROLLING.search(text) or sum(map(bool, again)) > max(_ROLLS * len(shown), 1)
    for (start, end, lines), lines_again in zip(shown, again, strict=False):
        said = ["", *_VOICE.split(" ".join(lines[lines_again if rolls else 0 :]))]
        for name, part in zip(said[::2], said[1::2], strict=True):
            if body := _plain(part):
                yield start, end, " ".join(unescape(name).split()), body


def _again(before: list[str], now: list[str]) -> int:
    """How many of the first lines of a cue are the last ones of the cue before."""
    last, first = [_plain(line) for line in before[-_COMPARED:]], [_plain(line) for line in now[:_COMPARED]]
    return next((n for n in range(min(len(last), len(first)), 0, -1) if last[-n:] == first[:n]), 0)


def _plain(line: str) -> str:
    return " ".join(unescape(_TAG.sub("", line)).split())


def _seconds(hours: str | None, minutes: str, seconds: str) -> float:
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes) + int(seconds)


def _add_captions(parsed: Parsed, cues: list[_Cue]) -> None:
    labels = Counter(match[1] for *_, name, text in cues if not name and (match := _NAMED.match(text)))
    names = {label for label, number in labels.items() if number > 1}
    if len(names) > 1:  # where speakers are named, one who speaks once is, too
        names |= {label for label in labels if label.istitle()}
    name, body, until, section = "", "", 0.0, -1
    for start, end, voice, text in cues:
        who = voice or name
        if not voice and (match := _NAMED.match(text)) and match[1] in names:
            who, text = match[1], text[match.end() :]
        long = len(body) > _LONGEST or (len(body) > _LONG and _ENDED.search(body) is not None)
        if body and (who != name or long or start - until > _PAUSE or text.startswith((">>", "- "))):
            parsed.add("paragraph", _turn(name, body))
            body = ""
        if not body and int(start / _SECTION) > section:
            section = int(start / _SECTION)
            minutes = section * _SECTION // 60
            parsed.start_section(f"{minutes // 60:.0f}:{minutes % 60:02.0f}:00")
        name, body, until = who, f"{body} {text}".strip(), end
    parsed.add("paragraph", _turn(name, body) if body else "")


def _is_chat(text: str) -> bool:
    """Whether the lines of a text are messages of two people or more. The lines of a program's log are not."""
    lines = [line.strip() for line in text.split("\n")[:_LOOKED_AT] if line.strip()]
    names = [name for line in lines if (begun := _begun(line)) and (name := begun.groupdict().get("name"))]
    enough = len(names) >= max(_LEAST, _SHARE * len(lines)) and 1 < len(set(names)) < len(names)
    return enough and not _LEVELS & {name.upper() for name in names}


def _begun(line: str) -> re.Match[str] | None:
    """How a line begins a message or, with its day, what the messenger says: that has no name."""
    notice = _STAMPED.match(line)
    begun = next((match for pattern in _MESSAGES if (match := pattern.match(line))), None)
    return begun or (notice if notice and notice["day"] else None)


def _add_messages(parsed: Parsed, text: str) -> None:
    day = today = ""
    for first, *more in runs(map(str.strip, text.split("\n")), lambda _, line: _begun(line) is None):
        begun = _begun(first)  # None: a text before the first message
        found = begun.groupdict() if begun else {"name": "", "text": first}
        name, day = found.get("name"), found.get("day") or day
        body = "\n".join([found["text"] or "", *more]).strip()
        if name is None or _NOTICE.fullmatch(body):
            parsed.remove("notice", body)
            continue
        if day != today:
            today = day
            parsed.start_section(day)
        parsed.add("paragraph", _turn(" ".join(name.split()), body) if body else "")


def _turn(name: str, text: str) -> str:
    return f"{name}: {text}" if name else text
