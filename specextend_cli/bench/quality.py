"""Figures of a text: ROUGE and chrF against a human summary, and faults that they do not see.

The libraries of the former are optional (the extra `bench`). ROUGE counts words of the letters a-z and digits only; for
other scripts read chrF, which counts characters. The faults are boilerplate, repetition, and openings that refer to
what is not there. Their rules are for measuring only: nothing that makes summaries may read them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from typing import Any

from specextend_cli.summarize.tfidf import terms

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


BOILERPLATE = {
    "methodology": r"\b(?:scope and methodology|(?:to|in order to) (?:answer|address|meet) (?:this|these|our|the)\b"
    r".{0,40}\b(?:questions?|objectives?|requests?)|"
    r"(?:^|, )we (?:also )?(?:interviewed|surveyed|visited|contacted|reviewed|analyzed)|"
    r"(?:conducted|performed) (?:our|this) (?:performance )?(?:audit|review|work|study))\b",
    "auditing standards": r"\b(?:auditing standards|evidence (?:obtained )?provides a reasonable basis)\b",
    "contact": r"\(\d{3}\) ?\d{3}-\d{4}|\w@[\w-]+\.[a-z]{2}|\bcontact (?:me|us|points?)\b",
    "ordering": r"\b(?:(?:additional|printed|electronic|free) copies|copies (?:of|are)\b.{0,60}\bavailable|"
    r"available at no charge|sending copies|no charge on)\b",
    "thanks": r"\b(?:thank you|thanks to|grateful|acknowledge?ments?|(?:made|makes?) (?:key|major) contributions?|"
    r"key contributors?|pleased to (?:be here|answer|respond)|happy to (?:answer|respond)|concludes (?:my|our|this))\b",
}
"""Regular expressions, case ignored, of sentences that say nothing about the document's subject."""

SAME, FEW = 0.7, 3
"""Two sentences repeat each other if they share more than `SAME` of the smaller one's terms; each has `FEW` or more."""

_BOILERPLATE = re.compile("|".join(BOILERPLATE.values()), re.IGNORECASE)
_REFERS = re.compile(
    r"(?:This|These|That|Those|Such|They|It|He|She|Their|Its|His|Her|But|And|Or|So|Yet|Also|However|Therefore|Thus|"
    r"Hence|Moreover|Furthermore|Additionally|Nevertheless|Similarly|Likewise|Instead|Consequently|Otherwise|Specifically|"
    r"For (?:example|instance)|In (?:addition|contrast|particular|turn)|As a result|On the other hand|By contrast|"
    r"(?:Second|Third|Finally),|The (?:former|latter))\b"
)
_KEY = 6  # first words that identify a sentence, so that one whose end was cut is found


def boilerplate(sentences: Sequence[str]) -> int:
    """How many sentences are boilerplate."""
    return sum(_BOILERPLATE.search(sentence) is not None for sentence in sentences)


def repeated(sentences: Sequence[str]) -> int:
    """How many pairs of sentences repeat each other."""
    known = [found for sentence in sentences if len(found := terms(sentence)) >= FEW]
    return sum(len(one & two) > SAME * min(len(one), len(two)) for one, two in combinations(known, 2))


def dangling(sentences: Sequence[str], document: Sequence[str]) -> int:
    """How many sentences of a summary refer back by their first words to what does not precede them.

    That is: they do not follow their predecessor in the document, given by its sentences. A sentence that is not the
    document's counts only at the beginning of the summary.
    """
    places: dict[str, set[int]] = {}
    for number, sentence in enumerate(document):
        places.setdefault(_start(sentence), set()).add(number)
    found, before = 0, set[int]()
    for number, sentence in enumerate(sentences):
        here = places.get(_start(sentence), set())
        follows = any(place == 0 or place - 1 in before for place in here) or (number > 0 and not here)
        found += _REFERS.match(sentence) is not None and not follows
        before = here
    return found


def _start(sentence: str) -> str:
    return " ".join(sentence.split()[:_KEY])
