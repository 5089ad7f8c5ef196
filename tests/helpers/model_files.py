"""Changes of what lies in a model's directory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

Edit = Callable[[dict[str, Tensor]], object]


def change(directory: Path, **settings: Any) -> None:
    """Settings of config.json."""
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def change_text(directory: Path, **settings: Any) -> None:
    """Settings of config.json's text model."""
    text = json.loads((directory / "config.json").read_text())["text_config"]
    change(directory, text_config={**text, **settings})


def change_tensors(directory: Path, edit: Edit) -> None:
    """What `edit` does to the tensors by name."""
    file = directory / "model.safetensors"
    tensors = load_file(file)
    edit(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file, {"format": "pt"})
