"""Files of weights: which there are, and whether they are whole. Needs neither torch nor the network."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from specextend_cli.errors import ModelError

FORMATS = (("model", ".safetensors"), ("pytorch_model", ".bin"))  # in order of preference


def weight_files(directory: Path) -> list[Path]:
    """The files of a directory's weights, safetensors preferred; none when one is missing or their index is broken."""
    for stem, suffix in FORMATS:
        single, index = directory / f"{stem}{suffix}", directory / f"{stem}{suffix}.index.json"
        if index.is_file():
            try:
                names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            except (ValueError, LookupError, TypeError):
                return []
            files = sorted({directory / name for name in names})
        else:
            files = [single]
        if all(file.is_file() for file in files):
            return files
    return []


def check_safetensors(file: Path, *, name: str = "NAME") -> None:
    """Compare the file's size with what its header promises, without reading the weights; ModelError where it lies."""
    size = file.stat().st_size
    try:
        with file.open("rb") as opened:
            (length,) = struct.unpack("<Q", opened.read(8))
            if length > size:
                raise ValueError("its header is cut off")
            header = json.loads(opened.read(length))
        ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
    except (struct.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise damaged(file, f"{file.name} is no safetensors file: {error}", name) from error
    if (expected := 8 + length + max(ends, default=0)) != size:
        raise damaged(file, f"{file.name} has {size:,} bytes instead of {expected:,}", name)


def damaged(path: Path, why: str, name: str) -> ModelError:
    """The error that says so; `name` as in `check_safetensors`."""
    return ModelError(
        f"the weights in {path} are damaged",
        why=why,
        fix=f"specextend models rm {name} && specextend models pull {name}" if name else "save or copy it there again",
    )
