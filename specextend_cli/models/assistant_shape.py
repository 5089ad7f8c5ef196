"""The size of an assistant model (Gemma 4), and which directories hold one."""

from __future__ import annotations

from math import prod
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from specextend_cli.models.checkpoint import read_header, read_object, weight_files

KINDS = ("gemma4_assistant", "gemma4_unified_assistant")
"""Values of `model_type`."""


class AssistantShape(BaseModel):
    """`parameters`: its weights, embedding included. It has no keys of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    parameters: int = Field(gt=0)

    @classmethod
    def of(cls, directory: Path) -> AssistantShape:
        """Of an assistant on disk, by its tensors."""
        tensors = [entry for file in weight_files(directory) for entry in read_header(file).values()]
        return cls(parameters=max(sum(prod(entry.get("shape", ())) for entry in tensors), 1))

    def weight_bytes(self, item: int = 2) -> int:
        """Bytes of the weights, `item` bytes a number."""
        return self.parameters * item

    def kv_bytes_per_token(self, item: int = 2) -> int:
        """0: it attends to the target's keys."""
        return 0


def is_assistant(directory: Path) -> bool:
    """Whether the config.json there describes an assistant model."""
    try:
        return read_object(directory / "config.json").get("model_type") in KINDS
    except (OSError, ValueError):
        return False
