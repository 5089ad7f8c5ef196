"""Files of weights: which there are, and whether they are whole. Needs neither torch nor the network."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from specextend_cli.errors import ModelError
from specextend_cli.models.json_file import parse_object, read_object

_LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
FORMATS = (("model", ".safetensors"), ("pytorch_model", ".bin"))  # in order of preference


def weight_files(directory: Path) -> list[Path]:
    """The files of a directory's weights, safetensors preferred; none when one is missing or their index is broken."""
    for stem, suffix in FORMATS:
        single, index = directory / f"{stem}{suffix}", directory / f"{stem}{suffix}.index.json"
        if index.is_file():
            files = [directory / name for name in _indexed(index, suffix)]
            if not files:
                return []
        else:
            files = [single]
        if all(file.is_file() for file in files):
            return files
    return []


def _indexed(index: Path, suffix: str) -> list[str]:
    """The file names in an index; none where it is broken, or names anything but files beside it."""
    try:
        names = read_object(index)["weight_map"].values()
        # An index comes with the model: it must not lead out of the model's directory.
        if all(name.endswith(suffix) and Path(name).name == name for name in names):
            return sorted(set(names))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        pass
    return []


def check_safetensors(file: Path, *, name: str = "NAME") -> None:
    """Compare the file's size with what its header promises, without reading the weights; ModelError where it lies."""
    size = file.stat().st_size
    header, length = _header(file, name)
    try:
        ends = [entry["data_offsets"][1] for entry in header.values()]
        expected = 8 + length + max(ends, default=0)
    except (LookupError, TypeError) as error:
        raise damaged(file, f"{file.name} is no safetensors file: {error}", name) from error
    if expected != size:
        raise damaged(file, f"{file.name} has {size:,} bytes instead of {expected:,}", name)


def read_header(file: Path, *, name: str = "NAME") -> dict[str, Any]:
    """The tensors of a safetensors file: name -> type, shape, offsets; ModelError where it is none."""
    return _header(file, name)[0]


def _header(file: Path, name: str) -> tuple[dict[str, Any], int]:
    """The header without metadata, and its length in bytes."""
    size = file.stat().st_size
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            if length > min(size, _LONGEST_HEADER):
                raise ValueError("its header is cut off, or longer than any")
            header = parse_object(opened.read(length))
        return {key: entry for key, entry in header.items() if key != "__metadata__"}, length
    except (struct.error, ValueError, AttributeError) as error:
        raise damaged(file, f"{file.name} is no safetensors file: {error}", name) from error


def damaged(path: Path, why: str, name: str) -> ModelError:
    """The error that says so; `name` as in `check_safetensors`."""
    return ModelError(
        f"the weights in {path} are damaged",
        why=why,
        fix=f"specextend models rm {name} && specextend models pull {name}" if name else "save or copy it there again",
    )
