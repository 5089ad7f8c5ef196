"""Captions (WebVTT, SubRip, copied from a player): what is said, when, and by whom where they say so.

A cue whose times are broken keeps its text: it is taken to follow the one before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from itertools import islice, pairwise

_ARROW = "-->"
_TIME = re.compile(r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})(?:[.,]\d{1,3})?")
_TIMES = re.compile(rf"{_TIME.pattern}[ \t]*-->[ \t]*{_TIME.pattern}")
_CAPTIONS = re.compile(rf"\s*(?:WEBVTT\b|(?:\d{{1,6}}[ \t]*\n)?[ \t]*{_TIMES.pattern})")
_COUNTER = re.compile(r"\s*\d{1,6}\s*")
_COMMENT = re.compile(r"(?:NOTE|STYLE|REGION)\b")
_VOICE = re.compile(r"<v(?:\.[^\s>]{0,60})?[ \t]+([^>\n]{1,100})>")
_TAG = re.compile(r"</?[a-zA-Z0-9][^<>\n]{0,200}>|\{\\[^{}\n]{0,60}\}")
_CLOCK = re.compile(rf"[\[(]?{_TIME.pattern}[\])]?(?:\s+(?P<text>\S.*))?")
_FIRST = 60.0  # seconds: a player begins with zero, an agenda with the morning
_LEAST, _SHARE, _LOOKED_AT = 4, 0.3, 400  # times, their share of the first lines that are not blank, and these lines
_ROLLING = re.compile(r"<\d\d:\d\d")  # words with times of their own: every cue repeats the line of the one before
_ROLLS = 0.4  # of the cues of captions that roll up, at least, repeat lines of the one before
_MOST = 8  # lines of a cue that are compared


@dataclass(frozen=True, slots=True)
class Cue:
    """What is said from `start` to `end` seconds; `name`: who says it, or ""."""

    start: float
    end: float
    name: str
    text: str


def is_captions(text: str) -> bool:
    """Whether a text begins as captions do."""
    return _CAPTIONS.match(text) is not None or _is_copied(text)


def _is_copied(text: str) -> bool:
    """Whether lines begin with times, or are times, that increase from zero."""
    lines = [line.strip() for line in islice(text.split("\n"), _LOOKED_AT) if line.strip()]
    if not lines or not _CLOCK.fullmatch(lines[0]):
        return False
    times = [_seconds(*match.groups()[:3]) for line in lines if (match := _CLOCK.fullmatch(line))]
    return times[0] < _FIRST and times == sorted(times) and len(times) >= max(_LEAST, _SHARE * len(lines))


def _copied(text: str) -> list[tuple[float, float, list[str]]]:
    """Start, end and lines of each of these times, which lasts until the next one."""
    begun: list[tuple[float, list[str]]] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        if match := _CLOCK.fullmatch(line):
            begun.append((_seconds(*match.groups()[:3]), []))
        begun[-1][1].append((match["text"] or "") if match else line)
    ends = [start for start, _ in begun[1:]] + [begun[-1][0]]
    return [(start, end, lines) for (start, lines), end in zip(begun, ends, strict=True)]


def _timed(text: str, comments: list[str]) -> Iterator[tuple[float, float, list[str]]]:
    """The same of captions; their comments and styles are added to `comments`."""
    start = end = 0.0
    for times, lines in _parts(text):
        if match := _TIMES.search(times):
            start, end = _seconds(*match.groups()[:3]), _seconds(*match.groups()[3:])
        if not times and _COMMENT.match(lines[0]):
            comments.append("\n".join(lines))
        else:
            yield start, end, lines


def cues(text: str) -> tuple[list[Cue], list[str]]:
    """The cues of a file in order, without lines that are shown again, and the comments and styles that are none."""
    comments = list[str]()
    timed = _timed(text, comments) if _CAPTIONS.match(text) else _copied(text)
    shown = [(start, end, filled) for start, end, lines in timed if (filled := list(filter(_plain, lines)))]
    again = [0, *(_again(before[2], now[2]) for before, now in pairwise(shown))][: len(shown)]
    rolls = _ROLLING.search(text) or sum(map(bool, again)) > max(_ROLLS * len(shown), 1)
    found = list[Cue]()
    for (start, end, lines), lines_again in zip(shown, again, strict=True):
        said = _VOICE.split(" ".join(lines[lines_again if rolls else 0 :]))
        for name, part in zip(("", *said[1::2]), said[::2], strict=True):
            if body := _plain(part):
                found.append(Cue(start, end, " ".join(unescape(name).split()), body))
    return found, comments


def _again(before: list[str], now: list[str]) -> int:
    """How many of the first lines of a cue are the last ones of the cue before."""
    last, first = [_plain(line) for line in before[-_MOST:]], [_plain(line) for line in now[:_MOST]]
    return next((n for n in range(min(len(last), len(first)), 0, -1) if last[-n:] == first[:n]), 0)


def _parts(text: str) -> Iterator[tuple[str, list[str]]]:
    """The line of times, "" for none, and the lines below it, of each part of a file; without its header and counters.

    A counter names the cue whose times follow, or is one more than the counter before.
    """
    counter, times = 0, ""
    for number, block in enumerate(re.split(r"\n(?:[ \t]*\n)+", text.strip())):
        times, lines = "", list[str]()
        for line in (*block.split("\n"), _ARROW):
            if _COUNTER.fullmatch(line) and not lines and not times and int(line) == counter + 1:
                counter += 1
            elif _ARROW not in line:
                lines.append(line)
            else:
                if lines and line != _ARROW and (not times or _COUNTER.fullmatch(lines[-1])):
                    name = lines.pop()
                    counter = int(name) if _COUNTER.fullmatch(name) else counter
                if lines and (number or times):
                    yield times, lines
                times, lines = line, []


def _plain(line: str) -> str:
    return " ".join(unescape(_TAG.sub("", line)).split())


def _seconds(hours: str | None, minutes: str, seconds: str) -> float:
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes) + int(seconds)
