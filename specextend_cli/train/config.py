"""Options of a run: how the target is asked, how long is trained, and what a whole run makes of what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from specextend_cli.engine.config import Sampling

Architecture: TypeAlias = Literal["eagle3", "dflash"]


@dataclass(frozen=True)
class AnswerOptions:
    """How the target is asked for answers, several `copies` to each prompt.

    The first copy is decoded by `sampling`, as in use; the others at `temperature`, for variety. At most `batch`
    answers are written at once, with at most `memory` bytes of cache.
    """

    new_tokens: int = 192
    copies: int = 4
    batch: int = 16
    memory: int = 4 << 30
    temperature: float = 0.7
    sampling: Sampling = field(default_factory=lambda: Sampling(repetition_penalty=1.05))
    seed: int = 0


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. `seconds` and `steps` (0: any number) bound the whole run, resumed parts included.

    The head is unrolled for at most `unroll` steps of training-time test. A step of the optimizer sums the gradients of
    `batch` groups of samples, of at most `rows` rows each (of a longer sample, a block of so many), at a `rate` that
    rises and falls. The head is measured every `validate` seconds, and `patience` measurements without a gain end the
    run; a checkpoint is written every `keep` seconds. A block head, which proposes `unroll` tokens at once, is trained
    on `anchors` blocks of a group.
    """

    seconds: float
    steps: int = 0
    unroll: int = 5
    batch: int = 4
    rate: float = 4e-4
    validate: float = 120.0
    keep: float = 30.0
    patience: int = 8
    rows: int = 1024
    anchors: int = 256
    seed: int = 0


@dataclass(frozen=True)
class Distillation:
    """The head to be trained, on what, in how much time.

    `schedule.seconds` is the time of the whole run; the share `answering` of it is spent on the target's answers, of
    which there are at most `answers`, besides the `held_out` ones that are never trained on. The share `text` of the
    samples is plain document text; the share `quotes` is copy samples, of which there are `quotations` different ones
    with answers of `quoted` tokens. `lengths` are the tokens of the excerpts asked about. With `init`, training
    continues from the EAGLE-3 head in that directory, whose vocabulary and layers are kept; a block head then begins
    with that head's first token. Answers are read from the file `archive` instead of asking, which then takes no time,
    or are written to it where it is missing. `architecture` "dflash" makes a block head of `block_layers` layers
    instead of an EAGLE-3 head.
    """

    schedule: Schedule
    asking: AnswerOptions = field(default_factory=AnswerOptions)
    vocabulary: int = 16384
    lengths: tuple[int, ...] = (512, 1024, 2048)
    answering: float = 0.4
    answers: int = 100_000
    held_out: int = 16
    text: float = 0.15
    quotes: float = 0.2
    quotations: int = 512
    quoted: int = 384
    init: Path | None = None
    archive: Path | None = None
    architecture: Architecture = "eagle3"
    block_layers: int = 2
