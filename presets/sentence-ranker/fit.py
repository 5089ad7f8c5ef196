"""Fit the weights of the sentence ranker to documents with human summaries, and measure them on what was left out.

    pip install rouge-score
    python presets/sentence-ranker/fit.py reports.jsonl.gz pairs.jsonl.gz --documents 60

A line has a `text`, its `summary`, and perhaps its `source`, which else is the file. Least squares of sentences' labels
on their numbers, both as standard scores within the document; a label is the mean of the shares of the sentence's words
and of its word pairs that the summary has, stemmed. Every source counts the same, however many documents it has, and so
does every document of a source, however long it is. Prints what belongs into `WEIGHTS` of
`summarize/ranking/score.py`. Documents with a source are measured by weights fitted without that source, others by
folds, beside their beginnings.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from nltk.stem.porter import PorterStemmer
from numpy.typing import NDArray
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenize import tokenize

from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError, SpecextendError
from specextend_cli.summarize.ranking.candidates import candidates, speakers
from specextend_cli.summarize.ranking.score import WEIGHTS, loose, numbers, standard_scores
from specextend_cli.summarize.ranking.select import Selector
from specextend_cli.summarize.words import EMPTY

FOLDS = 10
FEWEST = 5  # sentences of a document that says something about ranking
WORDS = 30, 307  # of a summary that is measured
RESAMPLES = 10_000
PENALTY = 1e-3  # of a weight's square, where the labels have a variance of 1
STEMMER = SimpleNamespace(stem=cache(PorterStemmer().stem))

Array = NDArray[Any]


class Pair(NamedTuple):
    """A document and its human summary. `source`: where it is from; a `group` is held out from fitting together."""

    text: str
    summary: str
    source: str
    group: str


@dataclass
class Example:
    """A document's sentences: standard scores of their numbers [sentences, numbers] and labels [sentences].

    `usable` are those that are compared, [sentences].
    """

    pair: Pair
    selector: Selector
    values: NDArray[np.float32]
    labels: Array
    usable: NDArray[np.bool_]


def read_pairs(path: Path, most: int) -> list[Pair]:
    """At most so many lines of each source in a .jsonl or .jsonl.gz file, taken at random, the same ones every time."""
    by_source: dict[str, list[Pair]] = {}
    name = path.name.partition(".")[0]
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for number, line in enumerate(data.splitlines()):
            record = json.loads(line)
            source = record.get("source")
            pair = Pair(record["text"], record["summary"], source or name, source or f"{name} {number % FOLDS}")
            by_source.setdefault(pair.source, []).append(pair)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise InputError(f"{path} holds no pairs", why=str(error), fix='lines of {"text": …, "summary": …}') from error
    for found in by_source.values():
        random.Random(0).shuffle(found)
    return [pair for _, found in sorted(by_source.items()) for pair in found[:most]]


def example_of(pair: Pair) -> Example:
    """A pair with the numbers and labels of its sentences."""
    document = read_bytes("document.txt", pair.text.encode())
    text, found = document.text, candidates(document)
    values, bags = numbers(text, document.title, found)
    usable = loose(text, found)
    summary = tokenize(pair.summary, STEMMER)
    words, pairs = Counter(summary), Counter(pairwise(summary))
    shares = np.zeros((len(found), 2), np.float32)
    for row, sentence in zip(shares, found, strict=True):
        own = tokenize(text[sentence.start : sentence.end], STEMMER)
        telling, couples = [word for word in own if word not in EMPTY], Counter(pairwise(own))
        row[0] = sum(word in words for word in telling) / max(len(telling), 1)
        row[1] = (couples & pairs).total() / max(couples.total(), 1)
    both = standard_scores(shares, usable).sum(1, keepdims=True)
    labels = standard_scores(both, usable)[:, 0].astype(np.float64)
    selector = Selector(text, found, bags, conversation=bool(speakers(text, found)))
    return Example(pair, selector, standard_scores(values, usable), labels, usable)


class Fit:
    """Least squares over all examples but those of some groups: their normal equations, by group."""

    def __init__(self, examples: Sequence[Example]) -> None:
        chosen = [one for one in examples if one.usable.sum() >= FEWEST]
        sizes = Counter(one.pair.source for one in chosen)
        self._equations: dict[str, Array] = {}
        for one in chosen:
            columns = np.column_stack([one.values, np.ones(len(one.values)), one.labels])[one.usable].astype(np.float64)
            weight = 1 / sizes[one.pair.source] / len(columns)
            own = self._equations.setdefault(one.pair.group, np.zeros((columns.shape[1],) * 2))
            own += weight * columns.T @ columns

    def weights(self, without: Collection[str] = ()) -> Array:
        """The weight of each number, [numbers]."""
        total = sum(own for group, own in self._equations.items() if group not in without)
        assert not isinstance(total, int)
        products = total[:-1, :-1] + PENALTY * np.eye(len(total) - 1)
        solved: Array = np.linalg.solve(products, total[:-1, -1])
        return solved[:-1]  # the last one is the mean


def evaluate(examples: Sequence[Example], fit: Fit) -> dict[str, Array]:
    """ROUGE-1, -2 and -L of summaries by held-out weights, and of beginnings, each [documents, 3], in percent.

    Only the ranking differs: sentences and selection are the same, and so are the numbers of words.
    """
    scorer = RougeScorer(("rouge1", "rouge2", "rougeL"), use_stemmer=True)
    found: dict[str, list[list[float]]] = {"ours": [], "beginning": []}
    for one in examples:
        fewest, most = WORDS
        words = min(max(len(one.pair.summary.split()), fewest), most)
        scores = (one.values @ fit.weights({one.pair.group})).astype(np.float32)
        chosen = one.selector.select(scores, words, exact=True), one.selector.lead(words)
        texts = [" ".join(choice.text for choice in choices).split() for choices in chosen]
        equal = min(words, *map(len, texts))
        for name, text in zip(found, texts, strict=True):
            rouge = scorer.score(one.pair.summary, " ".join(text[:equal]))
            found[name].append([100 * value.fmeasure for value in rouge.values()])
    return {name: np.array(values) for name, values in found.items()}


def report(examples: Sequence[Example], rouge: Mapping[str, Array]) -> None:
    """Print means by source, and over sources, with 95% intervals of the first method's gain (bootstrap)."""
    sources: dict[str, list[int]] = {}
    for number, one in enumerate(examples):
        sources.setdefault(one.pair.source, []).append(number)
    for source, rows in sources.items():
        means = [f"{name} {' / '.join(f'{x:.2f}' for x in values[rows].mean(0))}" for name, values in rouge.items()]
        print(f"{source}, {len(rows)} documents, ROUGE-1 / -2 / -L: {'; '.join(means)}")
    difference, draws = rouge["ours"] - rouge["beginning"], np.random.default_rng(0)
    resampled = [
        difference[rows][draws.integers(0, len(rows), (RESAMPLES, len(rows)))].mean(1) for rows in sources.values()
    ]
    gain = np.mean([difference[rows].mean(0) for rows in sources.values()], 0)
    low, high = np.percentile(np.mean(resampled, 0), (2.5, 97.5), axis=0)
    intervals = [f"{a:+.2f} ({b:+.2f} to {c:+.2f})" for a, b, c in zip(gain, low, high, strict=True)]
    print(f"ours over the beginning, mean of {len(sources)} sources: {' / '.join(intervals)}")


def main() -> None:
    """Read, fit, print, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", type=Path, help=".jsonl or .jsonl.gz")
    parser.add_argument("--documents", type=int, default=25, help="of each source and file, at most")
    arguments = parser.parse_args()
    pairs = [pair for path in arguments.pairs for pair in read_pairs(path, arguments.documents)]
    if len(pairs) < FOLDS:
        raise InputError("there are too few documents", why=f"{len(pairs)} for {FOLDS} folds", fix="more pairs")
    with ProcessPoolExecutor() as pool:
        examples = list(pool.map(example_of, pairs, chunksize=8))
    fit = Fit(examples)
    print(f"fitted to {len(examples)} documents:")
    for name, weight in zip(WEIGHTS, fit.weights(), strict=True):
        print(f'    "{name}": {weight:.3f},')
    report(examples, evaluate(examples, fit))


if __name__ == "__main__":
    try:
        main()
    except SpecextendError as error:
        sys.exit("\n".join(filter(None, (f"error: {error.what}", error.why, error.fix))))
