"""What a method is: a recipe for the engine, or another program over the same weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from specextend_cli.engine.config import Retrieval, TreeShape

if TYPE_CHECKING:
    from specextend_cli.bench.measure import Decoding, Run
    from specextend_cli.bench.models import Models
    from specextend_cli.engine.drafters import Drafter
    from specextend_cli.engine.target import Target

AUTO, REFERENCE = "auto", "reference"


@dataclass(frozen=True)
class Recipe:
    """A method of ours: its drafter and settings. `prefill` and `verify` name attention back ends."""

    drafter: Callable[[Target], Drafter]
    retrieval: Retrieval
    shape: TreeShape
    gate: bool = False
    prefill: str = AUTO
    verify: str = AUTO


class External(Protocol):
    """Another program over the same weights. Its prefill ends with its first token."""

    def run(self, prompt: Sequence[int], decoding: Decoding) -> Run:
        """Continue the prompt. SpecextendError if it cannot."""

    def close(self) -> None:
        """Free its memory."""


Method: TypeAlias = Recipe | External


def with_policy(models: Models, policy: str, **changes: object) -> Retrieval:
    """The preset's retrieval under another policy."""
    return replace(models.retrieval, policy=policy, **changes)  # type: ignore[arg-type]
