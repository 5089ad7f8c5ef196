"""Finding, fetching, removing and sizing models, whatever the kind of their source.

Every path returned is a directory in transformers' layout. `locate` never uses the network.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from specextend_cli.errors import ModelError
from specextend_cli.models import hub, hub_file, pypi_source, store
from specextend_cli.models.chat_template import no_chat_template
from specextend_cli.models.gguf.source import GgufFile, converted_name, gguf_file, simple_name
from specextend_cli.models.preset import Preset
from specextend_cli.models.source_kinds import HubFileSource, HubSource, LocalSource, Source, WheelSource
from specextend_cli.models.store import Progress, silent

_Converted: TypeAlias = WheelSource | HubFileSource | GgufFile
_WHEEL_CONVERSION, _GGUF_CONVERSION = 3, 5
"""Part of the key of converted models: raise it when the converted files of published wheels, or of others, change."""


@dataclass(frozen=True, slots=True)
class ModelDirectories:
    """Directories of a preset's models; `draft` is None where the drafter needs no model."""

    target: Path
    draft: Path | None


def fetch_pair(
    preset: Preset, *, offline: bool = False, progress: Progress = silent, verify: bool = False
) -> ModelDirectories:
    """Both models of a preset, fetched where they are not on this machine. Errors and `verify` as `fetch`."""
    check_prompts(preset)
    get = partial(fetch, name=preset.name, offline=offline, progress=progress, verify=verify)
    target, draft = get(preset.target.source), preset.draft.source
    return ModelDirectories(target, None if draft is None else get(draft, tokenizer=False))


def check_prompts(preset: Preset) -> None:
    """ModelError where neither the preset nor its GGUF file says what prompts look like: converting it takes long."""
    source = preset.target.source
    if isinstance(source, GgufFile) and preset.prompts.chat_template is None and locate(source) is None:
        from specextend_cli.models.gguf.convert import read_gguf

        if not read_gguf(gguf_file(source))[0].facts.get("tokenizer.chat_template"):
            raise no_chat_template(gguf_file(source).name, str(source))


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
    """The model's directory, fetched (and converted) unless it is on this machine.

    `name` is the preset's, for the commands that errors suggest. HF_HUB_OFFLINE counts as `offline`. `verify` also
    checks the contents of converted files, and rebuilds damaged ones. `tokenizer` says whether one is needed; drafts
    need none. ModelError: it cannot be obtained, and why; FitError: the disk is too full.
    """
    offline = offline or offline_by_environment()
    if isinstance(source, LocalSource):
        return _local(source, tokenizer)
    if isinstance(source, HubSource):
        return hub.obtain(source, name=name, offline=offline, tokenizer=tokenizer, progress=progress)
    return _converted(source, name=name, offline=offline, progress=progress, verify=verify)


def locate(source: Source, *, tokenizer: bool = True) -> Path | None:
    """The model's directory if it is complete on this machine, else None. `tokenizer` as in `fetch`."""
    if isinstance(source, LocalSource):
        return source.path if hub.complete(source.path, tokenizer=tokenizer) else None
    if isinstance(source, HubSource):
        return hub.cached(source, tokenizer=tokenizer)
    directories = _directories(source)
    return directories[0] if directories and store.problem(directories[0]) is None else None


def remove(source: Source) -> int:
    """Delete the model from this program's cache and the Hub's; returns the bytes freed.

    Local models, GGUF files, ollama's store and installed wheels are the user's, and are not deleted.
    """
    if isinstance(source, HubSource):
        return hub.remove(source)
    fetched = hub_file.remove(source) if isinstance(source, HubFileSource) else 0
    return 0 if isinstance(source, LocalSource) else fetched + sum(map(store.remove, _directories(source)))


def size_on_disk(source: Source) -> int:
    """Bytes that the model occupies on this machine."""
    if isinstance(source, HubSource):
        return hub.size_on_disk(source)
    fetched = hub_file.size_on_disk(source) if isinstance(source, HubFileSource) else 0
    directories = [source.path] if isinstance(source, LocalSource) else _directories(source)
    return fetched + sum(map(store.size_on_disk, directories))


def _directories(source: _Converted) -> list[Path]:
    """The converted model's, and that of a wheel's file; none where the file that was converted is gone."""
    try:
        found = [converted_directory(source)]
    except ModelError:
        return []
    return [*found, pypi_source.download_directory(source)] if isinstance(source, WheelSource) else found


def converted_directory(source: _Converted) -> Path:
    """The directory of a model after conversion; ModelError where its file is gone."""
    if isinstance(source, WheelSource):
        name = f"{source.package}-{source.version}-{source.sha256[:12]}-bf16-{_WHEEL_CONVERSION}"
    elif isinstance(source, HubFileSource):
        name = f"{simple_name(Path(source.file).stem)[:60]}-{source.sha256[:12]}-bf16-{_GGUF_CONVERSION}"
    else:
        name = f"{converted_name(source)}-bf16-{_GGUF_CONVERSION}"
    return store.cache_root() / "models" / name


def offline_by_environment() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, to a value that huggingface_hub takes for yes."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in names)


def _converted(source: _Converted, *, name: str, offline: bool, progress: Progress, verify: bool) -> Path:
    directory = converted_directory(source)
    if (damage := store.problem(directory, verify=verify)) is None:
        return directory
    if directory.exists():
        progress(f"rebuilding the converted model: {damage}", 0, 0)
    from specextend_cli.models.gguf.convert import convert, converted_size

    # A wheel is fetched inside the build, under its lock: a second process waits here instead of fetching it as well.
    if isinstance(source, WheelSource):
        get = partial(pypi_source.obtain, source, name=name, offline=offline, progress=progress)
        need = 4 * source.file_bytes  # bf16 takes at most 16/4.5 times the space of the 4-bit formats
    else:
        if isinstance(source, HubFileSource):
            if hub_file.cached(source) is None:  # before minutes of fetching: the file and its conversion
                store.check_space(directory, 5 * source.file_bytes)
            file = hub_file.obtain(source, name=name, offline=offline, progress=progress)
        else:
            file = gguf_file(source)
        get, need = partial(Path, file), converted_size(file)

    def fill(into: Path) -> None:
        convert(get(), into, progress=progress)

    store.build(directory, fill, need=need, verify=verify, progress=progress)
    if isinstance(source, WheelSource):
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
