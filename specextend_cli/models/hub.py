"""Snapshots of Hugging Face Hub repositories in the standard Hub cache; a cached one needs no network.

`from_pretrained` with a repository's name asks the Hub even when everything is cached, so it gets a path instead. Only
weights, configuration and tokenizer are fetched, never code.
"""

from __future__ import annotations

import logging
import re
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from specextend_cli.engine.private_files import sha256
from specextend_cli.errors import ModelError, cause
from specextend_cli.models import store
from specextend_cli.models.checkpoint import FORMATS, has_tokenizer, weight_files
from specextend_cli.models.source_kinds import HubFileSource, HubSource
from specextend_cli.models.store import Progress, silent

OnHub: TypeAlias = HubSource | HubFileSource

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SMALL = (".json", ".jinja", ".model")  # configuration, chat template, SentencePiece vocabulary


def cached(source: HubSource, *, tokenizer: bool = True) -> Path | None:
    """The snapshot directory if everything that loading needs is on disk, else None. Never uses the network."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(source.repo, "config.json", revision=source.revision)
    directory = Path(config).parent if isinstance(config, str) else None
    return directory if directory is not None and complete(directory, tokenizer=tokenizer) else None


def complete(directory: Path, *, tokenizer: bool = True) -> bool:
    """Whether a directory has a configuration, every file of its weights and, if one is needed, a `tokenizer`.

    Drafts use the token ids of their target and need none, but one that is there is compared. EAGLE heads have none.
    """
    has_all = (directory / "config.json").is_file() and (has_tokenizer(directory) or not tokenizer)
    return has_all and bool(weight_files(directory))


def obtain(
    source: HubSource, *, name: str, offline: bool = False, tokenizer: bool = True, progress: Progress = silent
) -> Path:
    """The snapshot directory, fetched unless it is complete on disk; `tokenizer` as in `complete`.

    `name` is what the user calls the preset. ModelError: offline, gated, no such repository or revision, no network.
    FitError: the disk is too full.
    """
    if (directory := cached(source, tokenizer=tokenizer)) is not None:
        return directory
    if offline:
        raise offline_error(source, name)
    from huggingface_hub import HfApi, hf_hub_download

    with explained(source, name):
        info = HfApi().model_info(source.repo, revision=source.revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        names = wanted(list(sizes))
        total = sum(sizes[file] for file in names)
        store.check_space(repository_folder(source), total - size_on_disk(source), variable="HF_HUB_CACHE")
        with store.watched(f"downloading {source.repo}", lambda: size_on_disk(source), total, progress):
            # One by one, in this thread: `snapshot_download` has threads of its own, which ^C would have to wait for.
            files = [Path(hf_hub_download(source.repo, file, revision=source.revision)) for file in names]
        _check_sums(source, files, progress)
    directory = files[0].parent if files else None
    if directory is None or not complete(directory, tokenizer=tokenizer):
        raise ModelError(
            f"{source.repo} is not a model that this program can load",
            why=f"it lacks a config.json, {'a tokenizer, ' * tokenizer}or weights as safetensors or pytorch_model.bin",
        )
    return directory


def _check_sums(source: HubSource, files: Sequence[Path], progress: Progress) -> None:
    """Delete and refuse files that arrived damaged: the Hub's cache calls large ones by their SHA-256 sums."""
    for file in files:
        blob = file.resolve()
        if not _SHA256.fullmatch(blob.name):
            continue
        progress(f"checking {file.name}", 0, 0)
        if sha256(blob) != blob.name:
            blob.unlink()
            file.unlink(missing_ok=True)
            why = "its SHA-256 sum is another one; it was deleted"
            fix = "fetch it again; something changes it on its way"
            raise ModelError(f"{file.name} of {source.repo} arrived damaged", why=why, fix=fix)


def remove(source: HubSource) -> int:
    """Delete the repository, all revisions, from the Hub cache; returns the bytes freed."""
    folder = repository_folder(source)
    freed = size_on_disk(source)
    if folder.is_dir():
        shutil.rmtree(folder)
    return freed


def offline_error(source: OnHub, name: str) -> ModelError:
    """The error of a run that may not fetch what it needs."""
    return ModelError(
        f"the model {source} is not on this machine",
        why=f"it would have to be fetched from the Hugging Face Hub, and {store.OFFLINE}",
        fix=f"specextend models pull {name}",
    )


@contextmanager
def explained(source: OnHub, name: str) -> Iterator[None]:
    """Turn what huggingface_hub raises into a ModelError or FitError that says what to do; it prints nothing itself."""
    from huggingface_hub.errors import HfHubHTTPError

    # The HTTP library's base class, whichever library this version of huggingface_hub uses.
    http_error: type[BaseException] = HfHubHTTPError.__bases__[0]
    try:
        with _quiet(), store.full_disk_is_a_fit_error(repository_folder(source), variable="HF_HUB_CACHE"):
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


def size_on_disk(source: HubSource) -> int:
    """Bytes of the repository in the Hub cache, whatever the revision, unfinished downloads included."""
    return store.size_on_disk(repository_folder(source) / "blobs")


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
    match error:
        case GatedRepoError():
            what = f"{source.repo} is gated: its owner asks you to accept a licence first"
            why = "this machine's Hugging Face account has not been granted access, or no one is logged in"
            fix = f"accept it at https://huggingface.co/{source.repo}, then: hf auth login && {pull}"
        case RevisionNotFoundError():
            what, fix = f"{source.repo} has no revision {source.revision}", "correct the preset's revision"
        case EntryNotFoundError() if not isinstance(error, LocalEntryNotFoundError):
            what, fix = f"there is no {source} on the Hugging Face Hub", "correct the preset's file"
        case HfHubHTTPError() if isinstance(error, RepositoryNotFoundError) or status in (401, 403):
            what = f"{source.repo} does not exist on the Hugging Face Hub, or is private"
            fix = f"check its name; if it is private: hf auth login && {pull}"
        case HfHubHTTPError():
            what, fix = f"the Hugging Face Hub refused {source.repo}", f"check the network, then: {pull}"
        case _:
            what, fix = f"cannot reach the Hugging Face Hub for {source.repo}", f"check the network, then: {pull}"
    return ModelError(what, why=why, fix=fix)
