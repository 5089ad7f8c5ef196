"""Gates that shut at steps of their own choice."""

from __future__ import annotations

from typing import Any

from specextend_cli.engine.config import TreeShape
from specextend_cli.engine.draft_gate import DraftGate


class Impatient(DraftGate):
    """Suspends models after the fourth step, and in every second sequence."""

    steps = sequences = 0

    def begin(self) -> bool:
        self.steps, self.sequences = 0, self.sequences + 1
        return self.sequences % 2 == 0

    def learn(self, *args: Any) -> bool:
        super().learn(*args)
        self.steps += 1
        return self.steps == 4


class Rarely(DraftGate):
    """A gate that is shut for 75 steps at a time: more tokens than a drafter reads at once afterwards."""

    def next_shape(self, length: int) -> TreeShape:
        self.asked = getattr(self, "asked", 0) + 1
        return self.shape if self.asked % 80 < 5 else TreeShape(nodes=1)
