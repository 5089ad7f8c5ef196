"""Files of a checkpoint, read without trusting them: JSON of bounded size and depth, and which weights are complete.

Needs neither torch nor the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from specextend_cli.errors import ModelError, SpecextendError, cause

GGUF_NAME = "gguf.path"
"""A file that says where the weights are: a GGUF file of the user's, the Hub's cache's, or a wheel's."""
FORMATS = (("model", ".safetensors"), ("pytorch_model", ".bin"))  # in order of preference
_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
_LARGEST = 1 << 28  # bytes of JSON; the largest published vocabularies have 40 MB


def read_object(file: Path) -> dict[str, Any]:
    """The JSON object in that file. OSError; ValueError where it is no object, too large or nested too deeply."""
    if (size := file.stat().st_size) > _LARGEST:
        raise ValueError(f"{file.name} has {size:,} bytes, more than {_LARGEST:,}")
    return parse_object(file.read_text(encoding="utf-8"))


def parse_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in a text; ValueError as `read_object`."""
    data = from_json(text)  # to a limited depth: transformers copies configurations recursively
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    return data


def reason(error: Exception) -> str:
    """Why something was refused, in one line; of several problems that pydantic found, the first."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg'].removeprefix('Value error, ')}, not {first['input']!r:.60}"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, OSError):
        return cause(error)
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def usable(what: str, *, fix: str = "") -> Iterator[None]:
    """ModelError for what libraries raise of files that contradict themselves: anything but a lack of memory."""
    try:
        yield
    except SpecextendError:
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which is not imported here
            raise
        raise ModelError(what, why=reason(error)[:400], fix=fix) from error


def is_complete(directory: Path) -> bool:
    """Whether a directory has a configuration and every file of its weights, which are fetched last."""
    return (directory / "config.json").is_file() and bool(weight_files(directory))


def has_tokenizer(directory: Path) -> bool:
    """Whether a model's directory holds a vocabulary."""
    return any((directory / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))


def named_gguf(directory: Path) -> Path | None:
    """The GGUF file with the weights of a directory of settings (see `gguf/settings.py`); None for other models."""
    file = directory / GGUF_NAME
    return Path(file.read_text(encoding="utf-8")) if file.is_file() else None


def weight_files(directory: Path) -> list[Path]:
    """The weight files of a directory, safetensors preferred; none if one is missing or their index is invalid."""
    if (gguf := named_gguf(directory)) is not None:
        return [gguf] if gguf.is_file() else []
    for stem, suffix in FORMATS:
        single, index = directory / f"{stem}{suffix}", directory / f"{stem}{suffix}.index.json"
        files = [directory / name for name in _indexed(index, suffix)] if index.is_file() else [single]
        if files and all(file.is_file() for file in files):
            return files
    return []


def _indexed(index: Path, suffix: str) -> list[str]:
    """The file names in an index; none where it is invalid, or names anything but files beside it."""
    try:
        names = read_object(index)["weight_map"].values()
        # The index is not trusted: it must not name files outside the model's directory.
        if all(name.endswith(suffix) and Path(name).name == name for name in names):
            return sorted(set(names))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    return []


def checked_weights(directory: Path, name: str) -> dict[Path, dict[str, Any]]:
    """`weight_files`, each with the tensors of its header, none but for safetensors; `name` as in `damaged`.

    ModelError where a file differs from its header, or there are none.
    """
    files = weight_files(directory)
    if not files:
        raise damaged(directory, "a file of weights is missing", name)
    return {file: _read_header(file, name) if file.suffix == ".safetensors" else {} for file in files}


def _read_header(file: Path, name: str) -> dict[str, Any]:
    """The tensors of a safetensors file: name -> type, shape, offsets.

    ModelError where the header is invalid, or the file's size another one. The library's own reader imports numpy.
    """
    size = file.stat().st_size
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if length > min(size, _LONGEST_HEADER):
                raise ValueError("its header is cut off, or too long")
            header = parse_object(opened.read(length))
        header.pop("__metadata__", None)
        expected = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if expected != size:
            raise ValueError(f"it has {size:,} bytes instead of {expected:,}")
        return header
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged(file, f"{file.name} is no safetensors file: {error}", name) from error


def damaged(path: Path, why: str, name: str) -> ModelError:
    """The error for damaged weights; `name` is the preset's, "" for the user's own model."""
    return ModelError(
        f"the weights in {path} are damaged",
        why=why,
        fix=f"specextend models rm {name} && specextend models pull {name}" if name else "save or copy it there again",
    )
