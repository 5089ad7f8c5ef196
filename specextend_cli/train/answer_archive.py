"""The target's answers in one file, so that another head can be trained on them without asking again.

Of an excerpt that was asked about, its place in the corpus is kept, not its text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specextend_cli.arrays import read_arrays
from specextend_cli.errors import InputError, UsageError
from specextend_cli.train.samples import Frame, Sample, digest
from specextend_cli.train.storage import replace_whole

_BYTES = 1 << 30  # the most that the arrays of a file may have
_END = "\U0010ffff"  # of a document, as no token is


def save_answers(path: Path, samples: Iterable[Sample], documents: Sequence[Sequence[int]], frame: Frame) -> None:
    """Write an .npz file. Answers about excerpts that are in none of the documents are left out."""
    text, starts = _END.join(map(_as_text, documents)), np.cumsum([0, *(len(document) + 1 for document in documents)])
    places, answers = [], []
    for sample in samples:
        prompt = sample.tokens[: sample.output]
        excerpt = prompt[len(frame.before) : len(prompt) - len(frame.after)]
        at = text.find(_as_text(excerpt))
        if at >= 0:
            number = int(starts.searchsorted(at, "right")) - 1
            places.append((number, at - int(starts[number]), len(excerpt)))
            answers.append(sample.tokens[len(prompt) :])
    file = BytesIO()
    np.savez_compressed(
        file,
        corpus=_corpus(documents),
        places=np.array(places, np.int64).reshape(-1),
        sizes=np.array([len(answer) for answer in answers], np.int64),
        tokens=np.array([token for answer in answers for token in answer], np.int32),
    )
    replace_whole(path, file.getvalue())


def load_answers(
    path: Path,
    documents: Sequence[Sequence[int]],
    frame: Frame,
    vocabulary: int,
    *,
    without: Collection[Sequence[int]] = (),
) -> list[Sample]:
    """The answers in the file, but for those about the documents `without`.

    InputError: it is no such file. UsageError: it is about other documents.
    """
    try:
        found = read_arrays(path, ("corpus", "places", "sizes", "tokens"), most=_BYTES)
        if not np.array_equal(found["corpus"], _corpus(documents)):
            fix = "the --corpus that they were made with"
            raise UsageError(f"the answers in {path} are about other documents", fix=fix)
        places, sizes, tokens = found["places"].reshape(-1, 3), found["sizes"], found["tokens"]
        _check(places, sizes, tokens, documents, vocabulary)
    except ValueError as error:
        raise InputError(f"{path} holds no answers of train-draft", why=str(error)) from error
    left_out = set(map(id, without))
    samples = []
    for (number, start, length), answer in zip(places.tolist(), np.split(tokens, sizes.cumsum()[:-1]), strict=True):
        if id(documents[number]) not in left_out:
            prompt = frame.around(documents[number][start : start + length])
            samples.append(Sample([*prompt, *answer.tolist()], len(prompt) - 2, output=len(prompt)))
    return samples


def _as_text(tokens: Sequence[int]) -> str:
    """A character a token, so that an excerpt is found as a substring."""
    return "".join(map(chr, tokens))


def _corpus(documents: Sequence[Sequence[int]]) -> NDArray[np.int16]:
    """The digest of the documents, a number a byte."""
    return np.array(list(digest(documents)), np.int16)


def _check(
    places: NDArray[Any], sizes: NDArray[Any], tokens: NDArray[Any], documents: Sequence[Sequence[int]], vocabulary: int
) -> None:
    """ValueError where a number is out of range."""
    numbers, starts, lengths = places.T
    if not (
        all(array.dtype.kind == "i" for array in (places, sizes, tokens))
        and len(places) == len(sizes) > 0
        and min(places.min(), sizes.min(), tokens.min(initial=0)) >= 0
        and sizes.sum() == len(tokens)
        and tokens.max(initial=0) < vocabulary
        and numbers.max() < len(documents)
        and (starts + lengths <= np.array([len(documents[number]) for number in numbers])).all()
    ):
        raise ValueError("its numbers do not fit the documents or the vocabulary")
