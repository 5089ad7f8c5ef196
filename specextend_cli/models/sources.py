"""Where models come from: one place to find, fetch, remove and size them, whatever their kind.

Every path handed out is a directory in transformers' layout. `locate` never uses the network.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specextend_cli.errors import ModelError
from specextend_cli.models import hub, pypi_source, store
from specextend_cli.models.preset import HubSource, LocalSource, Preset, Source, WheelSource
from specextend_cli.models.progress import Progress, silent

_CONVERSION = 3
"""Part of the key of converted models: raise it when the converted files change."""


@dataclass(frozen=True, slots=True)
class ModelDirectories:
    """Directories of a preset's models; `draft` is None where the drafter is no second model."""

    target: Path
    draft: Path | None


def fetch_pair(
    preset: Preset, *, offline: bool = False, progress: Progress = silent, verify: bool = False
) -> ModelDirectories:
    """Both models of a preset, fetched where they are not on this machine. Errors and `verify` as `fetch`."""

    def get(source: Source, *, tokenizer: bool) -> Path:
        return fetch(source, name=preset.name, offline=offline, progress=progress, verify=verify, tokenizer=tokenizer)

    target = get(preset.target.source, tokenizer=True)
    return ModelDirectories(target, None if preset.draft.source is None else get(preset.draft.source, tokenizer=False))


def is_present(preset: Preset) -> bool:
    """Whether both models of a preset are complete on this machine."""
    draft = preset.draft.source
    return locate(preset.target.source) is not None and (draft is None or locate(draft, tokenizer=False) is not None)


def fetch(
    source: Source,
    *,
    name: str = "NAME",
    offline: bool = False,
    progress: Progress = silent,
    verify: bool = False,
    tokenizer: bool = True,
) -> Path:
    """The model's directory, fetched (and converted) where it is not on this machine.

    `name` is what the user calls the preset, for the commands that errors suggest. HF_HUB_OFFLINE counts as
    `offline`. `verify` also checks the contents of converted files, and rebuilds damaged ones. `tokenizer` says whether
    one is needed: drafts go without. ModelError: it cannot be had, and why; FitError: the disk is too full.
    """
    offline = offline or offline_by_environment()
    if isinstance(source, LocalSource):
        return _local(source, tokenizer)
    if isinstance(source, HubSource):
        return hub.obtain(source, name=name, offline=offline, tokenizer=tokenizer, progress=progress)
    return _converted(source, name=name, offline=offline, progress=progress, verify=verify)


def locate(source: Source, *, tokenizer: bool = True) -> Path | None:
    """The model's directory when it is complete on this machine, else None. `tokenizer` as in `fetch`."""
    if isinstance(source, LocalSource):
        return source.path if hub.complete(source.path, tokenizer=tokenizer) else None
    if isinstance(source, HubSource):
        return hub.cached(source, tokenizer=tokenizer)
    directory = converted_directory(source)
    return directory if store.problem(directory) is None else None


def remove(source: Source) -> int:
    """Delete what this program and the Hub cache hold of the model; returns the bytes freed.

    A local model and an installed wheel are the user's: they stay.
    """
    if isinstance(source, LocalSource):
        return 0
    if isinstance(source, HubSource):
        return hub.remove(source)
    return store.remove(converted_directory(source)) + store.remove(pypi_source.download_directory(source))


def size_on_disk(source: Source) -> int:
    """Bytes that the model takes on this machine now."""
    if isinstance(source, LocalSource):
        return store.size_on_disk(source.path)
    if isinstance(source, HubSource):
        return hub.size_on_disk(source)
    return store.size_on_disk(converted_directory(source)) + store.size_on_disk(pypi_source.download_directory(source))


def converted_directory(source: WheelSource) -> Path:
    """Where a wheel's model is kept, converted."""
    key = f"{source.package}-{source.version}-{source.sha256[:12]}-bf16-{_CONVERSION}"
    return store.cache_root() / "models" / key


def offline_by_environment() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE says so, in the words that huggingface_hub takes for yes."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in names)


def _converted(source: WheelSource, *, name: str, offline: bool, progress: Progress, verify: bool) -> Path:
    directory = converted_directory(source)
    if (damage := store.problem(directory, verify=verify)) is None:
        return directory
    if directory.exists():
        progress(f"rebuilding the converted model: {damage}", 0, 0)

    def fill(into: Path) -> None:
        from specextend_cli.models.convert import convert

        convert(pypi_source.obtain(source, name=name, offline=offline, progress=progress), into, progress=progress)

    # Obtained inside the build: a second process waits here, rather than fetching what the first is about to delete.
    # bf16 takes at most 16/4.5 times the space of the 4-bit formats, with their scales.
    store.build(directory, fill, need=4 * source.file_bytes, verify=verify, progress=progress)
    store.remove(pypi_source.download_directory(source))
    return directory


def _local(source: LocalSource, tokenizer: bool) -> Path:
    if not source.path.is_dir():
        raise ModelError(f"there is no model directory {source.path}", fix="correct the path in the preset")
    if not hub.complete(source.path, tokenizer=tokenizer):
        raise ModelError(
            f"{source.path} is not a complete model",
            why=f"it lacks config.json, {'tokenizer.json, ' * tokenizer}or model.safetensors",
            fix="save the model there with save_pretrained, tokenizer included"
            if tokenizer
            else "save the draft there as it was published: config.json beside its weights",
        )
    return source.path
