"""Whether a sentence can be read outside of its document, and how it is printed there."""

from __future__ import annotations

import regex

from specextend_cli.summarize.ranking.boilerplate import ENGLISH, VERB, boilerplate
from specextend_cli.summarize.ranking.candidates import ITEM
from specextend_cli.summarize.ranking.wording import rules
from specextend_cli.summarize.text.words import count_words, length_of

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
# What joins a sentence to the one before and can be left out of it.
_CONNECTIVE = regex.compile(
    r"""(?:(?:However|Moreover|Furthermore|Additionally|In\ addition|Also|Therefore|Thus|Hence|Consequently|Accordingly
      |As\ a\ result|For\ (?:example|instance)|Nevertheless|Nonetheless|Similarly|Likewise|Specifically|Finally|Overall
      |Indeed|Of\ course|Still|Besides
      |In\ (?:particular|contrast|turn|short|fact)|By\ (?:contrast|comparison)|On\ the\ other\ hand|Meanwhile),
      |But|And|Yet)\s+(?=\p{L})""",
    regex.VERBOSE,
)
_SELF = (  # what a document calls itself, "this HIP"
    r"(?!\ (?:report|paper|document|proposal|study|article|review|book|chapter|guide|\p{Lu}{1,3}P|RFC"
    r"|specification|standard|statement|testimony|manual|policy|act|bill)\b)"
)
# What speaks of something before; "This report" and "It is important that" do not.
_LEANS = regex.compile(
    rf"""(?:(?:They|He|She|These|Those|Such|Their|Its|His|Her|Or|Nor|So|Rather|Instead|Otherwise|Conversely|Both
      |Again|Another|Similar|Other|Further)\b
      |(?:This|That)\b{_SELF}
      |It\b(?!\ (?:is|was|will\ be|would\ be|has\ been)\ \p{{L}}+\ (?:to|that|whether)\b)
      |(?:At\ )?[Tt]he\ (?:former|latter|same|other|following|above|first|second|third)\b
      |(?:Because\ of|Despite|Given|Under|For|In|To\ \p{{L}}+|As)\ (?:th(?:is|ese|at|ose)|such)\b
      |(?:In|During|At|By|On|Within)\ (?:the\ (?:same|other|latter|former)|such)\b
      |(?:As\ such|Like\ (?:this|these|those)|By\ doing\ so|In\ doing\ so|If\ so|Later|Within\ \p{{L}}+)\b
        (?=[^,.]{{0,20}},)
      |(?:While|Although|Though|If|Because|Since|When|Unless|Once|Where)\ th(?:is|at|ese|ose)\b{_SELF}
      |One\ (?:reason|example|exception|result|consequence|explanation|answer|solution)
        \ (?:is|was|may|might|could|for\ this)\b
      |(?:Each|One|Some|Most|Many|Much|All|None|Any|Several|Few|Two|Three|Four|Either|Neither)
        \ of\ (?:th(?:is|at|ese|ose)|them)\b
      |[^,]{{0,80}}\ (?:is|are|was|were)\ (?:one|some|part|all|both|examples?)\ of\ th(?:is|at|ese|ose)\b
      |[^,;:]{{2,60}},\ (?:this|these)\b{_SELF}(?!\ (?:is|was|are|were|has|have|can|could|may|might|will|would|should
        |must|means?|does|did)\b)
      |(?:Yes|No|Exactly|Right|Correct|Sure|Then|Next|Alternatively|Even\ so|In\ other\ words|That\ is|Afterwards?
        |In\ this\ case),
      |(?:First(?:ly)?|Second(?:ly)?|Third(?:ly)?|Fourth|Fifth|Lastly),
      |(?:During|By|On|At|Since|After|Before|With|Of|From|Among|Through|Without|Like)\ (?:this|that|these|those)\b
      |(?:For\ (?:example|instance)|In\ (?:addition|particular|contrast|turn|short|fact)|As\ a\ result|Specifically),
      |(?:The|An?)\ \p{{L}}+\ (?:reacted|responded|replied)\ to\ (?:this|that|these|those)\b
      |(?:As|See)\ (?:shown|noted|discussed|described|illustrated|mentioned|stated|indicated|seen)\b
      |See\b|(?:Table|Figure|Chart|Exhibit|Appendix|Box|Note|Source)s?\b[\ :])""",
    regex.VERBOSE,
)
# An entry of a table of contents, a date line of a cover, or what breaks off; and who was sent a draft of a report.
_NO_TEXT = regex.compile(r"\s[.]\Z|(?:[.][.][.]|…)[\"'”’»)]*\Z|[.]\s?[.]\s?[.]\s?[.]|\bFor Release\b|\b[ap]\.m\.\Z")
_BOILERPLATE = regex.compile(
    r"""\bdraft\ of\ (?:this|the|our)\ (?:report|testimony|statement)\ (?:to|for|by)\b
      |\baccordance\ with\ generally\ accepted\ (?:government\ )?auditing\b
      |\b(?:[Cc]opies|[Cc]opy)\ of\ (?:this|the|each|printed)\b.*\b(?:free|available|request|sent)\b""",
    regex.VERBOSE,
)
# The rest of a reference, "(June 8, 2017) (Statement …)."; and an item whose subject is the head of its list,
# "Restricts the marketing of …".
_REST = regex.compile(
    r"""\((?![^()]*(?:\([^()]*\)[^()]*)*\)\p{Pf}?\Z)
      |(?!(?:Does|Is|Was|Has|Towards|As|Besides|Its|Thus|Perhaps|Plus|Always|Sometimes|Nowadays|Versus|Afterwards)\b)
        \p{Lu}\p{Ll}+[^s\W]s\ (?:the|an?)\ \p{Ll}""",
    regex.VERBOSE,
)
# A heading that runs into its paragraph, "The President's reaction to the investigation.": a noun made of a verb, or
# "efforts", and nothing that could be the verb of a sentence. "-s" behind one of these words is a plural.
_NOMINAL = regex.compile(
    r"(?:(?:The|A|An|(?!That|There|What|Here|Let)\p{Lu}\p{L}{2,}['’]s)\ (?:\p{L}+['’]?s?['’]?\ ){0,2})?"
    r"(?:\p{L}+(?:tion|ment)|[Rr]esponse|[Ee]fforts|[Aa]ttempts|[Cc]onduct)s?\ (?=(?:of|to|by|from|about|toward|in)\ )"
)
_SUBORDINATE = regex.compile(r"\bto\ \p{L}+(?<!s)\b|\bthat\b.*")
_HEADING = 24  # words; no such heading has more
_LABEL = 10  # words; no heading of a list's item has more
_PLURAL = regex.compile(r"\P{L}*\p{L}+s\W*\Z")
_CONTACT = regex.compile(r"\(\d{3}\) ?\d{3}-\d{4}|\w@\w|https?://|\bwww\.")
_LONG_WORD = regex.compile(r"\p{L}{4,}")
_TITLE = 3  # long words at least, all with capitals, of what is a title ("Flood Insurance: Challenges Facing the …")
_SHORT_VERB = regex.compile(r"\b(?:is|are|was|were|be|has|had|did|can|may|met|won|led|set|ran|said)\b")
_PAIRS = ("()", "[]", "「」", "『』", "（）", "【】", "《》")
_QUOTES = ('"', "„“”", "«»")  # which of a pair opens depends on the language


