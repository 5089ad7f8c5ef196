"""The footer that a summary in Markdown ends with: what was read, and what read it."""

from __future__ import annotations

import re

from specextend_cli import __version__
from specextend_cli.figures import format_count
from specextend_cli.summarize.events import Summary
from specextend_cli.ui.progress import format_coverage
from specextend_cli.ui.streams import sanitize

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def format_footer(summary: Summary, span: tuple[int, int] | None = None) -> str:
    """A rule and two lines: the source with its coverage, and the preset with its drafter."""
    coverage = format_coverage(summary.coverage, span)
    made = "Sentences of the source, chosen by" if any(one.draft for one in summary.sentences) else "Written by"
    return (
        "\n---\n\n"
        f"*Source: {escape(summary.document)}, {format_count(summary.coverage.tokens)} tokens; {coverage}.*\n"
        f"*{made} {escape(summary.preset)} (drafter: {escape(summary.drafter)}) with specextend {__version__}.*\n"
    )


def escape(text: str) -> str:
    """`text` as Markdown that shows exactly it."""
    return _SPECIAL.sub(r"\\\1", sanitize(text).replace("\n", " "))
