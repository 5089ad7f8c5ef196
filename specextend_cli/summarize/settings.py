"""One summary's settings: what a preset and a request come to."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from specextend_cli.models.preset import Preset
from specextend_cli.summarize.request import FORMS, SHARE, WORDS_PER_TOKEN, Mode, SummaryRequest

_PART, LEAST = 1 / 3, 30
"""A short text's summary has that part of its words, but not fewer than `LEAST`."""


@dataclass(frozen=True)
class SummarySettings:
    """What the pipeline reads of both. `max_tokens`, if not None, bounds every generated text."""

    preset: Preset
    request: SummaryRequest
    max_tokens: int | None = None

    @property
    def mode(self) -> Mode:
        """The kind of summary."""
        return "abstractive" if self.request.needs_writing else self.request.mode or self.preset.mode

    @property
    def summary_parts(self) -> int:
        """The most prompts that write the summary: those of the preset, or as many as its words need."""
        most, usual, words = self.preset.window.summary_parts, self.usual_words(), self.words()
        if FORMS[self.request.style].whole:
            return 1
        # Each prompt asks for as much as it usually does: what is asked for in a few words becomes no text.
        return min(ceil(most * words / max(usual, 1)), most)

    @property
    def summary_tokens(self) -> int:
        """The most tokens of the summary."""
        return self.request.room(self.preset.window.summary_tokens)

    def words(self, size: int | None = None) -> int:
        """How many words the summary of a text of `size` words has; None: of any long one."""
        return self.request.words(self.usual_words(size))

    def bounded_words(self, size: int, tokens: int) -> int:
        """How many words the summary of a text of `size` words and `tokens` tokens has, within `max_tokens`."""
        words = self.words(size)
        return words if self.max_tokens is None else max(min(words, int(self.max_tokens * size / max(tokens, 1))), 1)

    def usual_words(self, size: int | None = None) -> int:
        """The same by default, whatever the request."""
        most = int(self.preset.window.summary_tokens * WORDS_PER_TOKEN * SHARE)
        return most if size is None else max(min(most, int(size * _PART)), LEAST)
