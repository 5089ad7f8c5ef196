"""The footer that a summary in Markdown ends with: what was read, and what read it."""

from __future__ import annotations

import re

from specextend_cli import __version__
from specextend_cli.humanize import format_count
from specextend_cli.summarize.events import Method, Summary
from specextend_cli.ui.progress import format_coverage
from specextend_cli.ui.streams import sanitize

_MADE: dict[Method, str] = {
    "quoted": "Sentences of the source, chosen by {} (drafter: {})",
    "written": "Written by {} (drafter: {})",
    "lead": "The first sentences of the source, taken by {} (drafter: {})",
    "whole": "The source as it is, which is no longer than a summary: read",
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|])")


def format_footer(summary: Summary, span: tuple[int, int] | None = None) -> str:
    """A rule and two lines: the source with its coverage, and the preset with its drafter."""
    coverage = format_coverage(summary.coverage, span)
    made = _MADE[summary.method].format(escape(summary.preset), escape(summary.drafter))
    return (
        "\n---\n\n"
        f"*Source: {escape(summary.document)}, {format_count(summary.coverage.tokens)} tokens; {coverage}.*\n"
        f"*{made} with specextend {__version__}.*\n"
    )


def escape(text: str) -> str:
    """`text` as Markdown that shows exactly it."""
    return _SPECIAL.sub(r"\\\1", sanitize(text).replace("\n", " "))
