"""Which preset runs where no model was named: a pure function of the machine, the presets and the user's configuration.

Presets that write are tried by rank (`Preset.rank`: the most faithful class first, in it the largest). The first that
fits the memory that is free, and on processors reads and writes the document within `LIMIT`, is taken if it is on disk;
the first such one that is not can be offered. Where none is taken, no model runs: documents are quoted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple, TypeAlias

from specextend_cli.humanize import format_bytes, format_seconds
from specextend_cli.models.preset import Preset
from specextend_cli.models.shape import HEADROOM

LIMIT = 600.0
"""Seconds that reading and writing a document may take on a processor."""
USUAL_TOKENS = 12_000
"""Tokens of a document that is not known yet: some twenty pages."""
BANDWIDTH = 20e9
"""Bytes of weights that a processor reads in a second as it decodes: of two cores, and of a laptop's memory."""
_READ_TOGETHER = 10  # tokens of a prompt in the time of one that is written
_FRAME = 200  # tokens of a prompt around its part of the document
_WRITTEN = 0.8  # of the tokens that a text has room for: how many it usually has

Device: TypeAlias = Literal["cuda", "mps", "cpu"]
Obstacle: TypeAlias = Literal[
    "too large",
    "too slow",
    "gated",
    "for NVIDIA GPUs",
    "for GPUs",
    "lacking a package",
    "of unknown size",
]
Reason: TypeAlias = Literal["named", "none asked", "configured", "on disk", "none fits"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The device that would run a model, and bytes of its memory that are free.

    `has_bfloat16`: whether it multiplies such numbers; else they take twice the memory.
    """

    device: Device
    free: int
    has_bfloat16: bool = True

    def holds(self, need: int) -> bool:
        """Whether so many bytes fit what is free, leaving headroom."""
        return need <= HEADROOM * self.free


class Passed(NamedTuple):
    """A preset that would have been preferred, why it does not run, and by how much."""

    name: str
    why: Obstacle
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name} is {self.why}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A preset that writes. None: not known.

    `need` is bytes of memory, `fetch` bytes to download. On a processor, a document of so many `tokens` takes `seconds`
    and is written at `rate` tokens a second. `gated`: its owner has to be asked first, and nobody is logged in.
    `hindrance`: what keeps it from this machine whatever its size.
    """

    name: str
    rank: int
    need: int | None
    is_present: bool
    fetch: int | None = None
    gated: bool = False
    hindrance: Passed | None = None
    tokens: int = USUAL_TOKENS
    seconds: float | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The preset that writes, None where none does, and why; `offer` is the best one that could be fetched.

    `hindered` is the first that is on disk and cannot be taken.
    """

    preset: str | None
    reason: Reason
    offer: Candidate | None = None
    hindered: Passed | None = None


def choose(machine: Machine, candidates: Sequence[Candidate], configured: str | None = None) -> Choice:
    """The preset for this machine; `configured` is what the user's configuration names."""
    if configured is not None:
        return Choice(configured, "configured")
    offer: Candidate | None = None
    hindered: Passed | None = None
    for one in sorted(candidates, key=lambda one: (one.rank, not one.is_present, one.name)):
        why = obstacle(machine, one)
        if why is None and one.is_present:
            return Choice(one.name, "on disk")
        if why is None and offer is None:
            offer = one
        if why is not None and one.is_present:
            hindered = hindered or why
    return Choice(None, "none fits", offer, hindered)


def obstacle(machine: Machine, one: Candidate) -> Passed | None:
    """Why a preset cannot be taken on this machine, on disk or not; None where it can."""
    if one.need is None:
        return Passed(one.name, "of unknown size")
    if one.hindrance is not None:
        return one.hindrance
    if not machine.holds(one.need):
        return Passed(one.name, "too large", f"{format_bytes(one.need)} of {format_bytes(machine.free)} free")
    if machine.device == "cpu" and one.seconds is not None and one.seconds > LIMIT:
        return Passed(one.name, "too slow", f"about {format_seconds(one.seconds)} for {one.tokens:,} tokens")
    if one.gated and not one.is_present:
        return Passed(one.name, "gated", "accept its licence, then: hf auth login")
    return None


def expected_rates(weight_bytes: int) -> tuple[float, float]:
    """Seconds for a token read and for one written, on a processor that did not run the model before."""
    written = weight_bytes / BANDWIDTH
    return written / _READ_TOGETHER, written


def expected_seconds(preset: Preset, tokens: int, read: float, written: float) -> float:
    """Seconds that a document of so many tokens takes, where a token read and one written take `read` and `written`."""
    window = preset.window
    prompts = ceil(tokens / window.chunk)
    notes = _WRITTEN * window.chunk_summary_tokens * prompts if prompts > 1 else 0.0
    answer = _WRITTEN * window.summary_tokens
    return (tokens + prompts * _FRAME + notes) * read + (notes + answer) * written
