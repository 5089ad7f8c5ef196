"""Prompts of an exact length, from documents: the Python language reference, the user's files, or a data set.

Every interpreter has the language reference as `pydoc_data.topics`, so the default needs no download.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specextend_cli.errors import InputError, UsageError, cause
from specextend_cli.summarize.prompts import PromptBuilder
from specextend_cli.summarize.request import WORDS_PER_TOKEN

BUILTIN = "python-reference"
_OFFSETS = 16  # built-in documents: the same text with different starts


@dataclass(frozen=True, slots=True)
class Source:
    """A document: its name and its text."""

    name: str
    text: str


def builtin() -> tuple[Source, ...]:
    """The Python language reference as several documents, each starting at another topic and wrapping around."""
    from pydoc_data.topics import topics

    texts = [topics[name].strip() for name in sorted(topics)]
    starts = [number * len(texts) // _OFFSETS for number in range(_OFFSETS)]
    # Neighbouring starts share most of their text, so the order is bit-reversed: distant starts come first.
    order = sorted(range(_OFFSETS), key=lambda number: int(f"{number:04b}"[::-1], 2))
    return tuple(
        Source(f"{BUILTIN}-{number + 1}", "\n\n".join([*texts[starts[number] :], *texts[: starts[number]]]))
        for number in order
    )


def sources(inputs: Sequence[Path], dataset: Path | None) -> tuple[Source, ...]:
    """The user's files as `summarize` reads them, or a data set by path, or the built-in text.

    A data set is a JSONL file, gzipped or not, of `{"id": …, "text": …}`. InputError for anything else.
    """
    if inputs and dataset:
        raise UsageError("--input and --dataset contradict each other", fix="leave one of them out")
    if inputs:
        from specextend_cli.documents.read import read

        return tuple(Source(document.name, document.text) for document in map(read, inputs))
    if dataset is None:
        return builtin()
    if not dataset.exists():
        raise UsageError(f"there is no data set {str(dataset)!r}", fix="--dataset FILE.jsonl.gz")
    try:
        data = dataset.read_bytes()
        lines = (gzip.decompress(data) if dataset.suffix == ".gz" else data).decode("utf-8").split("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the data set {dataset}", why=cause(error)) from error
    found = tuple(_documents(lines, str(dataset), dataset.stem))
    if not found:
        raise InputError(f"the data set {dataset} is empty")
    return found


def _documents(lines: Sequence[str], where: str, stem: str) -> Iterator[Source]:
    """The documents in JSON lines; `stem` is the name of those without an id."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            body = row["text"]
            if not isinstance(body, str):
                raise TypeError("text must be a string")
        except (ValueError, LookupError, TypeError) as error:
            why = f"{type(error).__name__}: {error}"
            fix = 'a line is an object with "id" and "text"'
            raise InputError(f"{where}, line {number}: not a document", why=why, fix=fix) from error
        yield Source(str(row.get("id") or f"{stem}-{number}"), body)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of exactly `length` `tokens`; `text`: the document's beginning, in tokens."""

    document: str
    length: int
    tokens: tuple[int, ...]
    text: tuple[int, ...] = ()


def summaries(
    sources: Sequence[Source], prompter: PromptBuilder, lengths: Sequence[int], docs: int
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """For each length, the beginnings of the `docs` documents that lose least by the cut, in the preset's own prompt.

    The second part has a warning for each length with fewer documents. InputError for a length with none.
    """
    prompts: list[Prompt] = []
    short: list[str] = []
    encoded = [(source, prompter.encoder.encode(source.text)) for source in sources]
    encoded.sort(key=lambda one: len(one[1]))  # it is stable: documents of one size keep the order they came in
    for length in lengths:
        fitting = [prompt for source, ids in encoded if (prompt := _framed(source, ids, prompter, length))][:docs]
        if not fitting:
            raise InputError(
                f"no document is long enough for a prompt of {length:,} tokens",
                why=f"the longest has {len(encoded[-1][1]) if encoded else 0:,}",
                fix="a smaller --len, or longer documents with --input",
            )
        if len(fitting) < docs:
            short.append(f"{len(fitting)} of {docs} documents are long enough for {length:,} tokens")
        prompts += fitting
    return tuple(prompts), tuple(short)


def _framed(source: Source, ids: Sequence[int], prompter: PromptBuilder, length: int) -> Prompt | None:
    """A prompt of exactly `length` tokens; None if the document has too few."""
    values = {
        "title": source.name,
        "words": max(int(min(length / 3, prompter.preset.window.summary_tokens * 0.8) * WORDS_PER_TOKEN), 10),
        "pages": "1",
        "part": 1,
        "parts": 1,
        "language": "the document's language",
    }
    before, after = prompter.frame("single", values)
    room = length - len(before) - len(after)
    if room < 1:
        raise UsageError(
            f"a prompt of {length} tokens has no room for a document",
            why=f"the preset's own words take {len(before) + len(after)}",
            fix="a larger --len",
        )
    if len(ids) < room:
        return None
    return Prompt(source.name, length, (*before, *ids[:room], *after), tuple(ids[:length]))


_LENGTH = re.compile(r"(\d+)\s*([kK]?)")


def parse_lengths(text: str) -> tuple[int, ...]:
    """`512,1k,16k` as ascending distinct token counts; k is 1,024. UsageError for anything else."""
    lengths = set()
    for part in map(str.strip, text.split(",")):
        found = _LENGTH.fullmatch(part)
        if found is None:
            raise UsageError(f"--len: {part!r} is no length", fix="for example --len 512,1k,16k")
        length = int(found[1]) * (1024 if found[2] else 1)
        if not 16 <= length <= 1 << 24:
            raise UsageError(f"--len: {part} tokens are too {'few' if length < 16 else 'many'} for a prompt")
        lengths.add(length)
    return tuple(sorted(lengths))
