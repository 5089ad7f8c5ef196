"""The learnt salience of sentences: gradient boosted trees over their features.

They were fitted, by the program beside them in `presets/`, to predict which part of a sentence's word pairs its
document's human summary has; their card is there, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.arrays import read_arrays
from specextend_cli.errors import ModelError

TREES = "trees.npz"
"""The file of a ranker's directory."""

Array = NDArray[np.float32]
_BYTES = 64_000_000  # the most that the arrays of a file may have
_NODES = 1_000_000
_ROWS = 128  # sentences whose walks are taken together: their nodes stay in the processor's cache


@dataclass(frozen=True)
class Trees:
    """Regression trees as arrays over all nodes; a leaf's `feature` is -1.

    `first` [trees] is each tree's root; `left` and `right` are nodes, `value` is a leaf's.
    """

    first: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: Array

    @staticmethod
    def load(path: Path) -> Trees:
        """The trees in an .npz file. ModelError where it is damaged."""
        whole = ("first", "feature", "left", "right")
        found = load_arrays(path, (*whole, "threshold", "value"))
        if any(found[name].dtype.kind != "i" or (abs(found[name]) > _NODES).any() for name in whole):
            raise _damaged(path, "its nodes are no small whole numbers")
        numbers = {name: found[name].astype(np.int32) for name in whole}
        values = found["threshold"].astype(np.float64), found["value"].astype(np.float32)
        return Trees(**numbers, threshold=values[0], value=values[1])._checked(path)

    def _checked(self, path: Path) -> Trees:
        nodes = len(self.feature)
        inner = self.feature >= 0
        ahead = np.arange(nodes)[inner]
        same = all(len(one) == nodes for one in (self.threshold, self.left, self.right, self.value))
        # Children come after their parent, so that every walk ends.
        if not (same and 0 < nodes <= _NODES and self._inside(self.first, nodes)) or not all(
            self._inside(child[inner], nodes) and (child[inner] > ahead).all() for child in (self.left, self.right)
        ):
            raise _damaged(path, "its nodes do not form trees")
        return self

    @staticmethod
    def _inside(numbers: NDArray[np.int32], nodes: int) -> bool:
        return bool(((numbers >= 0) & (numbers < nodes)).all())

    @property
    def features(self) -> int:
        """How many features they need at least."""
        return int(self.feature.max(initial=-1)) + 1

    def predict(self, features: Array) -> Array:
        """The sum of all trees' values for each row of [sentences, features], [sentences].

        ModelError where the trees were fitted to other features.
        """
        if self.features > features.shape[1]:
            why = f"it needs {self.features} features of a sentence, and there are {features.shape[1]}"
            raise ModelError("the sentence ranker cannot be used", why=why, fix="install specextend again")
        inner = self.feature >= 0
        own = np.arange(len(inner))
        column = np.where(inner, self.feature, 0).astype(np.intp)
        # A leaf leads to itself, so that every walk can take as many steps as the deepest.
        left, right = np.where(inner, self.left, own), np.where(inner, self.right, own)
        children = np.stack([right, left], 1).astype(np.intp).ravel()
        depth = self._depth()
        total = np.zeros(len(features), np.float32)
        for start in range(0, len(features), _ROWS):
            part = np.ascontiguousarray(features[start : start + _ROWS])
            base = np.arange(len(part))[:, None] * part.shape[1]
            node = np.broadcast_to(self.first.astype(np.intp), (len(part), len(self.first)))
            for _ in range(depth):
                goes_left = part.ravel().take(base + column.take(node)) <= self.threshold.take(node)
                node = children.take(2 * node + goes_left)
            total[start : start + _ROWS] = self.value.take(node).sum(1, dtype=np.float32)
        return total

    def _depth(self) -> int:
        """How many steps the longest walk takes."""
        level, steps = self.first, 0
        while len(level := level[self.feature[level] >= 0]):
            level, steps = np.unique(np.concatenate([self.left[level], self.right[level]])), steps + 1
        return steps


def load_arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Arrays of finite numbers, of one dimension each, in an .npz file. ModelError where it is missing or damaged."""
    try:
        return read_arrays(path, names, most=_BYTES)
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(f"the sentence ranker {path.name} cannot be used", why=why, fix="install specextend again")
