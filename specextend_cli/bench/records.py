"""What a benchmark measured: one record a run, and what it ran on. Plain data, written and read as JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token that differs from plain decoding's.

    `gap` is the distance of the two largest logits there, where plain decoding saw them: rounding in half precision
    can turn a small one over, a wrong implementation turns over large ones. None where it was not computed.
    """

    index: int
    gap: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """One method, one prompt, one repeat.

    `length` is the prompt's tokens. `accepted` and `nodes` have one entry a verification step (bonus included, as
    everywhere; empty for peers that do not say). Seconds are wall clock: `prefill_seconds` until the first token,
    `decode_seconds` for the others. Of the latter, `draft_seconds`, `verify_seconds` and `retrieve_seconds` are known
    parts, and what is left is the host's. `hit` is the mean share of the target's attention that the draft could see,
    over `retrievals` choices of a working set.
    `peak_bytes` is the method's own peak of memory (resident on CPU, allocated on CUDA). `scaled` says that RoPE was
    stretched because the prompt passes the model's trained window.
    """

    method: str
    length: int
    document: str
    repeat: int
    tokens: tuple[int, ...]
    prefill_seconds: float
    decode_seconds: float
    accepted: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    retrieve_seconds: float = 0.0
    hit: float | None = None
    peak_bytes: int = 0
    scaled: bool = False
    text: str = ""
    divergence: Divergence | None = None
    retrievals: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures belong to."""

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
    """A whole run: how it was asked for (`settings`, JSON types only), where it ran, what came out.

    `references` maps a document to its human summary, where the data set has one. `skipped` maps a method to why it
    was left out (a peer that is not installed).
    """

    preset: str
    settings: dict[str, object]
    machine: Machine
    seed: int
    records: tuple[Record, ...]
    references: dict[str, str]
    skipped: dict[str, str]
