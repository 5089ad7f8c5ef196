"""What runs: a model, on a device, with drafts; for `summarize` and `bench` alike."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from specextend_cli.engine.attention_backends import Attention
from specextend_cli.engine.config import Policy
from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_or

DRAFTING = ("draft", "draft_head", "draft_attention")
"""Options about drafts; with one, texts are decoded one after the other, not in batches."""
GENERATING = ("temperature", "seed", *DRAFTING)
"""Options that matter only where text is generated."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A model and how it runs. None keeps the preset's own setting.

    `model` is the name of a preset, the path of a .toml or .gguf file, or ollama:NAME; None: no model was chosen (then
    documents are quoted, and where somebody asks for more, the embedded model runs). `draft_head` is the directory of a
    head (see `with_head`), `draft_attention` full, streaming or retrieval. `offline`: nothing is fetched. `compile`: on
    processors, the models run by native code (see `runtime/runners.py`), which is compiled if it has to be. What is
    loaded already, by other options in the same process, is used in any case: it cannot be unloaded. `attention` is
    the back end of attention; auto: the fastest one that works.
    """

    model: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    draft: str | None = None
    draft_head: Path | None = None
    draft_attention: str | None = None
    temperature: float | None = None
    seed: int | None = None
    offline: bool = False
    compile: bool = True
    attention: Attention = "auto"

    @property
    def generating(self) -> list[str]:
        """The options that were chosen and matter only where text is generated, as flags."""
        return [f"--{name.replace('_', '-')}" for name in GENERATING if getattr(self, name) is not None]

    @property
    def decoding(self) -> dict[str, object]:
        """What the tokens that a model writes may depend on, besides the model."""
        return {name: value for name, value in asdict(self).items() if name not in ("model", "offline")}

    def __post_init__(self) -> None:
        for what, name, known in (
            ("drafter", self.draft, DRAFTERS),
            ("draft attention", self.draft_attention, get_args(Policy)),
            ("attention", self.attention, get_args(Attention)),
        ):
            if name is not None and name not in known:
                raise UsageError(f"there is no {what} {name!r}", fix=format_or(known))
        if self.temperature is not None and not 0 <= self.temperature < math.inf:
            raise UsageError(f"--temperature {self.temperature} is no temperature", fix="0, which is greedy, or more")
