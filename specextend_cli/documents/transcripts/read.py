"""Captions and chats to sections: a paragraph for each turn, which begins with the name of who speaks.

Times are not text. Captions have a section for every five minutes, named by its time, and chats one for every day.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from specextend_cli.documents.decode import decode
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source
from specextend_cli.documents.transcripts import captions, chat

_NAMED = re.compile(r"(?:>>\s?)?([^\W\d_a-z][^:.?!\n]{0,38}):\s+(?=\S)")
_ENDED = re.compile(r"[.?!…][\"'”’)]*$")
_PAUSE = 4.0  # seconds after which a new paragraph begins
_LONG, _LONGEST = 400, 1500  # characters: one ends with a sentence from here on, and in any case
_SECTION = 300.0  # seconds


def is_transcript(text: str) -> bool:
    """Whether a text is one, by how it begins."""
    return captions.is_captions(text) or chat.is_chat(text)


def parse(source: Source) -> Parsed:
    """The turns of a file."""
    text, warnings = decode(source.name, source.content())
    text = text.removeprefix("\ufeff")
    parsed = Parsed("transcript", warnings=warnings)
    add_turns(parsed, text)
    return parsed


def add_turns(parsed: Parsed, text: str) -> None:
    """Add the turns of a transcript."""
    if captions.is_captions(text):
        said, others = captions.cues(text)
        _add_captions(parsed, said)
    else:
        written, others = chat.messages(text)
        _add_messages(parsed, written)
    for other in others:
        parsed.remove("notice", other)


def _add_messages(parsed: Parsed, written: Iterable[chat.Message]) -> None:
    day = ""
    for one in written:
        if one.day != day:
            day = one.day
            _start(parsed, day)
        parsed.add("paragraph", _turn(one.name, one.text))


def _add_captions(parsed: Parsed, said: list[captions.Cue]) -> None:
    labels = Counter(match[1] for cue in said if not cue.name and (match := _NAMED.match(cue.text)))
    names = {label for label, number in labels.items() if number > 1}
    if len(names) > 1:  # where speakers are named, one who speaks once is, too
        names |= {label for label in labels if label.istitle()}
    name, body, until, section = "", "", 0.0, -1
    for cue in said:
        who, text, match = cue.name or name, cue.text, _NAMED.match(cue.text)
        if match and not cue.name and match[1] in names:
            who, text = match[1], text[match.end() :]
        long = len(body) > _LONGEST or (len(body) > _LONG and _ENDED.search(body) is not None)
        if body and (who != name or long or cue.start - until > _PAUSE or text.startswith((">>", "- "))):
            parsed.add("paragraph", _turn(name, body))
            body = ""
        if not body and int(cue.start / _SECTION) > section:
            section = int(cue.start / _SECTION)
            _start(parsed, _clock(section * _SECTION))
        name, body, until = who, f"{body} {text}".strip(), cue.end
    parsed.add("paragraph", _turn(name, body) if body else "")


def _start(parsed: Parsed, title: str) -> None:
    parsed.start_section()
    parsed.sections[-1].title = title


def _turn(name: str, text: str) -> str:
    return f"{name}: {text}" if name else text


def _clock(seconds: float) -> str:
    minutes = int(seconds) // 60
    return f"{minutes // 60}:{minutes % 60:02}:00"
