"""What a user may choose instead of a preset's own engine settings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from specextend_cli.errors import UsageError


@dataclass(frozen=True)
class EngineOptions:
    """What the user may ask for instead of the preset's own settings; None keeps them. `head` see `with_head`.

    `compile`: on processors, decoding runs compiled layers (see `compiling`).
    """

    draft: str | None = None
    head: str | None = None
    policy: str | None = None
    temperature: float | None = None
    seed: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    compile: bool = True

    def __post_init__(self) -> None:
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UsageError(f"--temperature {self.temperature} is no temperature", fix="0, which is greedy, or more")
