"""Fit the sentence ranker's trees to documents with human summaries, and measure them on what was left out.

    pip install lightgbm rouge-score
    python presets/sentence-ranker/fit.py reports.jsonl.gz kinds.jsonl.gz --documents 60 -o my-ranker

A line has a `text`, its `summary`, and perhaps its `source`, which else is the file. A sentence's label is the share of
its word pairs that the summary has (ROUGE-2 precision, stemmed), as a standard score within the document. Every source
counts the same, however many documents it has, and so does every document of a source, however long it is. Documents
with a source are measured by trees fitted without that source, others by folds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from nltk.stem.porter import PorterStemmer
from numpy.typing import NDArray
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize
from specextend_cli.summarize.ranking.features import MEASURES, features, loose, standard_scores
from specextend_cli.summarize.ranking.ranker import TREES, Array, Trees
from specextend_cli.summarize.ranking.selection import Selector
from specextend_cli.summarize.ranking.text_kind import speakers

from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError, SpecextendError
from specextend_cli.summarize.ranking.candidates import Candidate, candidates

FOLDS, DIVISIONS = 5, 3  # how documents are divided into folds is worth most of a point of ROUGE-2
FEWEST = 5  # sentences of a document that says something about ranking
WORDS = 30, 307  # of a summary that is measured
RESAMPLES = 10_000
STEMMER = SimpleNamespace(stem=cache(PorterStemmer().stem))
ROUNDS = 300
BOOSTING: dict[str, Any] = {
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


class Pair(NamedTuple):
    """A document and its human summary. `source`: where it is from; a `group` is held out from fitting together."""

    text: str
    summary: str
    source: str
    group: str


@dataclass
class Example:
    """A document with features and labels of its sentences, [sentences, features] and [sentences].

    `usable` are the sentences that are compared. `states` [sentences, hidden] are a target's, if it has read them.
    """

    document: Document
    sentences: list[Candidate]
    bags: list[set[str]]
    values: Array
    labels: Array
    usable: NDArray[np.bool_]
    pair: Pair
    states: Array | None = field(default=None, repr=False)


# Documents and labels


def read_pairs(path: Path, most: int) -> list[Pair]:
    """At most so many lines of each source in a .jsonl or .jsonl.gz file, taken at random, the same ones every time."""
    by_source: dict[str, list[Pair]] = {}
    name = path.name.partition(".")[0]
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for number, line in enumerate(data.splitlines(), 1):
            record = json.loads(line)
            source = record.get("source")
            pair = Pair(record["text"], record["summary"], source or name, source or f"{name} {number}")
            by_source.setdefault(pair.source, []).append(pair)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise InputError(f"{path} holds no pairs", why=str(error), fix='lines of {"text": …, "summary": …}') from error
    for found in by_source.values():
        random.Random(0).shuffle(found)
    return [pair for _, found in sorted(by_source.items()) for pair in found[:most]]


def read_examples(path: Path, most: int) -> list[Example]:
    """The pairs of a file with features and labels."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(example_of, read_pairs(path, most), chunksize=8))


def example_of(pair: Pair) -> Example:
    """A pair with its features and labels."""
    document = read_bytes("document.txt", pair.text.encode())
    found = candidates(document)
    values, bags = features(document.text, found)
    usable = loose(document.text, found)
    summary = word_pairs(pair.summary)
    shares = np.zeros((len(found), 1), np.float32)
    for row, sentence in zip(shares, found, strict=True):
        own = word_pairs(document.text[sentence.start : sentence.end])
        row[0] = (own & summary).total() / max(own.total(), 1)
    return Example(document, found, bags, values, standard_scores(shares, usable)[:, 0], usable, pair)


def word_pairs(text: str) -> Counter[tuple[str, str]]:
    """Neighbouring words, stemmed as ROUGE does it."""
    return Counter(pairwise(tokenize(text, STEMMER)))


# Fitting


def fit_trees(examples: Iterable[Example]) -> Trees:
    """Gradient boosted regression trees."""
    chosen = [one for one in examples if one.usable.sum() >= FEWEST]
    data = lightgbm.Dataset(
        np.concatenate([one.values[one.usable] for one in chosen]),
        np.concatenate([one.labels[one.usable] for one in chosen]),
        weight=weights(chosen),
    )
    return as_arrays(lightgbm.train(BOOSTING, data, ROUNDS).dump_model()["tree_info"])


def weights(chosen: Sequence[Example], factors: Sequence[float] | None = None) -> NDArray[np.float64]:
    """Each source's weight, shared by its documents and their sentences, times a document's factor; 1 in the mean."""
    sources = Counter(one.pair.source for one in chosen)
    shares = [
        np.full(one.usable.sum(), factor / sources[one.pair.source] / one.usable.sum())
        for one, factor in zip(chosen, factors or [1.0] * len(chosen), strict=True)
    ]
    every: NDArray[np.float64] = np.concatenate(shares)
    every *= len(every) / every.sum()
    return every


def as_arrays(trees: Sequence[dict[str, Any]]) -> Trees:
    """LightGBM's trees as the ranker reads them."""
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
    feature, left, right = table[:, [0, 2, 3]].astype(np.int32).T
    return Trees(first, feature, table[:, 1], left, right, table[:, 4].astype(np.float32))


