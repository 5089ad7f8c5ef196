"""Events of a training run."""

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
class Observing:
    """The target has read `done` of `total` answers on which a head of another kind begins as an EAGLE-3 head."""

    done: int
    total: int


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
    """A measurement on held-out answers: `agreement` with the target's most likely token, by depth.

    `accepted` estimates the mean accepted length of a chain as deep as the unroll, bonus included; `quoted` is the same
    on held-out copy samples, None without any. The estimate is teacher-forced: every depth is fed the answer's own
    tokens, not the head's drafts, and no tree is grown. The accepted length in use is near it, not equal to it.
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


TrainEvent: TypeAlias = Answering | VocabularyChosen | Observing | Resumed | Trained | Validated | Done
