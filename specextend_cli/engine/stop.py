"""The end of decoding: an end token, the token limit, or a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specextend_cli.engine.events import Reason


@dataclass
class Stop:
    """Ends at an `eos` token, after `max_tokens`, or where `until(tokens)` says so.

    `until` gets each step's tokens and returns how many of them to keep, or None to go on. Its caller, who has the
    tokenizer, looks for stop strings.
    """

    max_tokens: int
    eos: frozenset[int] = frozenset()
    until: Callable[[Sequence[int]], int | None] | None = None
    count: int = field(default=0, init=False)

    def __call__(self, new: list[int]) -> tuple[list[int], Reason | None]:
        """The part of `new` that is emitted, the end token included, and why decoding ends there, or None."""
        new = new[: self.max_tokens - self.count]
        reason: Reason | None = "length" if self.count + len(new) == self.max_tokens else None
        at = next((i for i, token in enumerate(new) if token in self.eos), None)
        if at is not None:
            new, reason = new[: at + 1], "eos"
        kept = self.until(new) if self.until else None
        if kept is not None:
            new, reason = new[:kept], "stop"
        self.count += len(new)
        return new, reason
