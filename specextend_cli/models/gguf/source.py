"""GGUF files on this machine: where they are, and what their settings are called."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TypeAlias

from specextend_cli.errors import ModelError, cause
from specextend_cli.models import ollama
from specextend_cli.models.source_kinds import GgufSource, OllamaSource

GgufFile: TypeAlias = GgufSource | OllamaSource
_SAMPLE = 1 << 16  # bytes at each end
_MOST_PARTS = 1 << 10  # files
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


def gguf_file(source: GgufFile) -> Path:
    """The file, the first of several where it is split. ModelError: there is none."""
    if isinstance(source, OllamaSource):
        return ollama.blob(source.name)
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


def file_name(source: GgufFile) -> str:
    """A name that is another one when the file is, by its size, time and both ends; ModelError: it is gone.

    Hashing all of it would take longer than loading the model.
    """
    file = gguf_file(source)
    try:
        status = file.stat()
        with file.open("rb") as opened:
            ends = opened.read(_SAMPLE)
            opened.seek(max(0, status.st_size - _SAMPLE))
            ends += opened.read(_SAMPLE)
    except OSError as error:
        raise ModelError(f"cannot read {file}", why=cause(error)) from error
    facts = json.dumps([status.st_size, status.st_mtime_ns, hashlib.sha256(ends).hexdigest()])
    return f"{plain_name(source)[:60]}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


def plain_name(source: GgufFile) -> str:
    """A name for presets and directories, of lower-case letters, digits, dots and dashes."""
    return simple_name(source.name if isinstance(source, OllamaSource) else source.path.stem)


def simple_name(name: str) -> str:
    """A name in the same characters, for any other one."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "model"
