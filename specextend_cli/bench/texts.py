"""The benchmark's documents: the Python language reference, the user's files, or a data set.

Every interpreter has the language reference as `pydoc_data.topics`, so the default needs no download.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specextend_cli.errors import InputError, UsageError, cause

BUILTIN = "python-reference"
_OFFSETS = 16  # built-in documents: the same text with different starts


@dataclass(frozen=True, slots=True)
class Source:
    """A document: its name, its text, a human summary if there is one, its data set's label of length or kind."""

    name: str
    text: str
    summary: str | None = None
    length: str = ""


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


def sources(inputs: Sequence[Path], dataset: str | None) -> tuple[Source, ...]:
    """The user's files as `summarize` reads them, or a data set by path, or the built-in text.

    A data set is a JSONL file, gzipped or not, of `{"id": …, "text": …, "summary": …}`. InputError for anything else.
    """
    if inputs and dataset:
        raise UsageError("--input and --dataset contradict each other", fix="leave one of them out")
    if inputs:
        from specextend_cli.documents.read import read

        return tuple(Source(document.name, document.text) for document in map(read, inputs))
    if dataset is None:
        return builtin()
    path = Path(dataset)
    if not path.exists():
        raise UsageError(f"there is no data set {dataset!r}", fix="--dataset FILE.jsonl.gz")
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the data set {path}", why=cause(error)) from error
    found = tuple(_documents(lines, str(path), path.stem))
    if not found:
        raise InputError(f"the data set {path} is empty")
    return found


def _documents(lines: Sequence[str], where: str, stem: str) -> Iterator[Source]:
    """The documents in JSON lines; `stem` is the name of those without an id."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            body, summary = row["text"], row.get("summary")
            if isinstance(summary, list):  # several summaries, each an object with a text
                summary = summary[0]["text"] if summary else None
            if not isinstance(body, str) or not isinstance(summary, str | None):
                raise TypeError("text and summary must be strings")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            fix = 'a line is an object with "id", "text" and perhaps "summary"'
            raise InputError(f"{where}, line {number}: not a document", why=why, fix=fix) from error
        label = str(row.get("length") or row.get("source") or "")
        yield Source(str(row.get("id") or f"{stem}-{number}"), body, summary, label)
