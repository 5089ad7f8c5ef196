"""The score of a sentence: what each number is for, on small documents, and what a matrix of terms computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.documents.read import read_bytes
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.score import WEIGHTS, loose, numbers, score, standard_scores
from specextend_cli.summarize.ranking.term_matrix import TermMatrix

TEXT = """# The Harbour Tax

The tax of the harbour was raised by the council. The mayor proposes a lamp for the pier. Wool was sold in the rain.

## Results

The NATO fleet paid the tax of the harbour. The fleet paid no tax at night. Herring comes from the north.

## Ships

The mayor proposes a lamp for the pier again. A storm took the roof.

| tax | harbour |
"""
SENTENCES = ["tax raised", "proposes", "wool", "NATO", "fleet", "herring", "again", "storm"]


def rows(text: str = TEXT, title: str = "") -> dict[str, dict[str, float]]:
    """Each number's value for each sentence of the text."""
    document = read_bytes("a.md", text.encode())
    found = candidates(document)
    values, _ = numbers(document.text, title, found)
    prose = [row for row, one in zip(values, found, strict=True) if one.kind == "prose"]
    return {
        name: dict(zip(SENTENCES, [float(row[column]) for row in prose], strict=True))
        for column, name in enumerate(WEIGHTS)
    }


@pytest.mark.parametrize(
    ("name", "order"),
    [
        # Sentences of which each has more of it than the next one.
        ("frequency", ["tax raised", "wool"]),  # "tax", "harbour" and "council" come again
        ("opening", ["proposes", "storm"]),
        ("start", ["tax raised", "proposes", "wool", "NATO"]),
        ("section_start", ["tax raised", "proposes", "wool", "herring"]),
        ("section_first", ["again", "storm"]),
        ("paragraph_first", ["NATO", "fleet"]),
        ("key_heading", ["herring", "wool"]),
        ("like_headings", ["tax raised", "wool"]),
        ("like_title", ["herring", "NATO", "storm"]),
        ("like_before", ["fleet", "herring"]),
        ("proposes", ["proposes", "again", "storm"]),
        ("acronym", ["NATO", "fleet"]),
    ],
)
def test_what_each_number_says(name: str, order: list[str]) -> None:
    """The title names herring, and the first heading the tax of the harbour."""
    values = [rows(title="On herring from the north")[name][sentence] for sentence in order]
    assert values == sorted(set(values), reverse=True)


def test_the_score_is_the_weighted_sum_of_few_numbers() -> None:
    document = read_bytes("a.md", TEXT.encode())
    found = candidates(document)
    values, bags = numbers(document.text, document.title, found)
    scores, same = score(document.text, document.title, found)
    assert len(WEIGHTS) <= 20
    assert all(WEIGHTS.values())
    assert values.shape == (len(found), len(WEIGHTS))
    assert same == bags
    weights = np.array(list(WEIGHTS.values()))
    np.testing.assert_allclose(scores, standard_scores(values, loose(document.text, found)) @ weights, atol=1e-5)


def test_standard_scores_are_taken_among_sentences_of_a_usual_length() -> None:
    values = np.array([[1.0, 5], [3, 5], [100, 7]], np.float32)
    scores = standard_scores(values, np.array([True, True, False]))
    np.testing.assert_allclose(scores, [[-1, 0], [1, 0], [4, 4]], atol=1e-4)  # at most 4
    assert not standard_scores(values, np.array([False, True, False])).any()
    document = read_bytes("a.md", b"# The harbour of the old town\n\nIt was closed. It was closed in the winter.")
    assert loose(document.text, candidates(document)).tolist() == [False, False, True]


@settings(deadline=None)
@given(st.text("ab A.\n-#|`水ไ\u0301(\"'•1%", min_size=1, max_size=120).filter(str.strip))
def test_scores_of_any_text_are_finite(text: str) -> None:
    document = read_bytes("a.md", text.encode())
    found = candidates(document)
    scores, bags = score(document.text, document.title, found)
    assert scores.dtype == np.float32
    assert len(scores) == len(bags) == len(found)
    assert np.isfinite(scores).all()


def test_nothing_and_a_single_sentence_have_no_score() -> None:
    document = read_bytes("a.txt", b"The harbour of Falcaster was founded in 1871.")
    assert score("", "", [])[0].shape == (0,)
    assert score(document.text, "", candidates(document))[0].tolist() == [0.0]


@given(st.lists(st.sets(st.sampled_from("abcdefgh")), max_size=12), st.sets(st.sampled_from("abcxyz")))
def test_the_sparse_matrix_is_the_dense_one(bags: list[set[str]], other: set[str]) -> None:
    names = sorted(set().union(*bags))
    where = np.array([[name in bag for name in names] for bag in bags], float).reshape(len(bags), len(names))
    rarity = np.log((1 + len(bags)) / (1 + where.sum(0))) + 1

    def unit(values: np.ndarray) -> np.ndarray:
        return values / np.maximum(np.linalg.norm(values, axis=-1, keepdims=True), 1e-9)

    full, matrix = unit(where * rarity), TermMatrix(bags)
    even = np.arange(len(bags)) % 2 == 0
    vector = unit(rarity * [name in other for name in names])
    close = {"atol": 1e-5}
    np.testing.assert_allclose(matrix.like(other), full @ vector, **close)
    np.testing.assert_allclose(matrix.like_sum(even), full @ unit(full[even].sum(0)), **close)
    np.testing.assert_allclose(matrix.like_before()[1:], (full[1:] * full[:-1]).sum(1), **close)
    logs = [np.mean([np.log(sum(term in bag for bag in bags)) for term in bag]) if bag else 0 for bag in bags]
    np.testing.assert_allclose(matrix.frequency(), logs, **close)
