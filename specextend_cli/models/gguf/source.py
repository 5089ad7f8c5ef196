"""GGUF files on this machine, the user's and ollama's: where they are, and what their settings are called.

ollama's store is read, never written: `manifests/HOST/NAMESPACE/MODEL/TAG` is a JSON list of layers, and
`blobs/sha256-...` has their contents.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import read_object, usable
from specextend_cli.models.source_kinds import GgufSource, OllamaSource

GgufFile: TypeAlias = GgufSource | OllamaSource
_MOST_PARTS = 1 << 10  # files
_HOST, _NAMESPACE, _TAG = "registry.ollama.ai", "library", "latest"
_LAYER = "application/vnd.ollama.image."
_MOST_NAMES = 20  # models that are listed: each takes the time to read its file's head
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


def gguf_file(source: GgufFile) -> Path:
    """The file, the first of several where it is split. ModelError: there is none."""
    if isinstance(source, OllamaSource):
        return ollama_file(source.name)
    if not source.path.is_file():
        raise ModelError(f"there is no file {source.path}", fix="correct the path of the model")
    return source.path


def parts(file: Path) -> list[Path]:
    """The files of a model: one, or all into which it was split. FileNotFoundError; ValueError: not the first one."""
    if not (match := _PART.fullmatch(file.name)):
        return [file]
    stem, number, total = match[1], int(match[2]), int(match[3])
    if number != 1 or not 1 <= total <= _MOST_PARTS:
        raise ValueError(f"it is part {number} of {total}; name the first one, {stem}-00001-of-{match[3]}.gguf")
    found = [file.with_name(f"{stem}-{one:05}-of-{match[3]}.gguf") for one in range(1, total + 1)]
    if missing := [one.name for one in found if not one.is_file()]:
        raise FileNotFoundError(f"it is split, and {missing[0]} is not beside it")
    return found


def plain_name(source: GgufFile) -> str:
    """A name for presets and directories, of lower-case letters, digits, dots and dashes."""
    return simple_name(source.name if isinstance(source, OllamaSource) else source.path.stem)


def simple_name(name: str) -> str:
    """A name in the same characters, for any other one."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"


def ollama_file(name: str) -> Path:
    """The GGUF file of the model that ollama calls `name`: [HOST/][NAMESPACE/]MODEL[:TAG].

    ModelError: it is not in the store, incomplete, has an adapter, or is of another format.
    """
    folder = _store()
    layers = _layers(folder, name)
    kinds = [layer["mediaType"].removeprefix(_LAYER) for layer in layers]
    if "adapter" in kinds:
        raise _unusable(name, "it is a model with an adapter (LoRA), without which it would be another one")
    models = [layer for layer, kind in zip(layers, kinds, strict=True) if kind == "model"]
    if len(models) != 1:
        why = f"it has {len(models)} layers of the kind model, where a GGUF file is one: it has {', '.join(kinds)}"
        raise _unusable(name, why[:200])
    if not (match := _DIGEST.fullmatch(models[0]["digest"])):
        raise _unusable(name, "its manifest names no SHA-256 sum")
    file = folder / "blobs" / f"sha256-{match[1]}"
    if not file.is_file():
        raise ModelError(f"ollama's model {name} is incomplete", why=f"there is no {file}", fix=f"ollama pull {name}")
    return file


def ollama_names() -> list[str]:
    """The models in the store, as ollama calls them, the newest first; at most `_MOST_NAMES`."""
    manifests = _store() / "manifests"
    found: list[tuple[float, str]] = []
    with suppress(OSError):
        for file in islice(manifests.glob("*/*/*/*"), 50 * _MOST_NAMES):
            host, namespace, model, tag = file.relative_to(manifests).parts
            before = (
                [] if (host, namespace) == (_HOST, _NAMESPACE) else [namespace] if host == _HOST else [host, namespace]
            )
            name = "/".join([*before, model]) + ("" if tag == _TAG else f":{tag}")
            found.append((file.stat().st_mtime, name))
    return [name for _, name in sorted(found, reverse=True)][:_MOST_NAMES]


def _store() -> Path:
    # A server that runs as a system service has a store of its own, which only OLLAMA_MODELS tells.
    folder = os.environ.get("OLLAMA_MODELS") or "~/.ollama/models"
    return Path(os.path.expanduser(folder))  # noqa: PTH111 - unlike Path's, it raises nothing without a home


def _layers(folder: Path, name: str) -> list[dict[str, Any]]:
    path, _, tag = name.partition(":")
    *before, model = path.split("/")
    host, namespace = [_HOST, *before][-2:] if len(before) > 1 else [_HOST, *(before or [_NAMESPACE])]
    manifest = folder / "manifests" / host / namespace / model / (tag or _TAG)
    if not manifest.is_file():
        raise ModelError(
            f"ollama has no model {name}",
            why=f"there is no {manifest}",
            fix=f"ollama pull {name}, or set OLLAMA_MODELS to the directory of ollama's store",
        )
    with usable(f"cannot read {manifest}", fix=f"ollama pull {name}"):
        layers: list[dict[str, Any]] = read_object(manifest)["layers"]
        if not all(isinstance(layer["mediaType"], str) and isinstance(layer["digest"], str) for layer in layers):
            raise ValueError("its layers have no mediaType and digest")
    return layers


def _unusable(name: str, why: str) -> ModelError:
    return ModelError(f"ollama's model {name} cannot be used", why=why, fix="name one that is a single GGUF file")