def printed(sentence: str, language: str = "en", *, listed: bool = True) -> str:
    """The sentence on one line, without the mark of a list or a clause and a connective at its beginning.

    Where nothing is `listed`, "M. Leroy …" begins with an initial.
    """
    line = " ".join(sentence.split())
    mark = ITEM.match(line)
    line = line[mark.end() :] if mark and (listed or not _INITIAL.match(line)) else line
    line = line[clause.end() :] if (clause := _CLAUSE.match(line)) else line
    if joined := (_CONNECTIVE if language == "en" else rules(language).joins).match(line):
        line = line[joined.end() :]
        line = line[0].upper() + line[1:]
    return line


def leans(line: str, language: str = "en") -> bool:
    """Whether a printed sentence speaks of something that the one before it names."""
    return (_LEANS if language == "en" else rules(language).leans).match(line) is not None


def asks(line: str) -> bool:
    """Whether a printed sentence is a question, which says nothing without its answer."""
    return _QUESTION.search(line) is not None


def is_whole(line: str, language: str = "en") -> bool:
    """Whether a printed sentence is complete, has a length to be read, and is no title, contact line or boilerplate."""
    size = length_of(line)
    least = _FEW if language != "en" and len(line) >= _WIDE else _SHORT
    if not least <= size <= _LONG or not _balanced(line):
        return False
    if any(pattern.search(line) for pattern in (_CONTACT, _NO_TEXT)):
        return False
    if language == "en" and (_BOILERPLATE.search(line) or _REST.match(line) or _runs_in(line, size)):
        return False
    return _WHOLE.fullmatch(line) is not None and not _is_title(line) and boilerplate(line, language) is None


def is_label(line: str) -> bool:
    """Whether a short English line, with which an item begins, has no verb: it names what the item is about.

    A last word in "-s" is a plural there: "Hybrid electric vehicles."
    """
    short = count_words(line) <= _LABEL and ENGLISH.search(line) is not None
    return short and VERB.search(_PLURAL.sub("", line)) is None


def _runs_in(line: str, size: float) -> bool:
    """Whether a short English line begins with a noun made of a verb and has no verb beside it: it is a heading."""
    return size <= _HEADING and _NOMINAL.match(line) is not None and VERB.search(_SUBORDINATE.sub("", line)) is None


def _is_title(line: str) -> bool:
    """Whether all long words have capitals and none of the others is a verb, as in a list of publications.

    Scripts without capitals have none.
    """
    found = _LONG_WORD.findall(line)
    return len(found) >= _TITLE and all(word[0].isupper() for word in found) and not _SHORT_VERB.search(line)


def _balanced(sentence: str) -> bool:
    """Whether parentheses and quotation marks close: else it was cut at "(see fig. 2)", or in somebody's speech."""
    if any(sentence.count(pair[0]) != sentence.count(pair[1]) for pair in _PAIRS):
        return False
    return all(sum(map(sentence.count, marks)) % 2 == 0 for marks in _QUOTES)
