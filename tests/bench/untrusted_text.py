"""Text that means something to terminals, to HTML, to Markdown and to Rich; and what must not be left of it."""

from __future__ import annotations

from dataclasses import replace

from specextend_cli.bench.records import Benchmark, Divergence
from tests.bench.made_benchmark import MACHINE, benchmark, record

UNTRUSTED = "[red]x[/red]<script>alert(1)</script>\x1b[31m\x9b2J\x00\u2028\ud800|`'\"&\n# h"


def untrusted_benchmark() -> Benchmark:
    """Every text of it is hostile."""
    return benchmark(
        record(document=UNTRUSTED, text=UNTRUSTED),
        record(
            UNTRUSTED, UNTRUSTED, text=UNTRUSTED, decode_seconds=3.0, accepted=(3, 3, 3), divergence=Divergence(3, 0.5)
        ),
        preset=UNTRUSTED,
        settings={UNTRUSTED: UNTRUSTED, "list": [UNTRUSTED]},
        machine=replace(MACHINE, processor=UNTRUSTED, device=UNTRUSTED, commit=UNTRUSTED),
        references={UNTRUSTED: UNTRUSTED},
        skipped={UNTRUSTED: UNTRUSTED},
    )


def controls(text: str) -> set[str]:
    """The characters in it that a terminal would obey, or that no encoding has."""
    return {character for character in text if not character.isprintable() and character != "\n"}
