"""A benchmark without a model: figures that a test can reckon by hand, and larger ones that look real."""

from __future__ import annotations

import random
from dataclasses import replace

from specextend_cli.bench.formats import Experiment
from specextend_cli.bench.report import charts, table
from specextend_cli.bench.results import Benchmark, Divergence, Record
from specextend_cli.bench.statistics import Measurements

MACHINE = {"device": "cpu", "processor": "Example CPU @ 2.0 GHz, 2 threads", "software": "specextend 0.1.0"}
UNTRUSTED = "[red]x[/red]<script>alert(1)</script>\x1b[31m\x9b2J\x00\u2028\ud800|`'\"&\n# h"
"""Text that means something to terminals, to HTML, to Markdown and to Rich."""


def controls(text: str) -> set[str]:
    """The characters in it that a terminal would obey, or that no encoding has."""
    return {character for character in text if not character.isprintable() and character != "\n"}


def record(method: str = "plain", document: str = "one", *, length: int = 1024, **values: object) -> Record:
    """Ten tokens: a second of prefill, then nine tokens at a second each."""
    defaults: dict[str, object] = {
        "repeat": 0,
        "tokens": tuple(range(10)),
        "prefill_seconds": 1.0,
        "decode_seconds": 9.0,
        "accepted": (1,) * 9,
        "nodes": (1,) * 9,
    }
    return Record(method=method, document=document, length=length, **{**defaults, **values})  # type: ignore[arg-type]


def benchmark(*records: Record, **values: object) -> Benchmark:
    """A benchmark of these records, with its table and plots."""
    found = Measurements(records, 7).rows
    experiment = Experiment("methods", "How do the methods compare?", (table(found),), charts(found))
    made = Benchmark("small", {"tokens": 10, "dtype": "bfloat16"}, MACHINE, 7, records, (experiment,))
    return replace(made, **values)  # type: ignore[arg-type]


def untrusted_benchmark() -> Benchmark:
    """Every text of it is hostile."""
    return benchmark(
        record(document=UNTRUSTED, text=UNTRUSTED),
        record(
            UNTRUSTED, UNTRUSTED, text=UNTRUSTED, decode_seconds=3.0, accepted=(3, 3, 3), divergence=Divergence(3, 0.5)
        ),
        preset=UNTRUSTED,
        settings={UNTRUSTED: UNTRUSTED, "list": [UNTRUSTED]},
        machine={"processor": UNTRUSTED},
        skipped={UNTRUSTED: UNTRUSTED},
    )


def realistic(*, lengths: tuple[int, ...] = (512, 1024)) -> Benchmark:
    """Methods whose figures behave as measured ones do; the longest prompts pass the trained window."""
    draw = random.Random(0)
    speeds = {"plain": 1.0, "standard": 1.5, "specextend": 2.1, "transformers": 0.8}
    records = []
    for length in lengths:
        for method, speed in speeds.items():
            for document in (f"report-{number}" for number in range(2)):
                drafts = method in ("standard", "specextend")
                accepted = tuple(draw.randint(1, 5) if drafts else 1 for _ in range(60))
                values = {"accepted": accepted, "nodes": tuple(3 * size for size in accepted), "scaled": length > 4096}
                seconds = 9.0 / speed * draw.uniform(0.93, 1.08)
                records.append(record(method, document, length=length, decode_seconds=seconds, **values))
    return benchmark(*records, skipped={"llama.cpp": "llama-cpp-python is not installed"})
