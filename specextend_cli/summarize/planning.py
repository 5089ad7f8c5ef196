"""The plan of a summary, made before any model is loaded: chunks, levels and their expected work."""

from __future__ import annotations

from collections.abc import Sequence

from specextend_cli.documents.chunk import chunk
from specextend_cli.documents.document import Chunk, Document
from specextend_cli.summarize.events import LevelWork, Plan, Rates
from specextend_cli.summarize.prompt_builder import PromptBuilder
from specextend_cli.summarize.request import SummarySettings


def plan_work(
    document: Document, prompt_builder: PromptBuilder, settings: SummarySettings, rates: Rates | None = None
) -> tuple[Plan, tuple[Chunk, ...]]:
    """The plan, and chunks of at most the preset's size; their spans are the whole text, so no token is left out."""
    window, parts = settings.preset.window, settings.summary_parts
    chunks = tuple(chunk(document, prompt_builder.encoder.encode, window.chunk))
    sizes = tuple(piece.tokens for piece in chunks)
    counts = [len(chunks)]
    while counts[-1] > parts:
        counts.append(len(pack([window.chunk_summary_tokens] * counts[-1], window.chunk, parts)))
    # The expected work, if every answer takes its room.
    left, work = sum(sizes), list[LevelWork]()
    for level, prompts in enumerate(counts, 1):
        final = level == len(counts)
        answer = settings.summary_tokens // prompts if final else window.chunk_summary_tokens
        read = left + prompts * prompt_builder.overhead(template_of(level, final=final))
        left = min(answer * prompts, left)
        work.append(LevelWork(prompts, read, left))
    name, pages = document.name, len(document.pages) or 1
    return Plan(name, pages, sum(sizes), sizes, len(counts), document.unit, tuple(work), rates), chunks


def template_of(level: int, *, final: bool) -> str:
    """The template of the prompts of a level (see `PromptBuilder.prompt`)."""
    first, later = ("single", "reduce") if final else ("map", "merge")
    return first if level == 1 else later


def pack(sizes: Sequence[int], room: int, parts: int = 1) -> list[range]:
    """Consecutive groups of texts, about equally full: `parts` of them, or as many as `room` tokens each demand.

    Every group has at least two texts, so that a level always has fewer texts than the one before.
    """
    groups = max(min(max(-(-sum(sizes) // room), parts), len(sizes) // 2), 1)
    share = sum(sizes) / groups
    packed, start, filled = [], 0, 0
    for i, size in enumerate(sizes):
        if i - start >= 2 and len(sizes) - i >= 2 and (filled + size > room or filled + size / 2 > share):
            packed.append(range(start, i))
            start, filled = i, 0
        filled += size
    return [*packed, range(start, len(sizes))]
