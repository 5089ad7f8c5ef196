"""The settings of decoding: sampling, the shape of draft trees, and what a drafter's attention sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Policy: TypeAlias = Literal["full", "streaming", "retrieval"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's logits become a token. Temperature 0 is greedy.

    Repetition penalty and n-gram blocking look back on the output alone, because summaries quote their source;
    transformers' include the prompt.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    no_repeat_ngram: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_at_least(self, temperature=0, no_repeat_ngram=0, seed=0)
        if not self.repetition_penalty > 0:
            raise ValueError(f"repetition_penalty must be above 0, not {self.repetition_penalty}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    @property
    def looks_back(self) -> bool:
        """Whether earlier tokens change the choice of the next one."""
        return self.repetition_penalty != 1.0 or self.no_repeat_ngram > 0

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Bounds of a draft tree (OPT-Tree, arXiv 2406.17276; SpecExtend uses 50 nodes, depth 10, threshold 0.7).

    `nodes` counts the root; one draft forward expands `width` nodes. Growth stops at `depth`, or when one more level
    would raise the expected accepted length by less than `threshold` tokens; on a device other than a processor, which
    the host would have to wait for, only at `depth`. At most `forwards` draft forwards are run;
    with none, only drafters without a model propose nodes. Nodes with a score below `floor` are not looked for.
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
    """Which committed positions a drafter's attention sees, its working set (SpecExtend, section 4).

    `full` shows all of them; `streaming` the first `sinks` and the newest tokens (StreamingLLM); `retrieval` the sinks,
    the newest `recent` tokens, and the `top_k` chunks of `chunk` tokens that the target attends to most. Streaming and
    retrieval show the same number of tokens, `size`, so that they can be compared.

    The set is chosen after prefill and, where it leaves anything out, again every `every` drafted steps (0: never), or
    as soon afterwards as the gate affords it (see `DraftGate`). `positions` re-indexes the visible keys densely
    (`compact`, for heads trained on short inputs) or keeps their positions (`absolute`). `layers` are the target's
    layers whose attention is averaged; those below 0 count from the last.
    """

    policy: Policy = "retrieval"
    chunk: int = 32
    top_k: int = 32
    recent: int = 64
    sinks: int = 4
    every: int = 4
    positions: Literal["compact", "absolute"] = "absolute"
    layers: tuple[int, ...] = (-1,)

    def __post_init__(self) -> None:
        _check_at_least(self, chunk=1, top_k=0, recent=1, sinks=0, every=0)
        if not self.layers:
            raise ValueError("layers must name a layer at least")

    @property
    def size(self) -> int:
        """Tokens in a working set right after it was chosen."""
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
