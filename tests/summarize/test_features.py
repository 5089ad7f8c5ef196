"""Features of sentences: the sparse computation is the dense one, and every column is a finite number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specextend_cli.summarize.ranking.features import columns, features, loose, standard_scores
from specextend_cli.summarize.ranking.ranker import Trees

from specextend_cli.documents.read import read_bytes
from specextend_cli.models.presets import sentence_ranker
from specextend_cli.summarize.ranking.candidates import candidates
from specextend_cli.summarize.ranking.term_matrix import TermMatrix
from tests.summarize.tiny_preset import text

BAGS = st.lists(st.sets(st.sampled_from("abcdefgh")), min_size=1, max_size=12)


def dense(bags: list[set[str]], matrix: TermMatrix) -> np.ndarray:
    """The same matrix, [sentences, terms]."""
    made = np.zeros((len(bags), len(matrix.columns)))
    for row, bag in enumerate(bags):
        for term in bag:
            found = sum(term in other for other in bags)
            made[row, matrix.columns[term]] = np.log((1 + len(bags)) / (1 + found)) + 1
    return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-9)


@given(BAGS, st.integers(0, 1000))
def test_the_sparse_matrix_is_the_dense_one(bags: list[set[str]], seed: int) -> None:
    matrix, random = TermMatrix(bags), np.random.default_rng(seed)
    full, rows = dense(bags, matrix), len(bags)
    weights, vector = random.normal(size=rows), random.normal(size=full.shape[1]).astype(np.float32)
    close = {"atol": 1e-5}
    np.testing.assert_allclose(matrix.total(weights), full.T @ weights, **close)
    np.testing.assert_allclose(matrix.dot(vector), full @ vector, **close)
    after = [full[row] @ full[row + 1] if row + 1 < rows else 0 for row in range(rows)]
    np.testing.assert_allclose(matrix.neighbours(), after, **close)
    means = [np.mean([vector[matrix.columns[term]] for term in bag]) if bag else 0 for bag in bags]
    np.testing.assert_allclose(matrix.mean(vector), means, **close)


@given(BAGS, st.lists(st.sets(st.sampled_from("abcdefghxyz")), min_size=1, max_size=4), st.integers(0, 1000))
def test_likeness_is_the_cosine_with_the_terms_of_a_heading(
    bags: list[set[str]], others: list[set[str]], seed: int
) -> None:
    matrix = TermMatrix(bags)
    which = np.random.default_rng(seed).integers(0, len(others), len(bags))
    full = dense(bags, matrix)
    expected = [full[row] @ matrix.row(others[which[row]]) for row in range(len(bags))]
    np.testing.assert_allclose(matrix.likeness(others, which), expected, atol=1e-5)


def test_standard_scores_are_taken_among_some_rows() -> None:
    values = np.array([[1.0, 5], [3, 5], [100, 7]], np.float32)
    scores = standard_scores(values, np.array([True, True, False]))
    np.testing.assert_allclose(scores[:2], [[-1, 0], [1, 0]], atol=1e-4)
    assert not standard_scores(values, np.array([False, True, False])).any()


def test_only_prose_of_a_usual_length_is_compared() -> None:
    source = read_bytes(
        "a.md", b"# The harbour of the town of Falcaster\n\nIt was closed. It was closed in the winter."
    )
    assert loose(source.text, candidates(source)).tolist() == [False, False, True]


@settings(deadline=None)
@given(st.text("ab A.\n-#|`水ไ\u0301(\"'•1%", min_size=1, max_size=120).filter(str.strip))
def test_features_of_any_text_are_finite(source: str) -> None:
    read = read_bytes("a.md", source.encode())
    found = candidates(read)
    values, bags = features(read.text, found)
    assert len(values) == len(bags) == len(found)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


def test_a_sentence_alone_has_features_too() -> None:
    read = read_bytes("a.txt", b"The harbour of Falcaster was founded in 1871.")
    values, _ = features(read.text, candidates(read))
    assert values.shape[0] == 1
    assert np.isfinite(values).all()


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_the_shipped_trees_know_these_features(name: str) -> None:
    read = read_bytes(name, text(12).encode())
    values, _ = features(read.text, candidates(read))
    trees = Trees.load(sentence_ranker())
    assert trees.features <= values.shape[1] == len(columns())
    scores = trees.predict(values)
    assert scores.shape == (len(values),)
    assert len(set(scores.tolist())) > 2
