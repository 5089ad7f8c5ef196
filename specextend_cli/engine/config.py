"""What a caller chooses: plain frozen data with derived facts as properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Policy: TypeAlias = Literal["full", "streaming", "retrieval"]
Positions: TypeAlias = Literal["compact", "absolute"]
AskedOf: TypeAlias = Literal["last", "accepted"]
PenaltyScope: TypeAlias = Literal["output", "all"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's logits become a token. Temperature 0 is greedy.

    Repetition penalty and n-gram blocking look back on `penalty_scope`: the `output` alone, or `all` of the sequence,
    prompt included, as transformers does. Summaries quote their source, so `output` is the default.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    penalty_scope: PenaltyScope = "output"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_at_least(self, temperature=0, top_k=0, no_repeat_ngram=0, seed=0)
        if not self.repetition_penalty > 0:
            raise ValueError(f"repetition_penalty must be above 0, not {self.repetition_penalty}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")
        if not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p must be between 0 and 1, not {self.min_p}")

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Bounds of a draft tree (OPT-Tree, arXiv 2406.17276; SpecExtend uses 50 nodes, depth 10, threshold 0.7).

    `nodes` counts the root; `width` is how many nodes one draft forward expands; growth stops at `depth`, or when
    one more level would raise the expected accepted length by less than `threshold` tokens. At most `forwards` draft
    forwards are run; with none, only sources that need no model have a say. Nodes of a score below `floor` are not
    worth looking for.
    """

    nodes: int = 32
    depth: int = 8
    width: int = 6
    threshold: float = 0.15
    forwards: int = 16
    floor: float = 0.0

    def __post_init__(self) -> None:
        _check_at_least(self, nodes=1, depth=0, width=1, threshold=0, forwards=0)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Which committed positions a drafter's attention may see (SpecExtend, section 4: cross-model retrieval).

    `full` shows all; `streaming` the first `sinks` and the newest tokens (StreamingLLM); `retrieval` the `top_k`
    chunks of `chunk` tokens that the target attends to most, with sinks and the newest `recent` tokens always there.
    Streaming and retrieval see the same number of tokens, `size`, so that they can be compared. With `breaks`, tokens
    that end sentences, chunks end behind those and are shorter, and there are more of them (see `Chunks`).

    Chosen anew every `every` verification steps (0: once, after prefill), or as soon after as the gate affords it (see
    `Budget`); `adaptive` chooses anew, besides, when the accepted length falls below its running mean. `positions`
    re-indexes the visible keys densely (`compact`, for heads trained on short inputs) or leaves them where they were
    (`absolute`). `layers` are those of the target whose attention is averaged (negative ones count from the last);
    `queries` whose it is: the `last` accepted token's (as in the paper), or the mean of all tokens `accepted` by the
    step.
    """

    policy: Policy = "retrieval"
    chunk: int = 32
    top_k: int = 32
    recent: int = 64
    sinks: int = 4
    every: int = 4
    adaptive: bool = False
    positions: Positions = "absolute"
    layers: tuple[int, ...] = (-1,)
    breaks: frozenset[int] = frozenset()
    queries: AskedOf = "last"

    def __post_init__(self) -> None:
        _check_at_least(self, chunk=1, top_k=0, recent=1, sinks=0, every=0)
        if not self.layers:
            raise ValueError("layers must name a layer at least")

    @property
    def size(self) -> int:
        """Tokens in a working set, right after it was chosen."""
        return self.sinks + self.top_k * self.chunk + self.recent

    @property
    def re_indexes(self) -> bool:
        """Whether visible keys are moved to dense positions."""
        return self.positions == "compact" and self.policy != "full"


def _check_at_least(config: object, **least: int) -> None:
    """ValueError where one of these fields is smaller."""
    for name, bound in least.items():
        if not getattr(config, name) >= bound:
            raise ValueError(f"{name} must be at least {bound}, not {getattr(config, name)}")
