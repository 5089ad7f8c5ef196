from __future__ import annotations

import pytest

from specextend_cli.bench import quality

TEXT, REFERENCE = "the cat sat on the mat", "the cat was on the mat"


def test_rouge_by_hand() -> None:
    """Five of six words, three of five pairs, and "the cat on the mat" in order."""
    score = quality.measure(TEXT, REFERENCE)
    assert score is not None
    assert score.rouge1 == pytest.approx(100 * 5 / 6)
    assert score.rouge2 == pytest.approx(100 * 3 / 5)
    assert score.rouge_l == pytest.approx(100 * 5 / 6)


def test_chrf_by_hand() -> None:
    """ "abc" against "abd": 2 of 3 characters, 1 of 2 pairs, 0 of 1 triples; both have the same length, so F = P = R.
    Longer n-grams exist in neither and do not count."""
    score = quality.measure("abc", "abd")
    assert score is not None
    assert score.chrf == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_the_same_text_is_perfect_and_an_empty_one_is_nothing() -> None:
    assert quality.measure(TEXT, TEXT) == quality.Quality(*[pytest.approx(100.0)] * 4)
    assert quality.measure("", TEXT) == quality.Quality(0.0, 0.0, 0.0, 0.0)


def test_other_scripts_have_chrf() -> None:
    score = quality.measure("резюме отчёта", "резюме доклада")
    assert score is not None
    assert score.rouge1 == 0.0
    assert score.chrf > 30


def test_without_the_libraries_there_is_a_message_and_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quality.missing() is None
    monkeypatch.setattr(quality, "find_spec", lambda module: None if module == "sacrebleu" else object())
    assert quality.measure(TEXT, REFERENCE) is None
    assert quality.missing() == (
        'ROUGE and chrF were left out: sacrebleu is not installed (pip install "specextend-cli[bench]")'
    )
