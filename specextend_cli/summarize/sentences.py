"""Sentence boundaries in any script, and whole sentences from a stream of text, without repetitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import regex

from specextend_cli.summarize.words import table

_CLOSING = r"[\p{Pe}\p{Pf}]"
_OWN = r"[\p{STerm}།--[.!?]]"
_PHRASED = r"[\p{Thai}\p{Lao}]"
# Marks of other scripts (。 । ؟) end a sentence without a space behind, but not before decimals ("３．５") nor where
# somebody is quoted in Japanese (「…。」と). Thai has no such mark: there a space between words may end one. The number
# of a footnote belongs to the sentence before it ("so.[4]"). Quotation marks close as each language has them („…“, »…«,
# « … »), and ";" is the question mark of Greek.
_END = regex.compile(
    rf"""(?:
        [.!?…](?:[ \u00a0\u202f]»(?=\s|\Z) | ["')\]”’»“‘«›‹]*(?:(?:\[\d{{1,3}}\])+|[⁰¹²³⁴-⁹]+)?(?=\s))
      | (?<=\p{{Greek}}{{2}})[;\u037e]["')\]”’»]*(?=\s)
      | (?!．\d){_OWN}++ (?:{_CLOSING}++(?!と|って)|(?!{_CLOSING})) (?=[\s\S])
      | (?<={_PHRASED})\ (?={_PHRASED})
      | \n
    )\s*""",
    regex.VERBOSE | regex.V1,
)
# The last word before a full stop: letters, with the full stops inside ("p.m", "Ph.D", "z. B"), behind "l'" too.
_LAST_WORD = regex.compile(
    r"(?:(?<![\p{L}\p{M}\p{N}'’_@/.-])|(?<=\b(?:[dln]|\p{L}{0,3}ll)['’]))"
    r"(?:\p{Ll}\.[ \u00a0](?=\p{L}{1,2}\Z))?[\p{L}\p{M}]+(?:\.[\p{L}\p{M}]+)*\Z"
)
_NEXT_WORD = regex.compile(r"""[\p{Ps}\p{Pi}"'¿¡]*+([\p{L}\p{M}\p{N}'’]*)""")
_SECOND_LETTER = regex.compile(r"\p{L}\.(?!\p{L})")  # of "z. B." and "u. U.", where the second one has a capital
_INITIALS = regex.compile(r"(?:\p{L}\p{M}*){1,2}(?:\.[ \u00a0]?\p{L}{1,3})+")
_NUMBER = regex.compile(r"\s*[\p{Ps}]?\d+\.")
_LABEL = regex.compile(
    r"\s*(?:(?:[Ss]ec(?:tion|\.)|[Aa]rt(?:icle|\.)|[Cc]hapter|[Rr]ule|[Pp]art|§)\s(?:\d+|[IVXLC]+)|\p{Lu})\."
)
_ORDINAL = regex.compile(r"\b\d{1,2}\.\Z")
_ORDINAL_AFTER = regex.compile(r"\b(?:[Dd](?:er|ie|as|em|en|es)|[Ii]m|[Zz]u[mr]|[Vv]om|[Bb]eim)\s\d{1,3}\.\Z")
# What a number makes an ordinal of, where nouns have capitals.
_COUNTED = regex.compile(
    r"(?:Jan|Feb|März|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahrh|Jh|Jahrtausend|Auflage|Kapitel|Mal)"
)
_VOWELLESS = regex.compile(r"[B-DF-HJ-NP-TV-XZ][b-df-hj-np-tv-xz]{1,5}")
_UNCASED = r"\p{Cyrillic}\p{Arabic}\p{Hebrew}\p{Devanagari}"
_LETTER = regex.compile(rf"[\p{{Lu}}{_UNCASED}]")
_TAIL = 24  # characters; no abbreviation, and no word that matters after one, has more
_SURE = 5  # letters; a longer word that is not known to be one is no abbreviation
_LISTS = {name: frozenset(words.split()) for name, words in table("abbreviations").items()}
_KNOWN = frozenset().union(
    *(_LISTS[name] for name in ("before_numbers", "exclaimed", "maybe_last", "never_last", "titles"))
)
_QUOTES = (("「", "」"), ("『", "』"), ("“", "”"))
_QUOTED = 200  # characters; a sentence in a longer quotation ends as others do
_PHRASE = 40  # characters; after fewer, a space ends no sentence
_WORD = re.compile(r"\w+")
_BODY = re.compile(r"\S(?:.*\S)?", re.DOTALL)  # a sentence without the white space around it
_PATIENCE = 2
_IDLE = re.compile(
    r"""\W*(?:
        (?:sure|certainly|of\ course|okay)\b[,!.:]
      | here(?:'s|\ is|\ are)\b[^.!?]{0,80}\b(?:summar(?:y|ies)|notes|overview)\b[^.!?]{0,80}[:.]\W*$
      | (?:i'm|i\ am)\ sorry\b | i\ apologi[sz]e\b | as\ an?\ (?:ai|language\ model)\b
      | i(?:(?:'m|\ am)\ (?:unable|not\ able)\ to|\ (?:cannot|can't|can\ not|could\ not|couldn't))\ (?:provide|assist
          |help|summari[sz]e|access|fulfil|comply|answer|see|read|open|generate|create|complete)
      | (?:please|could\ you|can\ you)\b[^.!?]{0,20}\b(?:provide|share|paste|upload)\b[^.!?]*\b(?:text|document|input)\b
      | (?:the|your)\ (?:text|document|input)\ (?:is|was)\ not\ provided\b
      | (?:there\ is\ )?no\ (?:text|document|input)\ (?:is|was|has\ been|to\ summari[sz]e)\b
      | (?:feel\ free\ to|let\ me\ know\ if|i\ hope\ this)\b
      | summari[sz]e\ the\ (?:text|document)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def split(text: str) -> list[str]:
    """The sentences of a text, none left out: each with the white space after it."""
    return [text[start:end] for start, end in pairwise((0, *_ends(text), len(text))) if start < end]


def _ends(text: str, *, more: bool = False) -> Iterator[int]:
    """Where each sentence ends, with the white space after it. The work grows with the text, not with its sentences.

    Where `more` may follow the text, an end that depends on the word after it is given only when that word is there.
    """
    start = 0
    for mark in _END.finditer(text):
        if more and mark[0][0] in ".!?…" and not _is_told(text, start, mark):
            return
        if not _goes_on(text, start, mark):
            yield mark.end()
            start = mark.end()


def _is_told(text: str, start: int, mark: regex.Match[str]) -> bool:
    """Whether enough of the word after a mark is there to say if the sentence ends: of most its first letter."""
    found = _NEXT_WORD.match(text, mark.end(), mark.end() + _TAIL)
    if found is None or found.end() < len(text) or found.end() == mark.end() + _TAIL:
        return bool(mark.end() < len(text))
    if not found[1] or found[1][0].islower():
        return False
    name = _LAST_WORD.search(text[max(start, mark.start() - _TAIL) : mark.start()])
    return name is not None and len(name[0]) > _SURE and name[0].lower() not in _KNOWN


def _goes_on(text: str, start: int, mark: regex.Match[str]) -> bool:
    """Whether what seems to be the end of the sentence that began at `start` is none."""
    end = mark.start() + len(mark[0].rstrip())
    if mark[0][0] in ".!?…":
        return "\n\n" not in mark[0] and _is_inside(text, start, mark)
    # Only the last characters are searched, so that long sentences take linear time.
    near = text[max(start, end - _QUOTED) : end]
    if mark[0][0] != "\n" and any(near.rfind(opening) > near.rfind(closing) for opening, closing in _QUOTES):
        return True
    tail = text[max(start, end - _TAIL) : end].rstrip()
    at_a_space = "\n" not in mark[0] and regex.search(_PHRASED + r"\Z", tail) is not None
    return at_a_space and end - start < _PHRASE


def _is_inside(text: str, start: int, mark: regex.Match[str]) -> bool:
    """Whether a sentence goes on behind a full stop, an exclamation or question mark, or an ellipsis."""
    point = mark.start()
    tail = text[max(start, point - _TAIL) : point]
    found = _NEXT_WORD.match(text, mark.end(), mark.end() + _TAIL)
    following = found[1] if found else ""
    if text[point] == "." and mark[0].rstrip() == "." and _is_abbreviated(text, start, tail, following, mark.end()):
        return True
    name = _LAST_WORD.search(tail)
    # Text without capitals has no sign but the mark itself, a line ends a sentence as well as it does, and behind a
    # long word that is no abbreviation a name in lower case may begin one ("… server. kubeadm …").
    if following[:1].islower() and not any(one.isupper() for one in following) and "\n" not in mark[0]:
        begun = _NEXT_WORD.match(text, start, start + _TAIL)
        plain = name is not None and len(name[0]) > _SURE and name[0].lower() not in _KNOWN
        return (begun is None or not begun[1][:1].islower()) and not (plain and mark[0].rstrip() == ".")
    return (
        text[point] in "!?"
        and mark[0].rstrip() in "!?"
        and name is not None
        and (
            following.lower() in _LISTS["company"]
            or (name[0].lower() in _LISTS["exclaimed"] and following.lower() not in _LISTS["starters"])
        )
    )


def _is_abbreviated(text: str, start: int, tail: str, following: str, at: int) -> bool:
    """Whether the full stop after `tail` belongs to an abbreviation, an initial or a number, and ends no sentence."""
    head = text[start : start + len(tail) + 1] if len(tail) < _TAIL else ""
    if _NUMBER.fullmatch(head) or (_LABEL.fullmatch(head) and following):
        return True
    begins = following.istitle() and following.lower() in _LISTS["starters"]
    if _ORDINAL.search(tail + ".") and _COUNTED.match(following):
        return True
    if following and not begins and _ORDINAL_AFTER.search(tail + "."):
        return True
    found = _LAST_WORD.search(tail)
    if found is None:
        return False
    word = found[0]
    key = regex.sub(r"\s", "", word.lower())
    sign = text[at : at + 1]
    if len(word) == 1 and word.islower() and _SECOND_LETTER.match(text, at):
        return True
    numbered = following[:1].isdigit() or (len(following) == 1 and not begins) or sign in ("(", "[", "§")
    numbered = numbered or following[:3].lower() in _LISTS["months"]
    if word in _LISTS["before_figures"] and following[:1].isdigit() and following[1:2].isdigit():
        return True
    if numbered and (key in _LISTS["before_numbers"] or key.endswith("str")):
        return True
    if len(word) == 1 and _LETTER.match(word):
        initial = word.isupper() or text[at + 1 : at + 2] == "."  # no "2022 г. В …"
        return not (begins and _ends_with_letter(tail, found.start(), following, initial=initial))
    if key in _LISTS["ordinary"] and word.islower():
        return False
    if key in _LISTS["never_last"]:
        return True
    unknown = _INITIALS.fullmatch(word) or (_VOWELLESS.fullmatch(word) and not following[:1].isdigit())
    if (key in _LISTS["titles"] and word[0].isupper()) or key in _LISTS["maybe_last"] or word == "v" or unknown:
        return sign == "§" or (bool(following) and not begins)
    return False


def _ends_with_letter(tail: str, at: int, following: str, *, initial: bool) -> bool:
    """Whether a sentence ends with a single letter ("plan B. The …"): it is no initial of a name ("J. A. Roe")."""
    before = tail[:at].rstrip()
    return (len(following) > 1 or not initial) and not before.endswith(".") and bool(before)


def spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of `text` lie; white space between them is in none."""
    ends = (0, *_ends(text), len(text))
    return [body.span() for start, end in pairwise(ends) if (body := _BODY.search(text, start, end))]


def idle(sentence: str) -> bool:
    """Whether a sentence is about answering, such as "Here is a summary:" or "I cannot access the document."."""
    return _IDLE.match(sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")) is not None


class Sentences:
    """Takes deltas, gives whole sentences, but for those that are idle or repeat an earlier one."""

    def __init__(self) -> None:
        self.looping = False
        self._open = ""
        self._seen: set[tuple[str, ...]] = set()
        self._in_a_row = 0

    def add(self, delta: str) -> str:
        """Sentences that `delta` completes, or ""."""
        self._open += delta
        return self._complete(more=True)

    def finish(self, *, whole: bool) -> str:
        """What is left: an unfinished sentence too when decoding ended by itself (`whole`), or there is no other."""
        complete = self._complete(more=False)
        rest, self._open = self._open, ""
        unfinished = (whole or not self._seen) and rest.strip() and self._is_new(rest)
        return complete + rest if unfinished else complete

    def _complete(self, *, more: bool) -> str:
        ends = (0, *_ends(self._open, more=more))
        sentences = [self._open[start:end] for start, end in pairwise(ends)]
        self._open = self._open[ends[-1] :]
        return "".join(filter(self._is_new, sentences))

    def _is_new(self, sentence: str) -> bool:
        words = tuple(_WORD.findall(sentence.lower()))
        if not words:
            return True
        if idle(sentence):
            return False
        if words in self._seen:
            self._in_a_row += 1
            self.looping = self._in_a_row >= _PATIENCE
            return False
        self._in_a_row = 0
        self._seen.add(words)
        return True
