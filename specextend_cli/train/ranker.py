"""Fitting the sentence ranker: boosted trees over features, and a linear reading of the target's states.

A sentence's label is the share of its word pairs that the human summary of its document has (ROUGE-2 precision), as a
standard score within the document. Every source of documents counts the same, however many it has, and so does every
document of a source, however long it is.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import regex
from numpy.typing import NDArray

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError
from specextend_cli.summarize.ranking.candidates import Candidate, candidates
from specextend_cli.summarize.ranking.features import features, loose, standard_scores
from specextend_cli.summarize.ranking.ranker import Array, StateWeights, Trees

FOLDS = 5
_LEAST = 5  # sentences of a document that says something about ranking
_TREES: dict[str, Any] = {
    "objective": "regression",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 200,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "verbose": -1,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 0,
}
_ROUNDS = 300
_PENALTY_TREES, _PENALTY_STATES = 10.0, 30_000.0  # of the ridge regression, for standardized columns
_WORD = regex.compile(r"[\p{L}\p{N}]+")


@dataclass
class Example:
    """One document with a human summary: features and labels of its sentences, [sentences, features] and [sentences].

    `usable` are the sentences that are compared. `states` [sentences, hidden] are the target's, if it has read them.
    Documents of one `group` are held out together. `weight` counts where states are fitted, beside the source's.
    """

    name: str
    document: Document
    sentences: list[Candidate]
    bags: list[set[str]]
    summary: str
    values: Array
    labels: Array
    usable: NDArray[np.bool_]
    source: str = ""
    group: str = ""
    weight: float = 1.0
    states: Array | None = field(default=None, repr=False)


class Pair(NamedTuple):
    """A document and its human summary. `source`: where it is from; a `group` is held out from fitting together."""

    name: str
    text: str
    summary: str
    source: str
    group: str


def read_pairs(path: Path) -> Iterator[Pair]:
    """The lines of a .jsonl or .jsonl.gz file. InputError where one has no text or no summary.

    A line's `source` is its group too. Without one the source is the file's name, and each line is a group of its own.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                record = json.loads(line)
                text, summary = record["text"], record["summary"]
                if not (isinstance(text, str) and isinstance(summary, str)):
                    raise ValueError(f"line {number}: text and summary are no strings")
                name, source = str(record.get("id", number)), record.get("source")
                stem = path.name.partition(".")[0]
                yield Pair(name, text, summary, str(source or stem), str(source or f"{stem} {name}"))
    except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError, zlib.error) as error:
        raise InputError(f"{path} holds no pairs", why=str(error), fix='lines of {"text": …, "summary": …}') from error


def of_each_source(pairs: Iterable[Pair], most: int) -> list[Pair]:
    """At most so many pairs of each source, taken at random; the same for the same pairs."""
    by_source: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_source.setdefault(pair.source, []).append(pair)
    for found in by_source.values():
        random.Random(0).shuffle(found)
    return [pair for _, found in sorted(by_source.items()) for pair in found[:most]]


def example(pair: Pair) -> Example:
    """A pair with its features and labels. InputError where the text cannot be read."""
    name, text, summary = pair.name, pair.text, pair.summary
    document = read_bytes("document.txt", text.encode())
    found = candidates(document)
    values, bags = features(document.text, found)
    usable = loose(document.text, found)
    shares = np.array([_pairs_shared(document.text[one.start : one.end], summary) for one in found], np.float32)
    labels = standard_scores(shares[:, None], usable)[:, 0]
    return Example(name, document, found, bags, summary, values, labels, usable, pair.source, pair.group)


def _pairs_shared(sentence: str, summary: str) -> float:
    own, other = (Counter(pairwise(_stems(text))) for text in (sentence, summary))
    return sum((own & other).values()) / max(sum(own.values()), 1)


def _stems(text: str) -> list[str]:
    return [stem for word in _WORD.findall(text.lower()) for stem in _stem(word)]


@cache
def _stem(word: str) -> list[str]:
    from rouge_score.tokenize import tokenize

    return list(tokenize(word, _porter()))


@cache
def _porter() -> Any:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


def folds(examples: Sequence[Example], division: int = 0) -> Iterator[tuple[list[int], list[int]]]:
    """(fitted, held out) numbers of examples: each group is held out once; the same for the same division.

    Where there are fewer groups than folds, each example is a group.
    """
    groups = [one.group for one in examples]
    if len(set(groups)) < FOLDS:
        groups = [str(number) for number in range(len(examples))]
    names = list(dict.fromkeys(groups))
    order = np.random.default_rng(division).permutation(len(names)).tolist()
    fold = {names[number]: place % FOLDS for place, number in enumerate(order)}
    for start in range(FOLDS):
        held = [i for i, group in enumerate(groups) if fold[group] == start]
        yield [i for i, group in enumerate(groups) if fold[group] != start], held


