"""The terms of a document's sentences as a sparse matrix: TF-IDF and likeness."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


class TermMatrix:
    """Sentences by terms, TF-IDF, rows of length 1, sparse."""

    def __init__(self, bags: Sequence[set[str]]) -> None:
        self.rows = len(bags)
        counts = Counter(term for bag in bags for term in bag)
        self._columns = {term: number for number, term in enumerate(counts)}
        self._frequency = np.array(list(counts.values()), np.float32)
        """In how many sentences each term is, [terms]."""
        self._rarity = np.array([math.log((1 + self.rows) / (1 + n)) + 1 for n in counts.values()], np.float32)
        pairs = [
            (row, column) for row, bag in enumerate(bags) for column in sorted(map(self._columns.__getitem__, bag))
        ]
        self._row, self._column = np.array(pairs, np.int64).reshape(-1, 2).T
        value = self._rarity[self._column]
        norm = np.sqrt(np.bincount(self._row, value**2, self.rows))
        self._value = (value / np.maximum(norm, 1e-9)[self._row]).astype(np.float32)

    def like(self, bag: set[str]) -> Array:
        """Each sentence's cosine with other terms, [sentences]."""
        vector = np.zeros(len(self._columns), np.float32)
        found = [self._columns[term] for term in bag if term in self._columns]
        vector[found] = self._rarity[found]
        return self._cosine(vector)

    def like_sum(self, rows: NDArray[np.bool_]) -> Array:
        """Each sentence's cosine with the sum of some of them, [sentences]."""
        chosen = rows[self._row]
        return self._cosine(np.bincount(self._column[chosen], self._value[chosen], len(self._columns)))

    def like_before(self) -> Array:
        """Each sentence's cosine with the one before it, [sentences]."""
        size = len(self._columns)
        keys, wanted = self._row * size + self._column, (self._row - 1) * size + self._column
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        products = np.where(keys[at] == wanted, self._value * self._value[at], 0.0)
        return np.bincount(self._row, products, self.rows).astype(np.float32)

    def frequency(self) -> Array:
        """Each sentence's mean of the logarithm of the number of sentences that have a term, over its terms."""
        size = np.maximum(np.bincount(self._row, minlength=self.rows), 1)
        total = np.bincount(self._row, np.log(self._frequency)[self._column], self.rows)
        return (total / size).astype(np.float32)

    def _cosine(self, vector: NDArray[Any]) -> Array:
        vector = vector / max(float(np.linalg.norm(vector)), 1e-9)
        return np.bincount(self._row, self._value * vector[self._column], self.rows).astype(np.float32)
