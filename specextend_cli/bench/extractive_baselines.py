"""Extractive baselines: a document's sentences, ranked by published algorithms, by position, at random, or by ROUGE.

LexRank, TextRank, Luhn's method, LSA and SumBasic are those of sumy (https://github.com/miso-belica/sumy; optional, the
extra `bench`), for English, with this program's sentence and word boundaries: nothing is downloaded for nltk.
"""

from __future__ import annotations

import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.errors import UsageError

VERSION = 2  # to be raised when a baseline's settings change: stored results of another version are not reused
SUMY = {
    "lexrank": ("lex_rank", "LexRankSummarizer"),
    "textrank": ("text_rank", "TextRankSummarizer"),
    "luhn": ("luhn", "LuhnSummarizer"),
    "lsa": ("lsa", "LsaSummarizer"),
    "sumbasic": ("sum_basic", "SumBasicSummarizer"),
}
"""Module and class in `sumy.summarizers`."""

ORACLE = "oracle"
NAMES = (*SUMY, "lead", "random", ORACLE)

_WORD = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W\d_]+)*")


def require(methods: Collection[str]) -> None:
    """UsageError if one of the methods needs sumy, which is not installed. Imports what they need."""
    needing = [name for name in methods if name in SUMY]
    if needing and find_spec("sumy") is None:
        raise UsageError(
            f"{', '.join(needing)} cannot run",
            why="sumy is not installed",
            fix='pip install "specextend-cli[bench]", or choose others: --methods default,lead,random,oracle',
        )
    for name in needing:
        _summarizer(name)


def settings(method: str) -> str:
    """What a stored result of the method depends on, besides document, reference, seed and number of words."""
    return f"{VERSION} sumy {version('sumy')}" if method in SUMY else str(VERSION)


def summary(method: str, sentences: Sequence[str], words: int, reference: str, seed: str) -> str:
    """`words` words in document order, a line a sentence: the best sentences, the last one taken cut to fit.

    `reference` is read by the oracle alone, `seed` by `random` alone. Fewer words only if the document has fewer.
    """
    match method:
        case "lead":
            order = list(range(len(sentences)))
        case "random":
            order = random.Random(seed).sample(range(len(sentences)), len(sentences))
        case "oracle":
            order = _oracle(sentences, words, reference)
        case _:
            order = _sumy(method, sentences)
    chosen: dict[int, str] = {}
    for number in dict.fromkeys([*order, *range(len(sentences))]):
        if words <= 0:
            break
        chosen[number] = first_words(sentences[number], words)
        words -= len(chosen[number].split())
    return "\n".join(chosen[number] for number in sorted(chosen))


def first_words(text: str, words: int) -> str:
    """The first `words` words (as `str.split` finds them), with the white space between them."""
    ends = [match.end() for match in re.finditer(r"\S+", text)][:words]
    return text[: ends[-1]] if ends else ""


def _summarizer(method: str) -> Any:
    """sumy's, with its default settings and its English stemmer and stop words."""
    source, name = SUMY[method]
    module: Any = import_module(f"sumy.summarizers.{source}")
    summarizer = getattr(module, name)(import_module("sumy.nlp.stemmers").Stemmer("english"))
    summarizer.stop_words = import_module("sumy.utils").get_stop_words("english")
    if method == "lsa":  # it numbers words in the order of a set: rounding would differ from one process to the next
        module.singular_value_decomposition = _svd
        rows = summarizer._create_dictionary
        summarizer._create_dictionary = lambda document: {word: row for row, word in enumerate(sorted(rows(document)))}
    return summarizer


def _svd(matrix: NDArray[np.float64], full_matrices: bool) -> tuple[NDArray[np.float64], ...]:
    """numpy's. OpenBLAS with several threads does not converge for a few matrices, but does for the transposed ones."""
    try:
        return np.linalg.svd(matrix, full_matrices)
    except np.linalg.LinAlgError:
        left, sizes, right = np.linalg.svd(matrix.T, full_matrices)
        return right.T, sizes, left.T


def _sumy(method: str, sentences: Sequence[str]) -> list[int]:
    """Sentence numbers, the best first."""
    dom = import_module("sumy.models.dom")
    tokenizer = SimpleNamespace(to_words=lambda text: tuple(_WORD.findall(text)))  # it is asked for nothing else
    document = dom.ObjectDocumentModel([dom.Paragraph([dom.Sentence(text, tokenizer) for text in sentences])])
    ranked: list[int] = []

    def keep(infos: Sequence[Any]) -> Sequence[Any]:  # sumy calls it with all sentences, the best first
        ranked.extend(info.order for info in infos)
        return infos

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LSA of a document with few words to a sentence
        _summarizer(method)(document, keep)
    return ranked


def _oracle(sentences: Sequence[str], words: int, reference: str) -> list[int]:
    """Sentence numbers in the order of a greedy choice: most ROUGE-1 plus ROUGE-2 recall gained for a word.

    At a fixed number of words recall decides the F-measure. Reads the reference: an upper bound, not a method.
    """
    tokenize: Callable[[str], list[str]] = import_module("rouge_score.tokenizers").DefaultTokenizer(True).tokenize

    def grams(text: str) -> Counter[tuple[str, ...]]:
        tokens = tokenize(text)
        return Counter([*((token,) for token in tokens), *pairwise(tokens)])

    wanted = grams(reference)
    totals = Counter({size: sum(n for gram, n in wanted.items() if len(gram) == size) for size in (1, 2)})
    weights = np.array([1 / totals[len(gram)] for gram in wanted])
    goal = np.array(list(wanted.values()))
    counts = np.array([[found[gram] for gram in wanted] for found in map(grams, sentences)])
    sizes = np.array([len(sentence.split()) for sentence in sentences])
    order: list[int] = []
    covered = np.zeros_like(goal)
    while len(order) < len(sentences) and sizes[order].sum() < words:
        gains = ((np.minimum(covered + counts, goal) - np.minimum(covered, goal)) @ weights) / sizes
        gains[order] = -1
        order.append(int(gains.argmax()))
        covered += counts[order[-1]]
    return order
