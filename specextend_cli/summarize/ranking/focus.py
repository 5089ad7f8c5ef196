"""What sentences gain by their share of the user's focus, `--focus`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.candidates import Candidate
from specextend_cli.summarize.ranking.term_matrix import Array
from specextend_cli.summarize.words import EMPTY, terms

WEIGHT = 8.0
"""Standard deviations of the scores that the sentence with most of the focus gains: more than the best one has."""
_HEADING = 0.5  # of a word's weight, for a sentence that has it only in its heading


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
