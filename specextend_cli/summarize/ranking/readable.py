"""Whether a sentence can be read outside of its document, and how it is printed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import regex

from specextend_cli.summarize.ranking.candidates import ITEM, Candidate
from specextend_cli.summarize.ranking.wording import wording
from specextend_cli.summarize.words import length_of

_SHORT, _LONG = 6, 60  # words
_FEW, _WIDE = 4, 40  # words, and characters, of a sentence in a language that joins more of it to a word than English
# A capital begins it, or a letter of a script that has none, after figures too: "2024年7月", "214 गाँवों".
_WHOLE = regex.compile(
    r"""(?:«\ |["'`*\p{Ps}\p{Pi}»¿¡])*(?:\p{Lu}|\p{Lt}|(?:\p{N}[\p{N}.,]*\ ?)?[\p{Lo}\p{Georgian}])[^•●▪■]*
      (?:[.!?\p{STerm}](?:\ »|["'`*\p{Pe}\p{Pf}\p{Pi}])*|[\p{Thai}\p{Lao}])""",
    regex.VERBOSE,
)
# The number of a clause, as of a contract: "2.1 The provider …".
_CLAUSE = regex.compile(r"""\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+(?=["“„«]?\p{Lu}[\p{L}'’-]*["”“»]?\s\p{L})""")
_INITIAL = regex.compile(r"\p{Lu}\.\s\p{Lu}")
_QUESTION = regex.compile(r"""(?:[?？؟՞]|(?<=\p{Greek}{2});)[!?.…"'`*\p{Pe}\p{Pf}\p{Pi}]*\Z""")
_ADDRESS = regex.compile(r"\(\d{3}\) ?\d{3}-\d{4}|\w@\w|https?://|\bwww\.")
# What breaks off, an entry of a table of contents, and the rest of a reference: "(June 8, 2017) (Statement …).".
_CUT = regex.compile(
    r"""\s[.]\Z|(?:[.][.][.]|…)["'”’»)]*\Z|[.]\s?[.]\s?[.]\s?[.]|^\((?![^()]*(?:\([^()]*\)[^()]*)*\)\p{Pf}?\Z)"""
)
_BRACKETED = regex.compile(r"\([^()]*\)")
_LONG_WORD = regex.compile(r"\p{L}{4,}")
_TITLE = 3  # long words at least, all with capitals, of what is a title ("Flood Insurance: Challenges Facing the …")
_SHORT_VERB = regex.compile(r"\b(?:is|are|was|were|be|has|had|did|can|may|met|won|led|set|ran|said)\b")
_PAIRS = ("()", "[]", "「」", "『』", "（）", "【】", "《》")
_QUOTES = ('"', "„“”", "«»")  # which of a pair opens depends on the language
_BESIDE = 0.5  # of a document's sentences: a larger section is not what its heading says


def printed(sentence: str, language: str, *, listed: bool = True) -> str:
    """The sentence on one line, without the mark of a list or a clause and a connective at its beginning.

    Where nothing is `listed`, "M. Leroy …" begins with an initial.
    """
    line = " ".join(sentence.split())
    mark = ITEM.match(line)
    line = line[mark.end() :] if mark and (listed or not _INITIAL.match(line)) else line
    line = line[clause.end() :] if (clause := _CLAUSE.match(line)) else line
    if joined := wording(language).joins.match(line):
        line = line[joined.end() :]
        line = line[0].upper() + line[1:]
    return line


def asks(line: str) -> bool:
    """Whether a printed sentence is a question, which says nothing without its answer."""
    return _QUESTION.search(line) is not None


def is_whole(line: str, language: str) -> bool:
    """Whether a printed sentence is complete, has a length to be read, and is no title, address or pointer.

    Only its words are looked at, not what stands before it.
    """
    size = length_of(line)
    least = _FEW if language != "en" and len(line) >= _WIDE else _SHORT
    if not least <= size <= _LONG or not _balanced(line):
        return False
    # Only of so few words: the time of the rules is not linear in their number.
    if _ADDRESS.search(line) or _CUT.search(line) or wording(language).idle.search(line):
        return False
    return _WHOLE.fullmatch(line) is not None and not _is_title(line)


def beside_the_text(lines: Sequence[str], found: Sequence[Candidate], language: str) -> list[bool]:
    """Which printed sentences stand below "References", "Contents" and the like, [sentences]."""
    named = wording(language).beside
    # Where titles have no capitals a heading may be known by its words only.
    parts, names, section = list[int](), list[str](), -1
    for one, line in zip(found, lines, strict=True):
        begins = language != "en" and one.kind == "prose" and named.fullmatch(line) is not None
        if one.section != section or begins:
            section = one.section
            names.append(line if begins else one.heading)
        parts.append(len(names) - 1)
    sizes, most = Counter(parts), _BESIDE * len(found)
    beside = {part for part, name in enumerate(names) if sizes[part] <= most and named.fullmatch(name)}
    return [part in beside for part in parts]


def _is_title(line: str) -> bool:
    """Whether all long words outside brackets have capitals and none of the others is a verb, as in a reference.

    Scripts without capitals have none.
    """
    found = _LONG_WORD.findall(_BRACKETED.sub("", line))
    return len(found) >= _TITLE and all(word[0].isupper() for word in found) and not _SHORT_VERB.search(line)


def _balanced(sentence: str) -> bool:
    """Whether parentheses and quotation marks close: else it was cut at "(see fig. 2)", or in somebody's speech."""
    if any(sentence.count(pair[0]) != sentence.count(pair[1]) for pair in _PAIRS):
        return False
    return all(sum(map(sentence.count, marks)) % 2 == 0 for marks in _QUOTES)
