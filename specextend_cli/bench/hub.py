"""The paper's three data sets from the Hugging Face Hub, by name."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specextend_cli.bench.texts import Source, builtin, data_set, files, rows
from specextend_cli.errors import InputError, UsageError
from specextend_cli.models.sources import offline_by_environment

_LIMIT = 200  # documents: more than any run takes


@dataclass(frozen=True, slots=True)
class _Set:
    """A file in a data set's repository; `member` of an archive; `text` and `summary` are its columns."""

    repo: str
    file: str
    text: str = "text"
    summary: str = "summary"
    member: str = ""
    revision: str | None = None


_SETS = {
    "govreport": _Set("zai-org/LongBench", "data.zip", text="context", member="data/gov_report.jsonl"),
    "pg19": _Set("emozilla/pg19-test", "default/test/0000.parquet", revision="refs/convert/parquet"),
    "booksum": _Set("ubaada/booksum-complete-cleaned", "chapters/test.jsonl"),
}
NAMES = tuple(_SETS)


def fetch(name: str, *, offline: bool = False) -> tuple[Source, ...]:
    """Documents of the data set `name`. InputError: offline, no network, or not what it was."""
    wanted = _SETS[name]
    file = _download(name, wanted, offline or offline_by_environment())
    try:
        if file.suffix == ".parquet":
            return _parquet(file, wanted, name)
        if wanted.member:
            with zipfile.ZipFile(file) as archive:
                lines = archive.read(wanted.member).decode("utf-8").splitlines()
        else:
            lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise InputError(f"the data set {name} is not what it was", why=f"{type(error).__name__}: {error}") from error
    return tuple(rows(lines[:_LIMIT], f"{wanted.repo}/{wanted.member or wanted.file}", stem=name, text=wanted.text))


def _download(name: str, wanted: _Set, offline: bool) -> Path:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        path = hf_hub_download(
            wanted.repo, wanted.file, repo_type="dataset", revision=wanted.revision, local_files_only=offline
        )
    except LocalEntryNotFoundError as error:
        why = "this run is offline" if offline else "the Hugging Face Hub cannot be reached"
        raise _absent(name, why) from error
    except (HfHubHTTPError, OSError) as error:
        raise _absent(name, f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
    return Path(path)


def _absent(name: str, why: str) -> InputError:
    fix = "--dataset FILE.jsonl, or none for the built-in text"
    return InputError(f"the data set {name} is not on this machine", why=why, fix=fix)


def _parquet(file: Path, wanted: _Set, name: str) -> tuple[Source, ...]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise InputError(
            f"the data set {name} comes as Parquet", why="pyarrow is not installed", fix="pip install pyarrow"
        ) from error
    table: Any = parquet.read_table(file).slice(0, _LIMIT).to_pylist()
    return tuple(
        Source(f"{name}-{number}", row[wanted.text], row.get(wanted.summary)) for number, row in enumerate(table, 1)
    )


def sources(inputs: Sequence[Path], dataset: str | None, *, offline: bool = False) -> tuple[Source, ...]:
    """The user's files, or a data set by path or name, or the built-in text."""
    if inputs and dataset:
        raise UsageError("--input and --dataset contradict each other", fix="leave one of them out")
    if inputs:
        return files(inputs)
    if dataset is None:
        return builtin()
    if dataset in NAMES and not Path(dataset).exists():
        return fetch(dataset, offline=offline)
    if not Path(dataset).exists():
        raise UsageError(
            f"there is no data set {dataset!r}",
            why=f"it is neither a file nor one of {', '.join(NAMES)}",
            fix="--dataset FILE.jsonl.gz",
        )
    return data_set(Path(dataset))
