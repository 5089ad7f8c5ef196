"""What will be done to a document, before any model is loaded: one pass, or parts and levels that shrink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specextend_cli.documents.chunk import chunk
from specextend_cli.documents.document import Chunk, Document
from specextend_cli.models.preset import Preset
from specextend_cli.models.tokens import TextEncoder
from specextend_cli.summarize.events import Plan


@dataclass(frozen=True, slots=True)
class Work:
    """A plan and the chunks it counts."""

    plan: Plan
    chunks: tuple[Chunk, ...]


def plan_work(document: Document, preset: Preset, encoder: TextEncoder) -> Work:
    """Chunks of at most the preset's size; their spans are the whole text, so no token is left out."""
    window = preset.window
    chunks = tuple(chunk(document, encoder.encode, window.chunk))
    sizes = tuple(piece.tokens for piece in chunks)
    texts, levels = len(chunks), 1
    while texts > window.summary_parts:
        texts = len(pack([window.note_tokens] * texts, window.chunk, window.summary_parts))
        levels += 1
    plan = Plan(document.name, len(document.pages) or 1, sum(sizes), sizes, levels, document.unit)
    return Work(plan, chunks)


def pack(sizes: Sequence[int], room: int, parts: int = 1) -> list[range]:
    """Consecutive groups of notes, about equally full: `parts` of them, or as many as `room` tokens each demand.

    Every group has at least two notes, so that a level always has fewer texts than the one before.
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
