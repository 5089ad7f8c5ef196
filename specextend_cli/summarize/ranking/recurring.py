"""Word pairs that recur: a summary should have what a document says again and again, each of it once.

Coverage of weighted concepts (Gillick and Favre, 2009, section 3), greedily, beside the scores of sentences: concepts
are pairs of words in a row, and each counts once, in the first sentence that is taken and has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from specextend_cli.summarize.words import EMPTY, ordered_terms

_LETTERS = 3  # of a word, at least
_ENGLISH = 0.2  # of a text's words, at least, are of the list: in another language such words would be what recurs


class RecurringPairs:
    """The pairs of words that more than one of a document's `lines` has; none where it is not English.

    A pair counts by the logarithm of the number of lines that have it, where equal lines are one, and a line by the
    sum of its pairs over its number of words, which is in `sizes`, [lines].
    """

    def __init__(self, lines: Sequence[str], sizes: NDArray[np.int64]) -> None:
        words = [ordered_terms(line) for line in lines]
        known = sum(word in EMPTY for line in words for word in line)
        if known < _ENGLISH * sum(map(len, words)):
            words = [[] for _ in lines]
        telling = {word for line in words for word in line if len(word) >= _LETTERS} - EMPTY
        pairs = [{pair for pair in pairwise(line) if telling.issuperset(pair)} for line in words]
        once = dict(zip(lines, pairs, strict=True)).values()
        counts = {pair: count for pair, count in Counter(chain.from_iterable(once)).items() if count > 1}
        columns = {pair: column for column, pair in enumerate(counts)}
        entries = [(row, columns[pair]) for row, found in enumerate(pairs) for pair in found if pair in columns]
        self._row, self._column = np.array(entries, np.int64).reshape(-1, 2).T
        self._weights = np.log(np.array(list(counts.values()), np.float64))
        self._sizes = np.maximum(sizes, 1)

    def worth(self, taken: Sequence[int] = ()) -> NDArray[np.float64]:
        """What each line counts beside those that are taken, whose pairs count no more, [lines]."""
        weights = self._weights.copy()
        weights[self._column[np.isin(self._row, taken)]] = 0
        total = np.bincount(self._row, weights[self._column], len(self._sizes)).astype(np.float64)
        worth: NDArray[np.float64] = total / self._sizes
        return worth
