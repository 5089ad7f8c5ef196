"""What training tells its consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Answering:
    """`done` of `total` answers of the target are on disk; `tokens` were written in them."""

    done: int
    total: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class VocabularyChosen:
    """The draft's `size` tokens cover these shares of the target's held-out answers and of the documents."""

    size: int
    answers: float
    documents: float


@dataclass(frozen=True, slots=True)
class Resumed:
    """A checkpoint of an earlier run was found: `step` steps were done in `seconds`."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Trained:
    """One optimizer step, its loss the mean over depths. `share` of the run is done; `tokens` were read so far."""

    step: int
    share: float
    loss: float
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Validated:
    """On held-out answers: `agreement` with the target's likeliest token by depth, given the answer's own tokens.

    `quoted` is on held-out quotes, where there are some, what `accepted` is on answers: it estimates the mean accepted
    length of a chain as deep as the unroll, bonus included. It is teacher-forced: every depth is fed the answer's own
    tokens, where drafting would be fed what the head drafted before; and a run grows trees. What it accepts is near the
    estimate, not equal to it.
    """

    step: int
    agreement: tuple[float, ...]
    accepted: float
    quoted: float | None
    seconds: float
    best: bool


@dataclass(frozen=True, slots=True)
class Done:
    """Why training ended: its time or its steps are over, or it was no longer improving.

    `accepted` is the best estimate (see `Validated`).
    """

    reason: str
    step: int
    accepted: float


TrainEvent: TypeAlias = Answering | VocabularyChosen | Resumed | Trained | Validated | Done