def held_out_scores(examples: Sequence[Example], division: int = 0) -> list[Array]:
    """Each example's scores by trees that were fitted without it, [sentences]."""
    scores: dict[int, Array] = {}
    for fitted, held in folds(examples, division):
        trees = fit_trees(examples[i] for i in fitted)
        scores |= {i: trees.predict(examples[i].values) for i in held}
    return [scores[i] for i in range(len(examples))]


def fit_trees(examples: Iterable[Example]) -> Trees:
    """Gradient boosted regression trees (LightGBM)."""
    import lightgbm

    chosen = [one for one in examples if one.usable.sum() >= _LEAST]
    data = lightgbm.Dataset(
        np.concatenate([one.values[one.usable] for one in chosen]),
        np.concatenate([one.labels[one.usable] for one in chosen]),
        weight=_weights(chosen, [1.0] * len(chosen)),
    )
    return _flat(lightgbm.train(_TREES, data, _ROUNDS).dump_model()["tree_info"])


def _weights(chosen: Sequence[Example], factors: Sequence[float]) -> NDArray[np.float64]:
    """Each source's weight, shared by its documents and sentences, times a document's factor; 1 in the mean."""
    sources = Counter(one.source for one in chosen)
    weights: NDArray[np.float64] = np.concatenate(
        [
            np.full(one.usable.sum(), factor / sources[one.source] / one.usable.sum())
            for one, factor in zip(chosen, factors, strict=True)
        ]
    )
    weights *= len(weights) / weights.sum()
    return weights


def _flat(trees: Sequence[dict[str, Any]]) -> Trees:
    """LightGBM's trees as arrays."""
    nodes: list[list[float]] = []  # feature, threshold, left, right, value

    def add(node: dict[str, Any]) -> int:
        at = len(nodes)
        if "leaf_value" in node:
            nodes.append([-1, 0, 0, 0, node["leaf_value"]])
            return at
        nodes.append([node["split_feature"], node["threshold"], 0, 0, 0])
        nodes[at][2] = add(node["left_child"])
        nodes[at][3] = add(node["right_child"])
        return at

    first = np.array([add(tree["tree_structure"]) for tree in trees], np.int32)
    table = np.array(nodes, np.float64)
    numbers = table[:, [0, 2, 3]].astype(np.int32)
    feature, left, right = numbers.T
    return Trees(first, feature, table[:, 1], left, right, table[:, 4].astype(np.float32))


def fit_states(examples: Iterable[Example], scores: Iterable[Array], layer: int) -> StateWeights:
    """Ridge regression of the labels on the states and on the trees' `scores` [sentences] beside them.

    The scores must be of trees that were fitted to other documents, or they count for too much.
    """
    pairs = [(one, score) for one, score in zip(examples, scores, strict=True) if one.usable.sum() >= _LEAST]
    chosen = [one for one, _ in pairs]
    columns = [np.column_stack([score[one.usable], _centred(one)]) for one, score in pairs]
    x, y = np.concatenate(columns).astype(np.float64), np.concatenate([one.labels[one.usable] for one in chosen])
    w = _weights(chosen, [one.weight for one in chosen])[:, None]
    mean, spread = (x * w).mean(0), x.std(0) + 1e-6
    penalty = np.full(x.shape[1], _PENALTY_STATES)
    penalty[0] = _PENALTY_TREES
    z = (x - mean) / spread
    solved = np.linalg.solve((z * w).T @ z + np.diag(penalty), (z * w).T @ y) / spread
    return StateWeights(solved[1:].astype(np.float32), float(-mean @ solved), float(solved[0]), layer)


def _centred(one: Example) -> Array:
    """States less their mean over the document: what tells sentences apart, not documents."""
    assert one.states is not None
    usable = one.states[one.usable]
    centred: Array = usable - usable.mean(0)
    return centred


def save_trees(trees: Trees, path: Path) -> None:
    """Write an .npz file that `Trees.load` reads."""
    np.savez_compressed(path, **vars(trees))


def save_states(weights: StateWeights, path: Path) -> None:
    """Write an .npz file that `StateWeights.load` reads."""
    scalars = np.array([weights.bias, weights.trees, weights.layer], np.float64)
    np.savez_compressed(path, weights=weights.weights, scalars=scalars)
