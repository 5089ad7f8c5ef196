"""The benchmark's documents: the Python language reference, the user's files, or a data set; and built-in problems.

Every interpreter has the language reference as `pydoc_data.topics`, so the default needs no download. The paper's three
data sets come from the Hugging Face Hub.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from specextend_cli.errors import InputError, UsageError
from specextend_cli.models.sources import offline_by_environment

BUILTIN = "python-reference"
_OFFSETS = 16  # built-in documents: the same text with different starts
_LIMIT = 200  # documents of a data set of the Hub: more than any run takes


@dataclass(frozen=True, slots=True)
class Source:
    """A document: its name, its text, a human summary if there is one, and the data set's label: length or source."""

    name: str
    text: str
    summary: str | None = None
    length: str = ""


def problems() -> tuple[Source, ...]:
    """Built-in problems with long answers, for `--workload reasoning`; small enough to check by hand."""
    lines = Path(__file__).with_name("problems.txt").read_text(encoding="utf-8").splitlines()
    return tuple(Source(f"problem-{number}", text) for number, text in enumerate(lines, 1))


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


class _Set(NamedTuple):
    """A file in a data set's repository; `member` of an archive; `text` is its column."""

    repo: str
    file: str
    text: str = "text"
    member: str = ""
    revision: str | None = None


_SETS = {
    "govreport": _Set("zai-org/LongBench", "data.zip", text="context", member="data/gov_report.jsonl"),
    "pg19": _Set("emozilla/pg19-test", "default/test/0000.parquet", revision="refs/convert/parquet"),
    "booksum": _Set("ubaada/booksum-complete-cleaned", "chapters/test.jsonl"),
}
NAMES = tuple(_SETS)


def sources(inputs: Sequence[Path], dataset: str | None, *, offline: bool = False) -> tuple[Source, ...]:
    """The user's files as `summarize` reads them, or a data set by path or name, or the built-in text.

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
    if dataset in NAMES and not path.exists():
        return _fetched(dataset, offline=offline or offline_by_environment())
    if not path.exists():
        why = f"it is neither a file nor one of {', '.join(NAMES)}"
        raise UsageError(f"there is no data set {dataset!r}", why=why, fix="--dataset FILE.jsonl.gz")
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the data set {path}", why=str(error)) from error
    found = tuple(_documents(lines, str(path), path.stem))
    if not found:
        raise InputError(f"the data set {path} is empty")
    return found


def _documents(lines: Sequence[str], where: str, stem: str, text: str = "text") -> Iterator[Source]:
    """The documents in JSON lines. `text` is the column's name, `stem` the name of documents without an id."""
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
        yield Source(
            str(row.get("id") or f"{stem}-{number}"), body, summary, str(row.get("length") or row.get("source") or "")
        )


def _fetched(name: str, *, offline: bool) -> tuple[Source, ...]:
    """Documents of a data set of the Hub. InputError: offline, no network, or not what it was."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    wanted = _SETS[name]
    where: dict[str, Any] = {"repo_type": "dataset", "revision": wanted.revision, "local_files_only": offline}
    try:
        file = Path(hf_hub_download(wanted.repo, wanted.file, **where))
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        why = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if isinstance(error, LocalEntryNotFoundError):
            why = "this run is offline" if offline else "the Hugging Face Hub cannot be reached"
        fix = "--dataset FILE.jsonl, or none for the built-in text"
        raise InputError(f"the data set {name} is not on this machine", why=why, fix=fix) from error
    try:
        if file.suffix == ".parquet":
            return _parquet(file, name)
        if wanted.member:
            with zipfile.ZipFile(file) as archive:
                lines = archive.read(wanted.member).decode("utf-8").splitlines()
        else:
            lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise InputError(f"the data set {name} is not what it was", why=f"{type(error).__name__}: {error}") from error
    return tuple(_documents(lines[:_LIMIT], f"{wanted.repo}/{wanted.member or wanted.file}", name, wanted.text))


def _parquet(file: Path, name: str) -> tuple[Source, ...]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        why, fix = "pyarrow is not installed", "pip install pyarrow"
        raise InputError(f"the data set {name} comes as Parquet", why=why, fix=fix) from error
    rows = enumerate(parquet.read_table(file).slice(0, _LIMIT).to_pylist(), 1)
    return tuple(Source(f"{name}-{number}", row[_SETS[name].text], row.get("summary")) for number, row in rows)
