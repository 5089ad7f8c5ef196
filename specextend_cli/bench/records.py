"""What a benchmark measured: one record a run, and what it ran on. Plain data, written and read as JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field

from specextend_cli.errors import UsageError

PLAIN = "plain"  # plain decoding: the method that every other is compared with

Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Bounds of fields are checked when a file is read: statistics on impossible values would not fail, but be wrong."""

_LENGTH = re.compile(r"(\d+)\s*([kK]?)")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token that differs from plain decoding's.

    `gap` is the difference of plain decoding's two largest logits at that token: rounding in half precision can swap
    two close logits, a wrong implementation swaps distant ones. None where it was not computed.
    """

    index: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Run:
    """One output of one method, ours or another program's.

    `accepted` and `nodes`: one entry a verification step, bonus token included; empty for programs that do not report
    steps. Seconds are wall clock: `prefill_seconds` until the first token, `decode_seconds` for the rest;
    `draft_seconds`, `verify_seconds` and `retrieve_seconds` are parts of the latter. `hit`: mean share of the target's
    attention that falls on the working set, over `retrievals` choices.
    """

    tokens: tuple[int, ...]
    prefill_seconds: Seconds
    decode_seconds: Seconds
    accepted: tuple[Annotated[int, Field(ge=1)], ...] = ()
    nodes: tuple[int, ...] = ()
    draft_seconds: Seconds = 0.0
    verify_seconds: Seconds = 0.0
    retrieve_seconds: Seconds = 0.0
    hit: float | None = None
    retrievals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Run):
    """A run of one method on one prompt of `length` tokens, one repeat.

    `peak_bytes`: peak memory during the run (resident on CPU, allocated on CUDA). `scaled`: RoPE was stretched.
    """

    method: str
    length: Annotated[int, Field(ge=1)]
    document: str
    repeat: int
    peak_bytes: Annotated[int, Field(ge=0)] = 0
    scaled: bool = False
    text: str = ""
    divergence: Divergence | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware and software of a run."""

    processor: str
    device: str
    threads: int
    python: str
    torch: str
    transformers: str
    version: str
    commit: str | None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A whole run: `settings` (JSON types only), machine and records.

    `references` maps a document to its human summary, if the data set has one. `skipped` maps a method to the reason
    why it was left out.
    """

    preset: str
    settings: dict[str, object]
    machine: Machine
    seed: int
    records: tuple[Record, ...]
    references: dict[str, str]
    skipped: dict[str, str]


def parse_lengths(text: str) -> tuple[int, ...]:
    """`512,1k,16k` as ascending distinct token counts; k is 1,024. UsageError for anything else."""
    lengths = set()
    for part in map(str.strip, text.split(",")):
        found = _LENGTH.fullmatch(part)
        if found is None:
            raise UsageError(f"--len: {part!r} is no length", fix="for example --len 512,1k,16k")
        length = int(found[1]) * (1024 if found[2] else 1)
        if not 16 <= length <= 1 << 24:
            raise UsageError(f"--len: {part} tokens are too {'few' if length < 16 else 'many'} for a prompt")
        lengths.add(length)
    return tuple(sorted(lengths))


def format_length(length: int) -> str:
    """`16K`, or the number itself if it is no multiple of 1,024."""
    return f"{length // 1024}K" if length and length % 1024 == 0 else str(length)
