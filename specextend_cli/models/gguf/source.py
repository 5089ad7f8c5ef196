"""GGUF files on this machine: where they are, and what their conversions are called."""

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


def gguf_file(source: GgufFile) -> Path:
    """The file, the first of several where it is split. ModelError: there is none."""
    if isinstance(source, OllamaSource):
        return ollama.blob(source.name)
    if not source.path.is_file():
        raise ModelError(f"there is no file {source.path}", fix="correct the path of the model")
    return source.path


def converted_name(source: GgufFile) -> str:
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
