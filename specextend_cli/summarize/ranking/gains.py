"""What a sentence gains beside its score: by its share of the user's focus, and where somebody may have to act on it.

A sentence that says what was found, decided, recommended or asked for is what somebody who must act reads first. The
rules are for English, and those of other languages are few. The learned scores know such words too, but beside place
and length they count for little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.ranker import Array
from specextend_cli.summarize.ranking.text_kind import decides
from specextend_cli.summarize.ranking.wording import rules
from specextend_cli.summarize.text.terms import terms

WEIGHT = 8.0
"""Standard deviations of the scores that the sentence with most of the focus gains: more than the best one has."""
_HEADING = 0.5  # of a word's weight, for a sentence that has it only in its heading
EMPTY = terms(
    """a about after all also an and any are as at be been between but by can could did do does for from had has have
    he her his how i if in into is it its me more most my not of on or our say says shall she should so some tell than
    that the their them then there these they this those to was we were what when where which who whom whose why will
    with would you your"""
)
"""They ask and join, and say nothing of the subject; a report has "what" too rarely for its rarity to tell."""
_MONTH = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = rf"(?:{_MONTH}\b|\d{{1,2}}\ {_MONTH}|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|tomorrow|tonight|the\ end\ of)"
_RECOMMENDS = regex.compile(
    r"""\b(?:(?<!\b(?:has|have|had)\ )recommend(?:s|ed)?|recommending|urges?|advises?)\ (?:that|against
          |the\ \p{Lu}|\p{Lu}|\p{L}+ing)
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
# "To assess …, we reviewed …", "Officials were chosen; we interviewed …".
_METHOD = regex.compile(
    r"""^To\ (?:\p{L}+\ )?(?:address|answer|assess|determine|identify|examine|evaluate|understand|describe|obtain
          |supplement|conduct|develop|gain|gather|ascertain|learn|perform|analyze|estimate|study|explore|investigate
          |do\ (?:this|so))\b[^.]*,\ (?:we|GAO)\ \p{Ll}+
      | (?:^|[,;:]\ )(?:[Ww]e|GAO)\ (?:also\ |then\ )?(?:interviewed|surveyed|visited|contacted|reviewed|analyzed
          |spoke\ with|met\ with|collected|obtained|gathered|purchased|conducted\ (?:our|this|interviews)
          |performed\ (?:our|this))\b""",
    regex.VERBOSE,
)


def relevance(focus: str, found: Sequence[Candidate], bags: Sequence[set[str]]) -> Array:
    """Each sentence's share of the focus, 0 to 1, [sentences]; `bags` are their terms.

    A word weighs what its inverse document frequency says among the sentences; one that none of them has counts for
    nothing, and neither do words such as "what", unless there are no others. A word that only the sentence's heading
    has counts half.
    """
    asked = terms(focus)
    asked = asked - EMPTY or asked
    places = {term: np.array([term in bag for bag in bags], bool) for term in sorted(asked)}
    headings = {text: terms(text) for text in {one.heading for one in found}}
    share, total = np.zeros(len(found)), 0.0
    for term, own in places.items():
        above = np.array([term in headings[one.heading] for one in found], bool)
        if number := own.sum() or above.sum():
            weight = math.log1p(len(bags) / number)
            share += weight * np.where(own, 1.0, _HEADING * above)
            total += weight
    return np.minimum(share / max(total, 1e-9), 1.0).astype(np.float32)


def gain(share: Array, usable: NDArray[np.bool_]) -> Array:
    """What each usable sentence gains by its share of the focus, in standard deviations of the scores, [sentences].

    All 0 where none has any of it.
    """
    share = np.where(usable, share, np.float32(0))
    return share * np.float32(WEIGHT / max(float(share.max(initial=0.0)), 1e-9))


def recommends(line: str, language: str = "en") -> bool:
    """Whether a printed sentence says what somebody should do."""
    return (_RECOMMENDS if language == "en" else rules(language).advises).search(line) is not None


def tells_method(line: str) -> bool:
    """Whether a printed sentence says how something was found out, as auditors do."""
    return _METHOD.search(line) is not None


def concludes(line: str) -> bool:
    """Whether a printed sentence states a finding, a decision or a request."""
    return decides(line) or _CONCLUDES.search(line) is not None
