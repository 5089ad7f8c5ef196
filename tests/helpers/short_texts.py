"""Prompts of few tokens, decoded with drafts and without."""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.documents.read import read
from specextend_cli.engine.decode import decode
from specextend_cli.engine.draft_gate import DraftGate
from specextend_cli.engine.drafters import Drafter, NoDrafter
from specextend_cli.engine.events import Accepted
from specextend_cli.engine.stop import Stop
from specextend_cli.summarize.writer import TextGenerator
from tests import ROOT

SAMPLE = ROOT / "docs" / "samples" / "flood-warning.pdf"
LENGTHS = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 100, 120, 126, 127, 128, 129, 140)


def _written(generator: TextGenerator, drafter: Drafter, prompt: list[int]) -> list[int]:
    stop = Stop(16 if generator.target.lm.runner.exact_rows else 5)
    events = decode(
        generator.target, drafter, prompt, stop=stop, gate=DraftGate(generator.draft_gate.shape, enabled=False)
    )
    return [token for event in events if isinstance(event, Accepted) for token in event.tokens]


def check_short_texts(generator: TextGenerator, lengths: Sequence[int]) -> None:
    """Prompts of these lengths from the sample get the same tokens with drafts and without."""
    tokens = generator.tokenizer.encode(read(SAMPLE).text[:4000]).ids
    for start, length in enumerate(lengths):
        prompt = tokens[7 * start : 7 * start + length]
        plain = _written(generator, NoDrafter(), prompt)
        assert _written(generator, generator.drafter, prompt) == plain, length
