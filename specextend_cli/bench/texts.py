"""Where the benchmark's documents come from: the interpreter itself, the user's files, or a data set.

The built-in source is the Python language reference, which every interpreter carries as `pydoc_data.topics`: nothing
to download, and not written for this benchmark.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from specextend_cli.errors import InputError, UsageError

BUILTIN = "python-reference"
_OFFSETS = 16  # built-in documents: the same text, begun at as many places


@dataclass(frozen=True, slots=True)
class Source:
    """A document: its name, its text, and a human's summary where there is one."""

    name: str
    text: str
    summary: str | None = None


def builtin() -> tuple[Source, ...]:
    """The Python language reference as several documents, each beginning at another topic and wrapping around."""
    from pydoc_data.topics import topics

    names = sorted(topics)
    starts = [number * len(names) // _OFFSETS for number in range(_OFFSETS)]
    # Neighbouring starts share most of their text: far apart first, so that two documents have little in common.
    order = sorted(range(_OFFSETS), key=lambda number: int(f"{number:04b}"[::-1], 2))
    return tuple(
        Source(
            f"{BUILTIN}-{number + 1}", "\n\n".join(topics[name].strip() for name in (*names[start:], *names[:start]))
        )
        for number, start in ((number, starts[number]) for number in order)
    )


def files(paths: Sequence[Path]) -> tuple[Source, ...]:
    """Documents as `summarize` reads them. InputError where one cannot be read."""
    from specextend_cli.documents.read import read

    documents = [read(path) for path in paths]
    return tuple(Source(document.name, document.text) for document in documents)


def data_set(path: Path) -> tuple[Source, ...]:
    """A JSONL file, gzipped or not: a line `{"id": …, "text": …, "summary": …}` each. InputError where it is not."""
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the data set {path}", why=str(error)) from error
    sources = tuple(rows(lines, str(path)))
    if not sources:
        raise InputError(f"the data set {path} is empty")
    return sources


def rows(lines: Sequence[str], where: str, *, stem: str = "", text: str = "text") -> Iterator[Source]:
    """The documents in JSON lines; `text` names the column, `stem` what documents without an id are called after."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            body = row[text]
            summary = row.get("summary")
            if isinstance(summary, list):  # several summaries, each an object with a text
                summary = summary[0]["text"] if summary else None
            if not isinstance(body, str) or not isinstance(summary, str | None):
                raise TypeError("text and summary must be strings")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            fix = f'a line is an object with "id", "{text}" and perhaps "summary"'
            raise InputError(f"{where}, line {number}: not a document", why=why, fix=fix) from error
        yield Source(str(row.get("id") or f"{stem or Path(where).stem}-{number}"), body, summary)


def sources(inputs: Sequence[Path], dataset: str | None, *, offline: bool = False) -> tuple[Source, ...]:
    """What the user named: files, a data set's path or name; the built-in text where nothing was."""
    if inputs and dataset:
        raise UsageError("--input and --dataset contradict each other", fix="leave one of them out")
    if inputs:
        return files(inputs)
    if dataset is None:
        return builtin()
    from specextend_cli.bench import hub

    if dataset in hub.NAMES and not Path(dataset).exists():
        return hub.fetch(dataset, offline=offline)
    if not Path(dataset).exists():
        raise UsageError(
            f"there is no data set {dataset!r}",
            why=f"it is neither a file nor one of {', '.join(hub.NAMES)}",
            fix="--dataset FILE.jsonl.gz",
        )
    return data_set(Path(dataset))