# Measuring


def folds(examples: Sequence[Example], division: int) -> Iterator[tuple[list[int], list[int]]]:
    """(fitted, held out) numbers of examples: each group is held out once. Of fewer groups than folds, each example."""
    groups = [one.pair.group for one in examples]
    if len(set(groups)) < FOLDS:
        groups = [str(number) for number in range(len(examples))]
    names = list(dict.fromkeys(groups))
    order = np.random.default_rng(division).permutation(len(names)).tolist()
    fold = {names[number]: place % FOLDS for place, number in enumerate(order)}
    for held_out in range(FOLDS):
        held = [i for i, group in enumerate(groups) if fold[group] == held_out]
        yield [i for i, group in enumerate(groups) if fold[group] != held_out], held


def held_out_scores(examples: Sequence[Example], division: int) -> list[Array]:
    """Each example's scores by trees that were fitted without it, [sentences]."""
    scores: dict[int, Array] = {}
    for fitted, held in folds(examples, division):
        trees = fit_trees(examples[i] for i in fitted)
        scores |= {i: trees.predict(examples[i].values) for i in held}
    return [scores[i] for i in range(len(examples))]


def evaluate(examples: Sequence[Example], scores: Mapping[str, Sequence[Array]]) -> dict[str, NDArray[np.float64]]:
    """ROUGE-1, -2 and -L of summaries by scores, by LexRank and by the beginning, each [documents, 3], in percent.

    Only the ranking differs: sentences and selection are the same, and so are the numbers of words.
    """
    scorer = RougeScorer(("rouge1", "rouge2", "rougeL"), use_stemmer=True)
    lexrank = [one.values[:, MEASURES.index("lexrank")] for one in examples]
    lead = [-np.arange(len(one.sentences), dtype=np.float32) for one in examples]
    methods = {**scores, "lexrank": lexrank, "lead": lead}
    found: dict[str, list[list[float]]] = {name: [] for name in methods}
    for i, one in enumerate(examples):
        fewest, most = WORDS
        words = min(max(len(one.pair.summary.split()), fewest), most)
        talk = speakers(one.document.text, one.sentences).is_conversation
        selector = Selector(one.document.text, one.sentences, one.bags, conversation=talk)
        chosen = {name: selector.select(values[i], words, exact=True) for name, values in methods.items()}
        texts = {name: " ".join(choice.text for choice in choices).split() for name, choices in chosen.items()}
        equal = min(words, *map(len, texts.values()))
        for name, text in texts.items():
            rouge = scorer.score(one.pair.summary, " ".join(text[:equal]))
            found[name].append([100 * value.fmeasure for value in rouge.values()])
    return {name: np.array(values) for name, values in found.items()}


def report(examples: Sequence[Example], rouge: Mapping[str, NDArray[np.float64]]) -> None:
    """Print means by source, and over sources, with 95% intervals of the first method's gain (bootstrap)."""
    sources: dict[str, list[int]] = {}
    for number, one in enumerate(examples):
        sources.setdefault(one.pair.source, []).append(number)
    for source, rows in sources.items():
        means = [f"{name} {' / '.join(f'{x:.2f}' for x in values[rows].mean(0))}" for name, values in rouge.items()]
        print(f"{source}, {len(rows)} documents, ROUGE-1 / -2 / -L: {'; '.join(means)}")
    ours, *others = rouge
    for name in others:
        difference, draws = rouge[ours] - rouge[name], np.random.default_rng(0)
        resampled = [
            difference[rows][draws.integers(0, len(rows), (RESAMPLES, len(rows)))].mean(1) for rows in sources.values()
        ]
        gain = np.mean([difference[rows].mean(0) for rows in sources.values()], 0)
        low, high = np.percentile(np.mean(resampled, 0), (2.5, 97.5), axis=0)
        intervals = [f"{a:+.2f} ({b:+.2f} to {c:+.2f})" for a, b, c in zip(gain, low, high, strict=True)]
        print(f"{ours} over {name}, mean of {len(sources)} sources: {' / '.join(intervals)}")


def main() -> None:
    """Read, fit, write, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", type=Path, help=".jsonl or .jsonl.gz")
    parser.add_argument("--documents", type=int, default=1500, help="of each source and file, at most")
    parser.add_argument("-o", "--output", type=Path, required=True, help="directory for trees.npz")
    arguments = parser.parse_args()
    examples = [one for path in arguments.pairs for one in read_examples(path, arguments.documents)]
    if len(examples) < 2 * FOLDS:
        raise InputError("there are too few documents", why=f"{len(examples)} for {FOLDS} folds", fix="more pairs")
    arguments.output.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.output / TREES, **vars(fit_trees(examples)))
    print(f"{arguments.output / TREES} is fitted to {len(examples)} documents")
    measured = [evaluate(examples, {"trees": held_out_scores(examples, division)}) for division in range(DIVISIONS)]
    report(examples, {name: np.mean([one[name] for one in measured], 0) for name in measured[0]})


if __name__ == "__main__":
    try:
        main()
    except SpecextendError as error:
        sys.exit("\n".join(filter(None, (f"error: {error.what}", error.why, error.fix))))
