"""Sentences that no summary needs: references, citations, contact data, legal notices, signatures, pointers to tables,
announcements of what follows.

The rules here are for English, and each asks for words that only such a sentence has together: a report about copies,
a virus or a witness's statement stays a candidate. Those of other languages are few (`wording`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import regex

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.wording import rules

Class = Literal["announcement", "citation", "contact", "notice", "pointer", "reference", "signature"]

_THIS = r"\b(?:[Tt]his|[Tt]he(?:se)?|[Oo]ur)\ "
_WORK = r"(?:reports?|testimony|statements?|documents?|papers?|articles?|publications?|products?|books?|memos?|study)"
_PART = r"(?:section|subsection|chapter|module|unit|lesson)s?"
_MAIL = r"(?:e-?mail|message|communication|transmission|fax)"

_PATTERNS: dict[Class, str] = {
    "announcement": rf"""
        ^(?:In|Throughout)\ (?:this|the\ (?:next|following|coming))\ {_PART},?\ (?:we|you|I|it)\b
      | ^(?:This|The\ (?:next|following))(?:\ \p{{L}}+)?\ {_PART}\ (?:will\ |also\ )?
          (?:describe|explore|examine|discusse?|cover|introduce|look|take|consider|outline|present|review|explain
            |provide|summarize|detail|list|specifie|specify|define|focuse?|addresse?|contain|give|deal|begin|offer)s?\b
          (?!\ (?:that|for)\b)
      | ^What\ follows\b|^In\ (?:the\ following|what\ follows),
      | ^(?:By\ the\ end\ of|After\ (?:reading|completing|studying))\ th(?:is|e)\ {_PART}\b
      | \b[Yy]ou(?:\ will|['’]ll)\ (?:also\ )?(?:learn|explore|read)\ (?:about|how|what|why|more)\b
      | \b(?:[Ww]e|I|you)(?:\ will|['’]ll|\ shall)\ (?:\p{{L}}+\ )?(?:discuss|explore|examine|look\ at|see|return|turn
            |consider|describe|learn|cover|explain|review)\b.*\b
          (?:(?:later|below|next)\W*\Z|in\ (?:this|the\ next|the\ following|a\ later|later|subsequent)\ {_PART}\b)
    """,
    "contact": rf"""
        \bon\ the\ (?:last|back|front|inside)\ (?:page|cover)\ of\ this\b
      | \b(?:phone\ numbers?|address(?:es)?)\b.*\b(?:on|at)\ the\ (?:cover|end|back)\b
            |\baddress\ (?:given\ )?on\ the\ cover\b
      | \bchecks?\ (?:or|and)\ money\ orders?\b|\bmoney\ orders?\ (?:should|must|payable)\b|\bpayable\ in\ advance\b
      | ^Orders?\ (?:for\ [\d\w]+\ or\ more|may|should|can|must)\b.*\b(?:cop(?:y|ies)|placed|mailed|phone|fax|mail)\b
      | \bcop(?:y|ies)\b.*\b(?:(?:is|are)\ free|\$\d+(?:\.\d+)?\ each
          |(?:be\ )?(?:ordered|purchased|obtained|requested)\ (?:from|by|at|for))\b
      | \b[Ii]f\ you\b.{{0,30}}\b(?:have|need|want)\ (?:\w+\ ){{0,3}}(?:questions?|comments|concerns|information
            |assistance)\b
      | \b(?:questions?|comments?|concerns?)\b.*\b(?:contact|call|write|reach)\ (?:me|us|him|her|them|the|our)\b
      | \bhesitate\ to\ (?:call|contact|ask|write|reach)\b|^Feel\ free\ to\b|^Let\ (?:me
            |us)\ know\ if\ you\ (?:have|need)\b
      | ^For\b.*\b(?:information|inquir(?:y|ies)|enquir(?:y|ies)|questions?|details)\b.*
          \b(?:contact|call|visit|write|e-?mail|go\ to)\b
      | \b(?:[Kk]ey|[Mm]ajor|[Ss]ignificant|[Ii]mportant)\ contribut(?:ors?|ions?)\ (?:to|of|on)\ th(?:is|ese)\b
      | \bmade\ (?:key|major|significant|important)\ contributions\ to\ th(?:is|ese|e)\ {_WORK}
      | {_THIS}{_WORK}\b.{{0,40}}\b(?:available|obtained|ordered|purchased|downloaded)\b.*
          \b(?:[Ww]eb\ ?site|charge|request|[Ii]nternet|online|home\ page)\b
      | \bsending\ copies\ of\ th(?:is|ese)\b|\bcopies\ available\ to\ (?:others|other|anyone)\b
      | ^Subscribe\b|\b[Ss]ubscription\ (?:rates?|prices?)\b|\bselect\ [“"]?Subscribe\b|\b[Oo]ffice\ hours\ are\b
      | ^To\ report\ (?:fraud|abuse|suspected|waste)\b|\be-?mail\ you\ a\ list\b
      | ^You\ (?:may|can)\ (?:also\ )?(?:write|call|reach|contact|e-?mail|follow|visit)\ (?:to\ )?(?:me|us|the|our)\b
      | ^(?:Please\ )?(?:[Vv]isit|[Ff]ollow|[Ff]ind|[Jj]oin)\ (?:us|our|the)\b.*\b(?:[Ww]eb\ ?site|page|online
            |on\ \p{{Lu}})
    """,
    "notice": rf"""
        \bno\ virus(?:es)?\ (?:was\ |were\ )?(?:found|detected)\ in\ (?:this|the)\b|\bscanned\b.*\bvirus(?:es)?\b
              |\bfor\ the\ presence\ of\ (?:computer\ )?viruses\b
      | \b[Tt]his\ (?:\p{{L}}+\ )?{_MAIL}\b.*\b(?:confidential|privileged|intended\ (?:solely|only|for)|proprietary
            |addressee)\b
      | \bvirus(?:es)?\b.*\b(?:this|attach\p{{L}}+)\b.*\b{_MAIL}\b|\b{_MAIL}\b.*\b(?:free\ (?:from|of))\ (?:any\ )?virus
      | \breceived\ this\b.{{0,40}}\bin\ error\b|\bnot\ (?:be\ )?(?:an?|the|an\ )\ ?(?:intended\ recipient
            |addressee)\b|^Unless\ you\ are\ the\ addressee\b
      | \b[Uu]nauthori[sz]ed\b.*\b(?:copying|disclosure|use|distribution|review)\b.*\b(?:prohibited|forbidden
            |unlawful)\b
      | \bconsider\ the\ environment\ before\b|\breceiv(?:e|ed|ing)\ this\b.*\bbecause\ you\b|\b[Tt]o\ unsubscribe\b
      | \bview\ this\ {_MAIL}\ in\b|^Sent\ from\ my\b|^Click\ (?:here|below|on\ the)\b
      | \b(?:views?|opinions?|contents?|conclusions?)\b.*\bnot\ necessarily\ (?:represent|reflect|those|state|imply
            |endorse)
      | \b(?:views|opinions)\ expressed\b.*\bare\ (?:those|solely|my\ own|the\ author)
      | \b[Aa]ll\ rights\ reserved\b(?!\ to\b)|^(?:©|Copyright\ (?:©|\(c\)|(?:19|20)\d\d))|©\ ?(?:19|20)\d\d
      | \b(?:[Tt]his|[Tt]he)\ (?:work|publication|report|document|book|text|material)\b.*
          \b(?:copyright(?:ed)?\b|public\ domain\b|(?:CC|GPL|MIT|Apache|Creative\ Commons)\b.*\blicen[cs]e)
      | \bsubject\ to\ copyright\b
      | \bcopyright\ holder\b.*\bpermission\b|\bpermission\ (?:of|from)\ the\ (?:copyright\ )?(?:holder|publisher
            |author)s?\b.*\breproduc|\breproduced\b.*\bwithout\b.*\bpermission\b
      | ^The\ key\ ?words\b.*\bMUST\b.*\binterpreted\b
      | ^Permission\ is\ (?:hereby\ )?granted\b|\b[Ee]ntered,?\ according\ to\ (?:the\ )?A\p{{L}}+\ of\ Congress\b
      | ^(?:Printed|Published|Typeset)\ (?:by|in|at|for)\b(?!.*\b(?:is|was|are|were|has|it|he|she)\b)
            |^Distribution\ of\ this\b.*\bunlimited\b
      | ^This\b.*\boriginally\ (?:published|posted|appeared)\b|\bon\ (?:Facebook|Twitter|LinkedIn|Instagram
            |YouTube)\b.*\bupdates\b
      | ^You\ can\ (?:also\ )?follow\b.*\bon\ (?:Facebook|Twitter|LinkedIn|Instagram|X)\b
      | \b(?:accepts?|assumes?)\ no\ (?:liability|responsibility)\b.*\b(?:{_MAIL}|virus\p{{L}}*|errors\ or\ omissions)\b
    """,
    "pointer": r"""
        ^(?:Table|Figure|Fig\.|Chart|Exhibit|Appendix|Appendixes|Box|Annex)s?\ (?:[\dIVXLA-Z][\w.-]*\ )?(?:(?:below
              |above|also)\ )*
          (?:shows?|lists?|illustrates?|presents?|provides?|contains?|summarizes?|describes?|compares?
            |depicts?|displays?
            |gives?|defines?|serves?|demonstrates?|outlines?|identifies|includes?|details|breaks)\b(?!\ that\b)
      | \b(?:is|are|can\ be|may\ be)\ (?:also\ )?(?:listed|described|shown|provided|presented|discussed|given|found
            |included|summarized
            |detailed|reproduced|explained|outlined|illustrated|depicted|available)\b[^,;]{0,40}\bin
            \ (?:more\ detail\ in\ )?(?:the\ )?
            (?:[Aa]ppendi(?:x|ces|xes)|[Tt]able|[Ff]igure|[Aa]nnex|[Ee]nclosure)\b
      | ^(?:Please\ )?(?:See|Refer\ to)\ (?!to\ it\b|that\b)|^For\ [^,]*,\ (?:please\ )?(?:see|refer)\b
      | ^\[?(?:Illustration|Image|Photo)\b\W|^(?:Notes?|Sources?|Legend|Key):
      | ^(?:Watch|Read|View|Visit|Listen\ to|Check\ out)\ (?:(?:this|these|the)\b|\p{Lu}).*
          \b(?:video|article|website|podcast|simulation|clip)s?\b
      | ^The\ (?:rest|remainder)\ of\ this\ \p{L}+\ (?:is\ (?:organi[sz]ed|structured)|proceeds|describes|discusses)
      | ^(?:This|The\ following)\ (?:appendix|table|figure|annex)\ (?:contains?|describes?|provides?|lists?|shows?
            |presents?)\b
    """,
    "signature": r"""
        ^(?:With\ )?(?:[Bb]est|[Kk]ind(?:est)?|[Ww]arm(?:est)?|[Mm]any)\ (?:regards|wishes|thanks)\b(?:,|\ from\b
              |\ \p{Lu}|\W*\Z)
      | ^(?:Respectfully(?:\ submitted|\ yours)?|Sincerely(?:\ yours)?|Yours\ (?:truly|sincerely|faithfully|ever)
            |Cordially
          |Thanks\ and\ regards|Regards|Cheers),\ ?(?:\p{Lu}|\Z)
      | ^(?:Thanks|Thank\ you|Many\ thanks)\ (?:for\ (?:your|the\ (?:quick|prompt|fast|opportunity|reply))|so\ much
            |very\ much|again|in\ advance)\b
      | \bfinds\ you\ well\b|^(?:Enclosed|Attached)\ (?:please\ find|you\ will\ find)\b
            |^[Pp]lease\ find\ (?:attached|enclosed)\b
      | ^Statement\ of\ \p{Lu}[^.]*\b(?:Director|Secretary|Administrator|Chairman|Counsel|President|Professor
            |Commissioner)\b
      | ^By\ [Tt]he\ [Aa]uthor\ [Oo]f\b
    """,
}
_RULES = [(name, regex.compile(pattern, regex.VERBOSE)) for name, pattern in _PATTERNS.items()]

# What could be the verb of an English sentence. "-s" behind one of these words is a plural.
VERB = regex.compile(
    r"""\b(?:is|are|was|were|be|been|has|have|had|does|do|did|can|could|may|might|must|shall|should|will|would
      |\p{L}+(?:ed|n['’]t)|began|became|came|fell|gave|grew|held|led|left|lost|made|met|rose|said|saw|set
      |spent|took|went
      |(?<!\b(?:to|of|and|or|about|[Tt]he|for|in|by|with|on|from|an?)\ )(?<!['’])\p{Ll}+[^s\W]s)\b""",
    regex.VERBOSE,
)
_SIGNAL = regex.compile(
    r"^(?:See(?:,|\ also|\ generally|\ id)?|But\ see|Cf\.|Accord|Contra|Id\.|Ibid\."
    r"|Compare(?=.*\d))\ (?=\S)(?!to it|that)"
)
# Reporters, codes, sections and cases.
_LEGAL = regex.compile(
    r"""\d\ (?:U\.S\.C?\.?|F\.\ ?(?:2|3)d|F\.\ ?Supp|C\.F\.R|S\.\ Ct|Stat\.|Fed\.\ Reg|Cong\.|L\.\ Ed|Ohio\ St)|§
          |\bPub\.\ L\.|\ v\.\ |\bIn\ re\b
      |\b(?:H\.R\.|S\.)\ (?:Rep|Doc|Res)\.|\bFed\.\ R\.|\b(?:Tr\.|302|Ex\.\ \d+),?\ at\ \d|,\ (?:at
            |paras?\.)\ \d+(?:[-–]\d+)?[.;]""",
    regex.VERBOSE,
)
_INSIDE = regex.compile(r"\([^()]*\)|“[^”]*”|\"[^\"]*\"")
# The parts of an entry of a bibliography: author, date, volume and pages, publisher, place, number of a report.
_AUTHOR = regex.compile(
    r"""^(?:\p{Lu}[\p{L}'’-]+,\ (?:\p{Lu}\.\ ?)+(?:[,(“"]|and\b|\p{Lu}|\Z)
      |\p{Lu}[\p{L}'’-]+,\ \p{Lu}\p{Ll}+(?:\ \p{Lu}\.)?(?:\.|,\ (?:et\ al|and\ \p{Lu}|\p{Lu}\p{Ll}+\ \p{Lu}))
      |\p{Lu}[\p{L}'’-]+\ \p{Lu}{1,2}(?:,\ |\.,)|\p{Lu}[\p{L}'’-]+,\ \p{Lu}\p{Ll}+\.\ [“"\p{Lu}])""",
    regex.VERBOSE,
)
_PARTS = [
    regex.compile(pattern, regex.VERBOSE)
    for pattern in (
        r"[(,.]\ ?(?:\p{L}+\ (?:\d{1,2},\ )?)?(?:1[5-9]|20)\d\d[a-z]?(?:\)|[.,;:]|\Z)",
        r"\b[Vv]ol(?:\.|ume)\ ?[\dIVX]+|\b[Nn]o\.\ ?\d+\ ?\(|\bpp?\.\ ?\d+"
        r"|\b\d+\ ?\(\d+\)\ ?[:,]|\b\d+\ \((?:1[5-9]|20)\d\d\)|:\ ?\d+[-–]\d+",
        r"\bPress\b|\bPublish(?:ers?|ing)\b|\b(?:Books|Verlag|Wiley|Springer|Elsevier|Routledge|Oliver\ and\ Boyd)\b"
        r"|\b\d(?:st|nd|rd|th)\ ed\.",
        r"\b(?:Journal|Quarterly|Proceedings|Bulletin|Transactions|Annals|Review)\ (?:of|on|for)\b"
        r"|\b(?:Quarterly|Review),?\ (?:\d|[Vv]ol)",
        r"\b\p{Lu}\p{L}+(?:,\ (?:\p{Lu}\.?){2})?:\ (?:\p{Lu}|(?:19|20)\d\d|\p{L}+\.\ \d)",
        r"\b(?:GAO|CRS|CBO|GGD|RCED|DOE|EPA|NIST)(?:[/-]\p{Lu}+)*[- ](?:Report\ )?\p{Lu}*\d[\d-]+"
        r"|\bISBN\b|\bdoi\b|\barXiv\b|\bReport\ RL?S?\d{4,}",
        r"[“\"]\p{Lu}[^”\"]*[.,?][”\"](?!\ \p{Ll})",
    )
]
_ENTRY = 3  # parts of an entry, where no verb tells
_RETRIEVED = regex.compile(
    r"^(?:Retrieved|Accessed|Adapted|Reprinted|Excerpted)\ (?:on\b|from\b|\p{Lu})|^In Proceedings of\b"
)
# A line with one of these words is English.
ENGLISH = regex.compile(r"\b(?:the|of|and|for|by|from|with)\b")
_LONG_WORD = regex.compile(r"\p{L}{4,}")
_LOWER = regex.compile(r"(?<![\p{L}\p{N}'’-])(?!(?:the|of|and|or|for|by|from|with|in|on|to|at|as|an?)\b)\p{Ll}\p{L}*")
_ENOUGH = 3  # long words of a title, or of names and offices
_SECTION = regex.compile(
    r"""[\W\d]*(?:Appendix\ \w+:?\s+)?(?:
        (?:Selected\ |General\ |Annotated\ )?(?:References?(?:\ (?:and|&)\ Notes|\ Cited)?|Bibliography|(?:Works
              |Literature)\ Cited
          |(?:Further|Suggested|Recommended)\ Readings?)
      | (?:Related\ )?(?:GAO\ )?(?:Related\ )?(?:Products|Publications)|(?:Table\ of\ )?Contents
            |List\ of\ (?:Figures|Tables|Abbreviations|Illustrations)
      | (?:Staff\ )?Acknowledge?ments?|(?:GAO|Agency|Staff)?\ ?Contacts?(?:\ and\ (?:Staff\ )?Acknowledge?ments?)?
            |Contact\ Information
      | (?:End|Foot)notes|Index|Copyright(?:\ Notice)?|About\ the\ Authors?|(?:Legal\ )?Disclaimer
      | (?:To\ )?(?:Obtain(?:ing)?|Order(?:ing)?)\ (?:Copies|Information|by).*|To\ Report\ Fraud.*
            |Congressional\ Relations|Public\ Affairs|GAO['’]s\ Mission
    )[\W\d]*""",
    regex.VERBOSE | regex.IGNORECASE,
)
_MOST = 0.3  # of a document's sentences: a larger section is not what its heading says
_SPEAKER = regex.compile(r"[\p{Lu}][^.:]{0,30}: ")
_UNENDED = regex.compile(
    r"(?:\b(?:the|an?|of|and|or|to|in|by|for|with|from|on|at|that|which|is|are|was|were|its|their|this|as|than)|-)\Z"
)


def boilerplate(line: str, language: str = "en") -> Class | None:
    """What a printed sentence is, if it is one that no summary needs; else None.

    The time is not linear in its length: give it sentences of some bounded number of words.
    """
    author = _AUTHOR.match(line) is not None
    parts = sum(part.search(line) is not None for part in _PARTS) + 2 * author
    if language != "en":  # its verbs are not known here
        return "notice" if rules(language).idle.search(line) else "reference" if author and parts >= _ENTRY else None
    for name, rule in _RULES:
        if rule.search(line):
            return name
    bare = _INSIDE.sub(lambda part: "" if part[0][0] == "(" or _is_named(part[0]) else part[0], line)
    verb = VERB.search(bare) is not None
    if _SIGNAL.match(line) or (not verb and _LEGAL.search(line)):
        return "citation"
    if _RETRIEVED.match(line) or (parts >= 2 and not verb) or (author and parts >= 4):
        return "reference"
    return "signature" if not verb and _is_named(line) else None


def _is_named(line: str) -> bool:
    """Whether there are but names, offices or the words of a title in a line, beside "of", "and" and the like."""
    return len(_LONG_WORD.findall(line)) >= _ENOUGH and not _LOWER.search(line) and ENGLISH.search(line) is not None


def beside_the_text(lines: Sequence[str], found: Sequence[Candidate], language: str = "en") -> list[bool]:
    """Which sentences stand where no text is: below "References" or "Contents", or as the rest of a cut sentence.

    `lines` are the sentences as they are printed, [sentences].
    """
    named = _SECTION if language == "en" else rules(language).beside
    # Where titles have no capitals a heading may be known by its words only.
    begins = [
        one.kind == "prose" and language != "en" and named.fullmatch(line) is not None
        for one, line in zip(found, lines, strict=True)
    ]
    parts = [(one.section, number) for one, number in zip(found, accumulate(begins), strict=True)]
    names = {part: one.heading for part, one in zip(reversed(parts), reversed(found), strict=True)}
    names |= {part: line for part, line, first in zip(parts, lines, begins, strict=True) if first}
    sizes, most = Counter(parts), _MOST * len(found)
    beside = {part for part, name in names.items() if sizes[part] <= most and named.fullmatch(name)}
    return [part in beside or _is_rest(lines, found, number) for number, part in enumerate(parts)]


def _is_rest(lines: Sequence[str], found: Sequence[Candidate], number: int) -> bool:
    """Whether a block begins inside a sentence, which a page or a footnote has cut."""
    if not number or found[number].place or found[number].kind != "prose":
        return False
    spoken = _SPEAKER.match(lines[number])
    return found[number - 1].kind == "prose" and not spoken and _UNENDED.search(lines[number - 1]) is not None
