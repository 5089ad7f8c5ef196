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
        self.columns = {term: number for number, term in enumerate(counts)}
        self.rarity = np.array([math.log((1 + self.rows) / (1 + n)) + 1 for n in counts.values()], np.float32)
        pairs = [(row, column) for row, bag in enumerate(bags) for column in sorted(map(self.columns.__getitem__, bag))]
        where = np.array(pairs, np.int64).reshape(-1, 2)
        self._row, self._column = where[:, 0], where[:, 1]
        self.frequency = np.array(list(counts.values()), np.float32)
        value = self.rarity[self._column]
        norm = np.sqrt(np.bincount(self._row, value**2, self.rows))
        self._value = (value / np.maximum(norm, 1e-9)[self._row]).astype(np.float32)

    def total(self, weights: NDArray[Any]) -> Array:
        """The weighted sum of all rows, [terms]."""
        return np.bincount(self._column, self._value * weights[self._row], len(self.columns)).astype(np.float32)

    def dot(self, vector: Array) -> Array:
        """Each row's product with a vector of terms, [sentences]."""
        return np.bincount(self._row, self._value * vector[self._column], self.rows).astype(np.float32)

    def row(self, bag: set[str]) -> Array:
        """A vector of length 1 for other terms, [terms]."""
        vector = np.zeros(len(self.columns), np.float32)
        found = [self.columns[term] for term in bag if term in self.columns]
        vector[found] = self.rarity[found]
        vector /= max(float(np.linalg.norm(vector)), 1e-9)
        return vector

    def likeness(self, others: Sequence[set[str]], which: NDArray[Any]) -> Array:
        """Each row's product with a vector of length 1 for one of `others`, whose number `which` says, [sentences]."""
        keys, weights = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for number, bag in enumerate(others):
            columns = np.array(sorted(self.columns[term] for term in bag if term in self.columns), np.int64)
            own = self.rarity[columns]
            keys.append(number * len(self.columns) + columns)
            weights.append(own / max(float(np.linalg.norm(own)), 1e-9))
        return self._matched(np.concatenate(keys), np.concatenate(weights), which[self._row])

    def mean(self, which: NDArray[Any]) -> Array:
        """Each row's mean of a value of terms, [sentences]."""
        size = np.maximum(np.bincount(self._row, minlength=self.rows), 1)
        return (np.bincount(self._row, which[self._column], self.rows) / size).astype(np.float32)

    def neighbours(self) -> Array:
        """Each row's product with the next one, [sentences]."""
        size = len(self.columns)
        return self._matched(self._row * size + self._column, self._value, self._row + 1)

    def _matched(self, keys: NDArray[np.int64], values: Array, rows: NDArray[Any]) -> Array:
        """Each row's product with another matrix, whose row for each entry is in `rows`.

        `keys`, in order, say where the other matrix has its `values`: the row times the number of terms plus the term.
        """
        if not len(keys):
            return np.zeros(self.rows, np.float32)
        wanted = rows * len(self.columns) + self._column
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        products = np.where(keys[at] == wanted, self._value * values[at], 0.0)
        return np.bincount(self._row, products, self.rows).astype(np.float32)
