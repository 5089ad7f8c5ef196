"""ROUGE and chrF of an output against a human summary. Both libraries are optional (the extra `bench`).

ROUGE counts words of the letters a-z and digits only; for other scripts read chrF, which counts characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

_LIBRARIES = {"rouge_score": "rouge-score", "sacrebleu": "sacrebleu"}


@dataclass(frozen=True, slots=True)
class Quality:
    """F-measures of ROUGE-1, -2 and -L, and chrF2, all from 0 to 100."""

    rouge1: float
    rouge2: float
    rouge_l: float
    chrf: float


def missing() -> str | None:
    """Why `measure` returns None, and what to install; None if it works."""
    absent = [name for module, name in _LIBRARIES.items() if find_spec(module) is None]
    if not absent:
        return None
    why = f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"
    return f'ROUGE and chrF were left out: {why} (pip install "specextend-cli[bench]")'


def measure(text: str, reference: str) -> Quality | None:
    """How much `text` shares with `reference`; None without the libraries (see `missing`)."""
    return None if missing() else _measure(text, reference)


@cache
def _measure(text: str, reference: str) -> Quality:
    # Greedy outputs repeat from run to run, and the longest common subsequence is quadratic: hence the cache.
    return Quality(*rouge(text, reference), _chrf().sentence_score(text, [reference]).score)


def rouge(text: str, reference: str) -> tuple[float, float, float]:
    """F-measures of ROUGE-1, -2 and -L with stemming, 0 to 100. Needs rouge-score."""
    found = _rouge().score(reference, text)
    one, two, longest = (100 * found[name].fmeasure for name in ("rouge1", "rouge2", "rougeL"))
    return one, two, longest


@cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)


@cache
def _chrf() -> Any:
    from sacrebleu.metrics.chrf import CHRF

    return CHRF()  # six characters, no words, beta 2: chrF2
