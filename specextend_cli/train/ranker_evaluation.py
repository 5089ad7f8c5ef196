"""ROUGE of a ranker's summaries of documents that it was not fitted to, beside LexRank, the lead and others'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.features import MEASURES
from specextend_cli.summarize.ranking.ranker import Array, StateWeights
from specextend_cli.summarize.ranking.selection import Selector
from specextend_cli.summarize.ranking.text_kind import speakers
from specextend_cli.train.ranker import Example, fit_states, folds

_SHORT, _MOST, _LEAST, _PART = 200, 307, 30, 1 / 3  # words: of summaries that are abstracts, and of others
_KINDS = ("rouge1", "rouge2", "rougeL")
_RESAMPLES = 10_000

Peer = Callable[[Example, int], str]
"""Another program: a document and a number of words to a summary."""


@dataclass(frozen=True)
class Evaluation:
    """ROUGE-1, -2 and -L (F, percent) by method and document, [documents, 3], all at equal numbers of words.

    `sources` are the documents'. Means are over sources: each counts the same, however many documents it has.
    """

    rouge: dict[str, NDArray[np.float64]]
    sources: tuple[str, ...]

    @staticmethod
    def mean_of(evaluations: Sequence[Evaluation]) -> Evaluation:
        """Each document's mean over evaluations of the same documents and methods."""
        first = evaluations[0]
        means = {name: np.mean([one.rouge[name] for one in evaluations], 0) for name in first.rouge}
        return Evaluation(means, first.sources)

    def mean(self, method: str) -> list[float]:
        """The means of the three figures."""
        found = self.rouge[method]
        return [float(value) for value in np.mean([found[rows].mean(0) for rows in self.by_source().values()], 0)]

    def gain(self, method: str, over: str) -> list[tuple[float, float]]:
        """95% intervals of the mean difference over another method, by bootstrap over the documents of each source."""
        difference, random = self.rouge[method] - self.rouge[over], np.random.default_rng(0)
        means = []
        for rows in self.by_source().values():
            draws = random.integers(0, len(rows), (_RESAMPLES, len(rows)))
            means.append(difference[rows][draws].mean(1))
        low, high = np.percentile(np.mean(means, 0), (2.5, 97.5), axis=0)
        return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]

    def by_source(self) -> dict[str, NDArray[np.int64]]:
        """The numbers of each source's documents."""
        names = np.array(self.sources)
        return {source: np.flatnonzero(names == source) for source in dict.fromkeys(self.sources)}


def evaluate(
    examples: Sequence[Example], ours: Mapping[str, Sequence[Array]], peers: Mapping[str, Peer] | None = None
) -> Evaluation:
    """Summaries by scores of `ours`, by LexRank and the lead, and by `peers`.

    Only the ranking differs between ours, LexRank and the lead: sentences and selection are the same.
    """
    by_method = {
        "lead": [-np.arange(len(one.sentences), dtype=np.float32) for one in examples],
        "lexrank": [one.values[:, MEASURES.index("lexrank")] for one in examples],
        **ours,
    }
    others = peers or {}
    sizes: dict[str, list[int]] = {}
    for one in examples:
        sizes.setdefault(one.source, []).append(len(one.summary.split()))
    short = {source: float(np.median(found)) < _SHORT for source, found in sizes.items()}
    rouge: dict[str, list[list[float]]] = {method: [] for method in (*by_method, *others)}
    for i, one in enumerate(examples):
        size, reference = len(one.document.text.split()), len(one.summary.split())
        words = max(min(reference, _MOST) if short[one.source] else min(int(size * _PART), _MOST), _LEAST)
        talk = speakers(one.document.text, one.sentences).is_conversation
        selector = Selector(one.document.text, one.sentences, one.bags, conversation=talk)
        texts = {
            method: " ".join(choice.text for choice in selector.select(values[i], words, exact=True)).split()
            for method, values in by_method.items()
        } | {method: peer(one, words).split() for method, peer in others.items()}
        equal = min(words, *map(len, texts.values()))
        for method, text in texts.items():
            rouge[method].append(_rouge(one.summary, " ".join(text[:equal])))
    return Evaluation(
        {method: np.array(values) for method, values in rouge.items()}, tuple(one.source for one in examples)
    )


def held_out_guided(examples: Sequence[Example], scores: Sequence[Array], layer: int, division: int = 0) -> list[Array]:
    """Each example's guided scores by weights that were fitted without it; `scores` are the trees', held out too."""
    guided: dict[int, Array] = {}
    for fitted, held in folds(examples, division):
        weights = fit_states([examples[i] for i in fitted], [scores[i] for i in fitted], layer)
        guided |= {i: guided_scores(examples[i], scores[i], weights) for i in held}
    return [guided[i] for i in range(len(examples))]


def guided_scores(example: Example, scores: Array, weights: StateWeights) -> Array:
    """The trees' scores and what the target's states say, [sentences]."""
    assert example.states is not None
    return weights.trees * scores + weights.score(example.states)


def by_source(evaluation: Evaluation) -> Iterator[tuple[str, ...]]:
    """A table: each source's documents, and the mean ROUGE-2 and -L of each method."""
    for source, rows in evaluation.by_source().items():
        means = (values[rows].mean(0) for values in evaluation.rouge.values())
        yield (source, str(len(rows)), *(f"{two:.2f} / {longest:.2f}" for _, two, longest in means))


def over_all(evaluation: Evaluation, ours: str) -> Iterator[tuple[str, ...]]:
    """A table: each method's means over sources, and what `ours` gains over it in ROUGE-2 and ROUGE-L (95%)."""
    for method in evaluation.rouge:
        gains = evaluation.gain(ours, over=method)[1:]
        shown = ["" if method == ours else f"{low:+.2f} to {high:+.2f}" for low, high in gains]
        yield (method, *(f"{value:.2f}" for value in evaluation.mean(method)), *shown)


def _rouge(reference: str, text: str) -> list[float]:
    found = _scorer().score(reference, text)
    return [100 * found[kind].fmeasure for kind in _KINDS]


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(_KINDS, use_stemmer=True)
