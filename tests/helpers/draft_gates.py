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
    """A gate that is open for five of `every` steps: what is committed meanwhile waits for the next draft."""

    every = 80

    def next_shape(self, length: int) -> TreeShape:
        self.asked = getattr(self, "asked", 0) + 1
        return self.shape if self.asked % self.every < 5 else TreeShape(nodes=1)
