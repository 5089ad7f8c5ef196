"""The events of the decoding loop, one stream for the panel, the JSON lines and the benchmark.

Times are wall-clock seconds. *Accepted length* is the number of tokens a verification step emits, bonus token
included, so that plain decoding has 1.0 (the paper's code leaves the bonus out).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

Reason: TypeAlias = Literal["eos", "length", "stop"]


@dataclass(frozen=True, slots=True)
class Prefilling:
    """`done` of `total` prompt tokens have been read; `seconds` since prefill began."""

    done: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The whole prompt of `tokens` tokens is in the target's cache (and in the drafter's)."""

    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Accepted:
    """Tokens committed by one step, in order.

    `nodes` is the size of the verified tree, its root included: 1 is plain decoding, 0 only for the first token, which
    comes from prefill. `length` is the committed sequence, prompt included, after the step.
    `plain_seconds` is what one plain step costs at this length by this run's own measurements (0.0: not known yet).
    In a batch of `batch_size` sequences, each step has its share of the forward's seconds.
    """

    tokens: tuple[int, ...]
    length: int
    nodes: int
    draft_seconds: float
    verify_seconds: float
    plain_seconds: float
    batch_size: int = 1

    @property
    def accepted(self) -> int:
        """Tokens this step emitted, bonus included."""
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The drafter's working set was chosen again: `positions` [m], ascending, of `length` committed ones.

    `attention` (no dimensions) is the share of the target's attention, at the last accepted token, on the set in use
    until now; at the first choice, on the new set. The tensors lie on the target's device, and whoever reads them waits
    for it.
    """

    attention: Tensor
    positions: Tensor
    length: int
    seconds: float

    @property
    def hit(self) -> float:
        """`attention` as a number, at most 1."""
        return min(float(self.attention), 1.0)


@dataclass(frozen=True, slots=True)
class DrafterFailed:
    """A drafter, or a source of a blend, has stopped drafting, for the reason `why`. The output does not change."""

    why: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Decoding ended after `tokens` new tokens."""

    reason: Reason
    tokens: int


Event: TypeAlias = Prefilling | Prefilled | Accepted | Retrieved | DrafterFailed | Finished
