"""Training samples: tokens, and the part of them that the loss counts; and the corpus that they come from."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from specextend_cli.errors import InputError, cause

_OPENING = 64  # tokens of each document that the digest reads


@dataclass(frozen=True, slots=True)
class Sample:
    """Tokens [n] of a prompt and what follows; the loss counts from row `start` on (see `unroll`).

    `output` is where an answer begins: from there on, sampling penalties apply to the target's logits.
    """

    tokens: list[int]
    start: int
    output: int | None = None

    @property
    def rows(self) -> int:
        """Rows of loss in the first step: those from `start` whose next token is known."""
        return len(self.tokens) - 1 - self.start


@dataclass(frozen=True)
class Frame:
    """The prompt around a document, as token ids, as it is in use. `leads` introduce the passages of copy samples."""

    before: list[int]
    after: list[int]
    leads: tuple[list[int], ...] = ()

    def around(self, document: Sequence[int]) -> list[int]:
        """The whole prompt."""
        return [*self.before, *document, *self.after]


def digest(documents: Sequence[Sequence[int]]) -> bytes:
    """A cheap digest of tokenized documents, by the beginning of each."""
    openings = sha256()
    for document in documents:
        opening = np.asarray(document[:_OPENING], dtype="<i8")
        openings.update(len(opening).to_bytes(8, "little") + opening.tobytes())
    return openings.digest()


def by_prompt(samples: Sequence[Sample], rows: int) -> list[list[Sample]]:
    """Samples in groups behind one prompt, so that its rows are computed once; at most `rows` rows of loss a group.

    A longer sample is a group of its own.
    """
    groups: list[list[Sample]] = []
    last: dict[tuple[int, ...], tuple[list[Sample], int]] = {}
    for sample in samples:
        prompt = tuple(sample.tokens[: sample.start + 1])
        group, size = last.get(prompt, ([], rows))
        if size + sample.rows > rows:
            group, size = [], 0
            groups.append(group)
        group.append(sample)
        last[prompt] = group, size + sample.rows
    return groups


def draws(kinds: Sequence[tuple[float, Sequence[list[Sample]]]], order: random.Random) -> Iterator[list[Sample]]:
    """Groups of samples of several kinds by their shares, without end; all of a kind are drawn before one returns."""

    def shuffled(groups: Sequence[list[Sample]]) -> Iterator[list[Sample]]:
        while True:
            yield from order.sample(groups, len(groups))

    shares = [share for share, groups in kinds if share > 0 and groups]
    streams = [shuffled(groups) for share, groups in kinds if share > 0 and groups]
    while True:
        (stream,) = order.choices(streams, shares)
        yield next(stream)


def read_corpus(path: Path, *, apart: Path | None = None) -> Iterator[str]:
    """Texts of a JSONL[.gz] file (field `text`), of a text file, or of every such file in a directory, in order.

    Files in the directory `apart`, where the results of training go, are left out. InputError: nothing there, a file
    that cannot be read, or a line that is not JSON with a `text`.
    """
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    results = None if apart is None else apart.resolve()
    texts = [
        file
        for file in files
        if file.name.endswith((".jsonl", ".jsonl.gz", ".txt", ".md")) and results not in file.resolve().parents
    ]
    if not texts:
        raise InputError(
            f"no training text in {path}",
            why="a corpus is .jsonl or .jsonl.gz with a field text, .txt or .md",
            fix="convert other documents first: specextend extract report.pdf -o report.txt",
        )
    for file in texts:
        data = _read(file)
        if file.name.endswith((".jsonl", ".jsonl.gz")):
            yield from _texts(file, data)
        else:
            yield data.decode("utf-8", "replace")


def _read(file: Path) -> bytes:
    try:
        return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {file}", why=cause(error)) from error


def _texts(file: Path, data: bytes) -> Iterator[str]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            text = json.loads(line)["text"]
            if not isinstance(text, str):
                raise TypeError(f"its text is no string but {type(text).__name__}")
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{file}, line {number}: not JSON with a text", why=str(error)) from error
        yield text


def cut(documents: Sequence[Sequence[int]], lengths: Sequence[int], count: int, seed: int) -> list[list[int]]:
    """`count` excerpts of tokenized documents: lengths drawn from `lengths`, places at random, without replacement
    of documents until each was used once."""
    order = random.Random(seed)
    usable = [document for document in documents if len(document) >= min(lengths)]
    excerpts: list[list[int]] = []
    while len(excerpts) < count:
        for document in order.sample(usable, min(len(usable), count - len(excerpts))):
            length = order.choice([length for length in lengths if length <= len(document)])
            at = order.randrange(len(document) - length + 1)
            excerpts.append(list(document[at : at + length]))
    return excerpts
