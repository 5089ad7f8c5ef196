"""Models of the Hugging Face Hub in the standard Hub cache: whole repositories, and single GGUF files.

`from_pretrained` with a repository's name asks the Hub even when everything is cached, so it gets a path instead; a
cached model needs no network. Only weights, configuration and tokenizer are fetched, never code.

A single file is pinned by its hash. `hf_hub_download` resumes within a call, and starts again in the next one: here
what was fetched of it stays as `blobs/….incomplete`, and the next call continues it.
"""

from __future__ import annotations

import glob
import logging
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from specextend_cli.errors import ModelError, cause
from specextend_cli.models import store
from specextend_cli.models.checkpoint import FORMATS, is_complete
from specextend_cli.models.source_kinds import HubFileSource, HubSource
from specextend_cli.models.store import Progress, silent

OnHub: TypeAlias = HubSource | HubFileSource

_SMALL = (".json", ".jinja", ".model")  # configuration, chat template, SentencePiece vocabulary


def cached(source: HubSource) -> Path | None:
    """The snapshot directory if everything that loading needs is on disk, else None. Never uses the network."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(source.repo, "config.json", revision=source.revision)
    directory = Path(config).parent if isinstance(config, str) else None
    return directory if directory is not None and is_complete(directory) else None


def cached_file(source: HubFileSource) -> Path | None:
    """The file in the Hub cache, whatever its contents; None where it is not there. Never uses the network."""
    from huggingface_hub import try_to_load_from_cache

    blob = _blob(source)
    named = try_to_load_from_cache(source.repo, source.file, revision=source.revision)
    if isinstance(named, str) and (not blob.is_file() or Path(named).resolve() == blob.resolve()):
        return Path(named)
    return blob if blob.is_file() else None


def obtain(source: HubSource, *, name: str, progress: Progress = silent) -> Path:
    """The snapshot directory, fetched. `name` is what the user calls the preset.

    ModelError: gated, no such repository or revision, no network. FitError: the disk is too full.
    """
    from huggingface_hub import HfApi, hf_hub_download

    with _explained(source, name):
        info = HfApi().model_info(source.repo, revision=source.revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        names = wanted(list(sizes))
        total = sum(sizes[file] for file in names)
        store.check_space(repository_folder(source), total - size_on_disk(source))
        with store.watched(f"downloading {source.repo}", lambda: size_on_disk(source), total, progress):
            # One by one, in this thread: `snapshot_download` has threads of its own, which ^C would have to wait for.
            files = [Path(hf_hub_download(source.repo, file, revision=source.revision)) for file in names]
    directory = files[0].parent if files else None
    if directory is None or not is_complete(directory):
        raise ModelError(
            f"{source.repo} is not a model that this program can load",
            why="it lacks a config.json, or weights as safetensors or pytorch_model.bin",
        )
    return directory


def obtain_file(source: HubFileSource, *, name: str, progress: Progress = silent) -> Path:
    """The file, its hash checked, fetched unless it is in the cache. A second process waits for the first.

    Errors as `obtain`, and ModelError for other contents (then it is deleted).
    """
    from huggingface_hub import hf_hub_download

    if (file := cached_file(source)) is not None:
        progress("checking", 0, source.file_bytes)
        store.check_sum(file, source.sha256, str(source))
        return file
    blob, part = _blob(source), _part(source)
    # The lock of huggingface_hub for this file: other programs wait, too.
    locks = repository_folder(source).parent / ".locks" / repository_folder(source).name
    with _explained(source, name):
        for folder in (blob.parent, locks):
            folder.mkdir(parents=True, exist_ok=True)
        with store.lock(locks / f"{blob.name}.lock", progress):
            if not blob.is_file():
                _fetch(source, part, progress)
                progress("checking", 0, source.file_bytes)
                store.check_sum(part, source.sha256, str(source))
                part.replace(blob)
        return Path(hf_hub_download(source.repo, source.file, revision=source.revision))


def _fetch(source: HubFileSource, part: Path, progress: Progress) -> None:
    """Append what is missing to the part of the file."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    def fetched() -> int:
        return part.stat().st_size if part.is_file() else 0

    if (done := fetched()) >= source.file_bytes:
        return
    store.check_space(repository_folder(source), source.file_bytes - done)
    url = hf_hub_url(source.repo, source.file, revision=source.revision)
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    with store.watched(f"downloading {source.repo}", fetched, source.file_bytes, progress), part.open("ab") as out:
        http_get(url, out, resume_size=done, headers=headers, expected_size=source.file_bytes)


