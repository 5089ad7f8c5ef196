"""The learnt salience of sentences: gradient boosted trees over their features, and the target's hidden states.

Both were fitted, by the programs beside them in `presets/`, to predict which part of a sentence's word pairs its
document's human summary has; their cards are there, too. For the states, the target reads each chunk of a document
behind the beginning of the preset's prompt, and nothing is generated.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.arrays import read_arrays
from specextend_cli.engine.events import Prefilled
from specextend_cli.errors import ModelError

if TYPE_CHECKING:
    from specextend_cli.engine.reader import Reader
    from specextend_cli.models.tokens import TextEncoder
    from specextend_cli.summarize.ranking.candidates import Candidate

TREES, STATES = "trees.npz", "states.npz"
"""The files of a ranker's directory."""

Array = NDArray[np.float32]
_BYTES = 64_000_000  # the most that the arrays of a file may have
_NODES = 1_000_000
_LAYERS = 1_000
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


@dataclass(frozen=True)
class StateWeights:
    """A linear reading of the target's hidden states: `weights` [hidden size], for states after `layer`.

    `trees` is the weight of the trees' score beside it. Layers count from 0, the embedding.
    """

    weights: Array
    bias: float
    trees: float
    layer: int

    @staticmethod
    def load(path: Path) -> StateWeights:
        """The weights in an .npz file. ModelError where it is damaged."""
        found = load_arrays(path, ("weights", "scalars"))
        weights, scalars = found["weights"], found["scalars"]
        if scalars.shape != (3,) or not 0 < scalars[2] < _LAYERS:
            raise _damaged(path, "its scalars are not a bias, a weight and a layer")
        return StateWeights(weights.astype(np.float32), float(scalars[0]), float(scalars[1]), int(scalars[2]))

    def score(self, states: Array) -> Array:
        """What the states [sentences, hidden size] say, [sentences]. ModelError where they are of another model."""
        if states.shape[1] != len(self.weights):
            why = f"it has {len(self.weights)} weights, and the model's states have {states.shape[1]} numbers"
            raise ModelError("the preset's sentence ranker cannot be used", why=why, fix="--mode extractive")
        return (states @ self.weights + self.bias).astype(np.float32)


class ReadingPlan:
    """A document's tokens in chunks of whole sentences.

    `chunks` are the ranges of sentences, of at most `size` tokens where no sentence has more: such a one is a chunk by
    itself. `tokens` are each sentence's, with what stands before the next one.
    """

    def __init__(self, text: str, found: Sequence[Candidate], encoder: TextEncoder, size: int) -> None:
        self.size = size
        # What stands before the first sentence belongs to it.
        starts = [0, *(one.start for one in found[1:]), len(text)]
        self.tokens = [encoder.encode(text[start:end]) for start, end in pairwise(starts)]
        self.chunks: list[range] = []
        first = filled = 0
        for i, piece in enumerate(self.tokens):
            if i > first and filled + len(piece) > size:
                self.chunks.append(range(first, i))
                first, filled = i, 0
            filled += len(piece)
        self.chunks.append(range(first, len(self.tokens)))

    def sizes(self) -> tuple[int, ...]:
        """Tokens of each chunk."""
        return tuple(sum(len(self.tokens[i]) for i in chunk) for chunk in self.chunks)


def read_states(
    reader: Reader, plan: ReadingPlan, chunk: range, prefix: Sequence[int]
) -> Generator[Prefilled, None, Array]:
    """Read one chunk behind the tokens `prefix`; returns each sentence's mean state, [sentences, hidden size].

    A sentence that has more tokens than a chunk is read in pieces, and its mean is over all of them.
    """
    import torch

    tokens = [token for i in chunk for token in plan.tokens[i]]
    counts = torch.tensor([len(plan.tokens[i]) for i in chunk])
    owner = torch.arange(len(chunk)).repeat_interleave(counts)
    total: torch.Tensor | None = None
    for start in range(0, max(len(tokens), 1), plan.size):
        began = perf_counter()
        piece = tokens[start : start + plan.size]
        states = reader.states(piece, behind=prefix).float().cpu()
        total = states.new_zeros(len(chunk), states.shape[1]) if total is None else total
        total.index_add_(0, owner[start : start + plan.size], states)
        yield Prefilled(len(prefix) + len(piece), perf_counter() - began)
    assert total is not None
    means: Array = (total / counts.clamp(min=1)[:, None]).numpy()
    return means


def load_arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Arrays of finite numbers, of one dimension each, in an .npz file. ModelError where it is missing or damaged."""
    try:
        return read_arrays(path, names, most=_BYTES)
    except ValueError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> ModelError:
    return ModelError(f"the sentence ranker {path.name} cannot be used", why=why, fix="install specextend again")
