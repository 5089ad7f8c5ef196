"""Answers of an earlier run: what is read is what was written, and nothing of another corpus or a broken file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specextend_cli.errors import InputError, UsageError
from specextend_cli.train import answer_archive
from specextend_cli.train.answer_archive import load_answers, save_answers
from specextend_cli.train.samples import Frame, Sample

FRAME = Frame([1, 2], [3])
DOCUMENTS = [[5, 6, 7, 8] * 4, [9] * 12, [5, 6, 7, 9, 5, 6, 7, 8]]
VOCABULARY = 20


def sample(number: int, start: int, length: int, answer: list[int]) -> Sample:
    prompt = FRAME.around(DOCUMENTS[number][start : start + length])
    return Sample([*prompt, *answer], len(prompt) - 2, output=len(prompt))


SAMPLES = [sample(0, 4, 8, [4, 5]), sample(2, 0, 6, []), sample(1, 3, 9, [11] * 30), sample(2, 0, 6, [7])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_answers(tmp_path / "answers.npz", SAMPLES, DOCUMENTS, FRAME)
    return tmp_path / "answers.npz"


def test_what_is_read_is_what_was_written(path: Path) -> None:
    found = load_answers(path, DOCUMENTS, FRAME, VOCABULARY)
    assert found == SAMPLES


def test_a_prompt_may_be_another_than_that_which_was_asked(path: Path) -> None:
    found = load_answers(path, DOCUMENTS, Frame([4], [4, 4]), VOCABULARY)
    assert found[0].tokens == [4, *DOCUMENTS[0][:8], 4, 4, 4, 5]
    assert found[0].tokens[found[0].output :] == [4, 5]


def test_answers_about_held_out_documents_are_left_out(path: Path) -> None:
    found = load_answers(path, DOCUMENTS, FRAME, VOCABULARY, without=DOCUMENTS[2:])
    assert [one.tokens for one in found] == [SAMPLES[0].tokens, SAMPLES[2].tokens]


def test_answers_about_no_document_are_not_written(tmp_path: Path) -> None:
    other = Sample([1, 2, 5, 6, 7, 7, 3, 8], 5, output=7)
    save_answers(tmp_path / "answers.npz", [other, SAMPLES[0]], DOCUMENTS, FRAME)
    assert len(load_answers(tmp_path / "answers.npz", DOCUMENTS, FRAME, VOCABULARY)) == 1


def test_another_corpus_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="about other documents"):
        load_answers(path, [*DOCUMENTS, [4, 4, 4]], FRAME, VOCABULARY)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("places", [7, 0, 4]),
        ("places", [0, 14, 4]),
        ("places", [0, -1, 4]),
        ("places", [0.5, 0, 4]),
        ("places", [0, 0]),
        ("sizes", [3]),
        ("tokens", [4, VOCABULARY]),
        ("tokens", [4, -1]),
        ("tokens", np.array([{}, {}])),
    ],
)
def test_numbers_out_of_range_are_refused(name: str, value: Any, tmp_path: Path) -> None:
    save_answers(tmp_path / "answers.npz", SAMPLES[:1], DOCUMENTS, FRAME)
    with np.load(tmp_path / "answers.npz") as file:
        arrays = {**file, name: np.array(value)}
    np.savez(tmp_path / "answers.npz", **arrays)
    with pytest.raises(InputError, match="holds no answers"):
        load_answers(tmp_path / "answers.npz", DOCUMENTS, FRAME, VOCABULARY)


def test_a_file_of_little_that_says_it_has_much_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_archive, "_BYTES", 500)
    with pytest.raises(InputError, match="holds no answers") as caught:
        load_answers(path, DOCUMENTS, FRAME, VOCABULARY)
    assert caught.value.why == "its arrays have more than 500 bytes"


@pytest.mark.parametrize("content", [b"", b"PK", b"words"])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "answers.npz").write_bytes(content)
    with pytest.raises(InputError, match="holds no answers"):
        load_answers(tmp_path / "answers.npz", DOCUMENTS, FRAME, VOCABULARY)