def remove(source: OnHub) -> int:
    """Delete the file, or the repository with all its revisions, from the Hub cache; returns the bytes freed."""
    freed = size_on_disk(source)
    if isinstance(source, HubSource):
        if repository_folder(source).is_dir():
            shutil.rmtree(repository_folder(source))
        return freed
    for file in _files(source):
        if file.is_symlink():
            file.resolve().unlink(missing_ok=True)
        file.unlink(missing_ok=True)
    return freed


def size_on_disk(source: OnHub) -> int:
    """Bytes in the Hub cache, unfinished downloads included; of a repository, whatever the revision."""
    if isinstance(source, HubSource):
        return store.size_on_disk(repository_folder(source) / "blobs")
    return sum({file.resolve(): file.stat().st_size for file in _files(source)}.values())


def _files(source: HubFileSource) -> list[Path]:
    """The file's names in the cache: snapshots' links first, then the blob, and a part of it."""
    links = sorted((repository_folder(source) / "snapshots").glob(f"*/{glob.escape(source.file)}"))
    return [file for file in (*links, _blob(source), _part(source)) if file.exists()]


def _blob(source: HubFileSource) -> Path:
    return repository_folder(source) / "blobs" / source.sha256


def _part(source: HubFileSource) -> Path:
    return _blob(source).with_suffix(".incomplete")


def repository_folder(source: OnHub) -> Path:
    """Where the Hub cache keeps the repository."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{source.repo.replace('/', '--')}"


def wanted(files: list[str]) -> list[str]:
    """The files to fetch from a repository: top-level configuration and tokenizer, and one format of weights."""
    top = [file for file in files if "/" not in file]
    small = [file for file in top if file.endswith(_SMALL)]
    for stem, suffix in FORMATS:
        if weights := [file for file in top if file.startswith(stem) and file.endswith(suffix)]:
            return small + weights
    return small


@contextmanager
def _explained(source: OnHub, name: str) -> Iterator[None]:
    """Turn what huggingface_hub raises into a ModelError or FitError that says what to do; it prints nothing itself."""
    from huggingface_hub.errors import HfHubHTTPError

    # The HTTP library's base class, whichever library this version of huggingface_hub uses.
    http_error: type[BaseException] = HfHubHTTPError.__bases__[0]
    try:
        with _quiet(), store.full_disk_is_a_fit_error(repository_folder(source)):
            yield
    except (http_error, OSError) as error:
        raise _explain(source, name, error) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Without huggingface_hub's bars and warnings: this program has its own. Its settings are restored afterwards."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    had_bars, verbosity = not are_progress_bars_disabled(), hub_logging.get_verbosity()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an environment variable has priority over this
        disable_progress_bars()
        hub_logging.set_verbosity(logging.ERROR)
        try:
            yield
        finally:
            hub_logging.set_verbosity(verbosity)
            if had_bars:
                enable_progress_bars()


def _explain(source: OnHub, name: str, error: BaseException) -> ModelError:
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    why, pull = (cause(error).strip() or type(error).__name__).splitlines()[0], f"specextend models pull {name}"
    status = getattr(getattr(error, "response", None), "status_code", 0)
    what, fix = f"cannot fetch {source} from the Hugging Face Hub", f"check the network, then: {pull}"
    match error:
        case GatedRepoError():
            what = f"{source.repo} is gated: its owner asks you to accept a licence first"
            why = "this machine's Hugging Face account has not been granted access, or no one is logged in"
            fix = f"accept it at https://huggingface.co/{source.repo}, then: hf auth login && {pull}"
        case LocalEntryNotFoundError():  # the library's word for no connection, a kind of the next
            pass
        case RevisionNotFoundError() | EntryNotFoundError():
            what, fix = f"there is no {source} on the Hugging Face Hub", "correct the preset's file or revision"
        case HfHubHTTPError() if isinstance(error, RepositoryNotFoundError) or status in (401, 403):
            what = f"{source.repo} does not exist on the Hugging Face Hub, or is private"
            fix = f"check its name; if it is private: hf auth login && {pull}"
    return ModelError(what, why=why, fix=fix)
