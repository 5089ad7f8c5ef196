"""ROUGE of a ranker's summaries of documents that it was not fitted to, beside LexRank, the lead and others'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.summarize.ranking.features import MEASURES
from specextend_cli.summarize.ranking.ranker import Array
from specextend_cli.summarize.ranking.selection import Selector
from specextend_cli.train.ranker import Example, fit_states, folds

_SHORT, _MOST, _LEAST, _PART = 200, 307, 30, 1 / 3  # words: of summaries that are abstracts, and of others
_KINDS = ("rouge1", "rouge2", "rougeL")
_RESAMPLES = 10_000

Peer = Callable[[Example, int], str]
"""Another program: a document and a number of words to a summary."""


@dataclass(frozen=True)
class Evaluation:
    """ROUGE-1, -2 and -L (F, percent) by method and document, [documents, 3], all at equal numbers of words."""

    rouge: dict[str, NDArray[np.float64]]

    @staticmethod
    def mean_of(evaluations: Sequence[Evaluation]) -> Evaluation:
        """Each document's mean over evaluations of the same documents and methods."""
        return Evaluation({name: np.mean([one.rouge[name] for one in evaluations], 0) for name in evaluations[0].rouge})

    def mean(self, method: str) -> list[float]:
        """The means over documents."""
        return [float(value) for value in self.rouge[method].mean(0)]

    def gain(self, method: str, over: str) -> list[tuple[float, float]]:
        """95% intervals of the mean difference over another method, by bootstrap over documents."""
        difference = self.rouge[method] - self.rouge[over]
        draws = np.random.default_rng(0).integers(0, len(difference), (_RESAMPLES, len(difference)))
        low, high = np.percentile(difference[draws].mean(1), (2.5, 97.5), axis=0)
        return [(float(a), float(b)) for a, b in zip(low, high, strict=True)]


def evaluate(
    examples: Sequence[Example],
    scores: Sequence[Array],
    guided: Sequence[Array],
    peers: Mapping[str, Peer] | None = None,
) -> Evaluation:
    """Summaries by held-out `scores` of trees and by those `guided` by the target, by LexRank and the lead, by `peers`.

    Only the ranking differs between ours, LexRank and the lead: sentences and selection are the same.
    """
    by_method = {
        "lead": [-np.arange(len(one.sentences), dtype=np.float32) for one in examples],
        "lexrank": [one.values[:, MEASURES.index("lexrank")] for one in examples],
        "extractive": scores,
        "guided": guided,
    }
    others = peers or {}
    short = float(np.median([len(one.summary.split()) for one in examples])) < _SHORT
    rouge: dict[str, list[list[float]]] = {method: [] for method in (*by_method, *others)}
    for i, one in enumerate(examples):
        size, reference = len(one.document.text.split()), len(one.summary.split())
        words = max(min(reference, _MOST) if short else min(int(size * _PART), _MOST), _LEAST)
        selector = Selector(one.document.text, one.sentences, one.bags)
        texts = {
            method: " ".join(choice.text for choice in selector.select(values[i], words, exact=True)).split()
            for method, values in by_method.items()
        } | {method: peer(one, words).split() for method, peer in others.items()}
        equal = min(words, *map(len, texts.values()))
        for method, text in texts.items():
            rouge[method].append(_rouge(one.summary, " ".join(text[:equal])))
    return Evaluation({method: np.array(values) for method, values in rouge.items()})


def held_out_guided(examples: Sequence[Example], scores: Sequence[Array], layer: int, division: int = 0) -> list[Array]:
    """Each example's guided scores by weights that were fitted without it; `scores` are the trees', held out too."""
    guided: dict[int, Array] = {}
    for fitted, held in folds(examples, division):
        weights = fit_states([examples[i] for i in fitted], [scores[i] for i in fitted], layer)
        for i in held:
            states = examples[i].states
            assert states is not None
            guided[i] = weights.trees * scores[i] + weights.score(states)
    return [guided[i] for i in range(len(examples))]


def rows(evaluation: Evaluation) -> Iterable[tuple[str, ...]]:
    """A table: each method's means, and the intervals of guided mode's gain over it in ROUGE-2 and ROUGE-L."""
    for method in evaluation.rouge:
        gains = evaluation.gain("guided", over=method)[1:]
        shown = ["" if method == "guided" else f"{low:+.2f} to {high:+.2f}" for low, high in gains]
        yield (method, *(f"{value:.2f}" for value in evaluation.mean(method)), *shown)


def _rouge(reference: str, text: str) -> list[float]:
    found = _scorer().score(reference, text)
    return [100 * found[kind].fmeasure for kind in _KINDS]


@cache
def _scorer() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(_KINDS, use_stemmer=True)
