"""Sentences that say what was found, decided, recommended or asked for: what somebody who must act reads first.

The rules are for English. The learned scores know such words too, but beside place and length they count for little.
"""

from __future__ import annotations

import regex

_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = rf"(?:{_MONTH}\b|\d{{1,2}}\ {_MONTH}|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|tomorrow|tonight|the\ end\ of)"
_RECOMMENDS = regex.compile(
    r"""\b(?:recommend(?:s|ed)?|recommending|urges?|advises?)\ (?:that|against|the\ \p{Lu}|\p{Lu}|\p{L}+ing)
      | \b(?:I|We|we)\ (?:would\ |strongly\ |therefore\ )?(?:suggest|propose|recommend|request|urge)\b
      | \b(?:Congress|Secretary|Director|Administrator|Commissioner|Archivist|[Aa]genc(?:y|ies)|[Dd]epartment|Board
            |Council)\b.{0,60}\bshould\b""",
    regex.VERBOSE,
)
_CONCLUDES = regex.compile(
    rf"""
        \b(?:conclude[sd]?|found|finds|determined|decided|agreed|ruled|resolved|voted|revealed|confirmed
              |learned)\ (?:that|to)\b
      | \b(?:[Ww]e|[Tt]he\ (?:study|report|audit|review|panel|committee|board|court|council|authors?))\ (?:also\ 
            |have\ )?
          (?:find|found|conclude[sd]?|estimated?|identified|approved|rejected)\b
      | \b(?:results|findings|data|analysis|study|studies|evidence|survey)\ (?:also\ )?(?:show(?:s|ed)?|suggest(?:s
            |ed)?|indicate[sd]?)\b
      | \b(?:must|should|shall|will|have\ to|has\ to|needs?\ to|please|answer|due|submit|accept)\b.*\b(?:by|before
            |until|no\ later\ than)\ {_DAY}
      | ^(?:Please|Could\ you|Can\ you|Would\ you)\ (?!note\b)\p{{Ll}}
    """,
    regex.VERBOSE,
)


def recommends(line: str) -> bool:
    """Whether a printed sentence says what somebody should do."""
    return _RECOMMENDS.search(line) is not None


def concludes(line: str) -> bool:
    """Whether a printed sentence states a finding, a decision or a request."""
    return _CONCLUDES.search(line) is not None
