"""Finding, fetching, removing and sizing models, whatever the kind of their source.

Every path returned is a directory in transformers' layout; of a model in a GGUF file it holds everything but the
weights, and names that file. `locate` never uses the network.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from specextend_cli.errors import ModelError
from specextend_cli.models import hub, pypi_source, store
from specextend_cli.models.chat_template import no_chat_template
from specextend_cli.models.checkpoint import GGUF_NAME, is_complete, named_gguf
from specextend_cli.models.gguf.source import GgufFile, gguf_file, plain_name, simple_name
from specextend_cli.models.preset import Preset
from specextend_cli.models.source_kinds import HubFileSource, HubSource, LocalSource, Source, WheelSource
from specextend_cli.models.store import Progress, silent

_InGguf: TypeAlias = WheelSource | HubFileSource | GgufFile
_SUFFIX = "-settings-1"
"""Of the name of directories of settings: another one when what is computed of a GGUF file changes."""
_CONVERTED = re.compile(r".+-bf16-\d+")
_ROOM = 32 << 20  # bytes for the settings of a large vocabulary


@dataclass(frozen=True, slots=True)
class ModelDirectories:
    """Directories of a preset's models; `draft` is None where the drafter needs no model."""

    target: Path
    draft: Path | None = None


def fetch_pair(
    preset: Preset, *, offline: bool = False, progress: Progress = silent, verify: bool = False
) -> ModelDirectories:
    """Both models of a preset, fetched where they are not on this machine. Errors and `verify` as `fetch`."""
    check_prompts(preset)
    get = partial(fetch, name=preset.name, offline=offline, progress=progress, verify=verify)
    target, *draft = map(get, preset.sources)
    return ModelDirectories(target, *draft)


def check_prompts(preset: Preset) -> None:
    """ModelError where neither the preset nor its GGUF file says what prompts look like, before anything is written."""
    source = preset.target.source
    if isinstance(source, GgufFile) and preset.prompts.chat_template is None and locate(source) is None:
        from specextend_cli.models.gguf.settings import read_gguf

        if not read_gguf(gguf_file(source))[0].facts.get("tokenizer.chat_template"):
            raise no_chat_template(gguf_file(source).name, str(source))


def is_present(preset: Preset) -> bool:
    """Whether both models of a preset are complete on this machine."""
    return all(locate(source) is not None for source in preset.sources)


def fetch(
    source: Source,
    *,
    name: str = "NAME",
    offline: bool = False,
    progress: Progress = silent,
    verify: bool = False,
) -> Path:
    """The model's directory, fetched unless it is on this machine.

    `name` is the preset's, for the commands that errors suggest. HF_HUB_OFFLINE counts as `offline`. `verify` also
    checks the sum of a GGUF file that is on disk, and makes its settings anew. ModelError: it cannot be obtained, and
    why; FitError: the disk is too full.
    """
    offline = offline or offline_by_environment()
    again = verify and isinstance(source, _InGguf)
    if not again and (found := locate(source)) is not None:
        return found
    if isinstance(source, LocalSource):
        raise ModelError(
            f"there is no complete model in {source.path}",
            why="it lacks config.json or model.safetensors",
            fix="correct the path, or save the model there as it was published, with all of these",
        )
    if not isinstance(source, HubSource):
        return _with_settings(source, name=name, offline=offline, progress=progress, again=again)
    if offline:
        raise store.offline_error(source, name)
    return hub.obtain(source, name=name, progress=progress)


def locate(source: Source) -> Path | None:
    """The model's directory if it is complete on this machine, else None."""
    if isinstance(source, LocalSource):
        return source.path if is_complete(source.path) else None
    if isinstance(source, HubSource):
        return hub.cached(source)
    try:
        directory = settings_directory(source)
        file = named_gguf(directory)
        if file is None:
            return None
        if isinstance(source, GgufFile):
            return directory if file == gguf_file(source).absolute() else None
        return directory if file.is_file() and file.stat().st_size == source.file_bytes else None
    except (ModelError, OSError, UnicodeDecodeError):
        return None


def remove(source: Source) -> int:
    """Delete the model from this program's cache and the Hub's; returns the bytes freed.

    Local models, GGUF files, ollama's store and installed wheels are the user's, and are not deleted.
    """
    if isinstance(source, LocalSource):
        return 0
    fetched = hub.remove(source) if isinstance(source, hub.OnHub) else 0
    return fetched + sum(map(store.remove, _directories(source)))


def size_on_disk(source: Source) -> int:
    """Bytes that the model occupies on this machine."""
    fetched = hub.size_on_disk(source) if isinstance(source, hub.OnHub) else 0
    return fetched + sum(map(store.size_on_disk, _directories(source)))


def _directories(source: Source) -> list[Path]:
    """A local model's directory, or what this program wrote of a GGUF file; none where the user's file is gone."""
    if isinstance(source, LocalSource):
        return [source.path]
    if isinstance(source, HubSource):
        return []
    try:
        own = settings_directory(source)
    except ModelError:
        return []
    return [own, *([pypi_source.download_directory(source)] if isinstance(source, WheelSource) else [])]


def conversions() -> list[Path]:
    """Directories into which earlier versions converted GGUF files; nothing reads them any more."""
    return sorted(path for path in (store.cache_root() / "models").glob("*-bf16-*") if _CONVERTED.fullmatch(path.name))


def settings_directory(source: _InGguf) -> Path:
    """The directory of a GGUF file's settings, whether it exists or not; ModelError where the user's file is gone."""
    if isinstance(source, GgufFile):
        status = gguf_file(source).stat()  # hashing all of it would take longer than loading the model
        name, version = plain_name(source), f"{status.st_size:x}-{status.st_mtime_ns:x}"
    else:
        name, version = simple_name(Path(source.file).stem), source.sha256[:12]
    return store.cache_root() / "models" / f"{name[:60]}-{version}{_SUFFIX}"


def offline_by_environment() -> bool:
    """Whether HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, to a value that huggingface_hub takes for yes."""
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"} for name in names)


def obtain_gguf(source: _InGguf, *, name: str, offline: bool = False, progress: Progress = silent) -> Path:
    """The GGUF file of a source, its sum checked, fetched where it is not on this machine; as `fetch`."""
    if isinstance(source, WheelSource):
        return pypi_source.obtain(source, name=name, offline=offline, progress=progress)
    if isinstance(source, HubFileSource):
        if offline and hub.cached_file(source) is None:
            raise store.offline_error(source, name)
        return hub.obtain_file(source, name=name, progress=progress)
    return gguf_file(source)


def _with_settings(source: _InGguf, *, name: str, offline: bool, progress: Progress, again: bool) -> Path:
    from specextend_cli.models.gguf.settings import write_settings

    file = obtain_gguf(source, name=name, offline=offline, progress=progress).absolute()
    directory = settings_directory(source)
    if again:
        store.remove(directory)
    if not directory.is_dir():
        progress(f"reading {file.name}", 0, 0)
        store.build(directory, partial(write_settings, file), need=_ROOM, progress=progress)
    if named_gguf(directory) != file:
        with store.full_disk_is_a_fit_error(directory):
            store.write_whole(directory / GGUF_NAME, str(file))
    return directory
