"""Table 8 of the paper: working cache, chunk, frequency and recent tokens, one at a time; and chunks of sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from specextend_cli.bench.experiments.study import Measurements, Setting, Study, by_method
from specextend_cli.bench.overview import Columns
from specextend_cli.bench.tables import LinePlot, Point, Table
from specextend_cli.engine.config import Retrieval

SIZES = (4, 8, 16, 32, 64, 128)
CHUNKS = (1, 4, 8, 16, 32, 64, 128)
EVERY = (1, 2, 4, 8, 16, 32, 0)
RECENT = (16, 32, 64, 128, 256)


def _choices(setting: Setting) -> dict[str, dict[str, Retrieval]]:
    """By parameter and label; all other settings are the preset's. A working set keeps its size when chunks change."""
    base = setting.models.under("retrieval")
    budget, ends = base.top_k * base.chunk, setting.models.encoder.sentence_ends
    cut = {chunk: replace(base, chunk=chunk, top_k=budget // chunk) for chunk in CHUNKS if chunk <= budget}
    return {
        "working cache": {f"{size} chunks": replace(base, top_k=size) for size in SIZES},
        "chunk": {f"{chunk} tokens": made for chunk, made in cut.items()},
        "sentences": {f"up to {n} tokens": replace(made, breaks=ends) for n, made in cut.items() if n >= 16},
        "frequency": {f"every {n} steps" if n else "once": replace(base, every=n) for n in EVERY},
        "recent": {f"{recent} tokens": replace(base, recent=recent) for recent in RECENT},
    }


def _methods(setting: Setting) -> dict[str, Retrieval]:
    return {
        f"{parameter} {label}": retrieval
        for parameter, values in _choices(setting).items()
        for label, retrieval in values.items()
    }


def _table(found: Measurements, parameter: str, values: Mapping[str, Retrieval]) -> Table:
    labels = {f"{parameter} {label}": label for label in values}
    columns: Columns = {
        parameter: lambda row: labels[row.method],
        "working set (tokens)": lambda row: values[labels[row.method]].size,
    }
    rows = [row for row in found.rows if row.method in labels]
    return by_method(f"{parameter.capitalize()} (Table 8)", rows, what=parameter, columns=columns)


def _plots(setting: Setting, found: Measurements) -> Iterator[LinePlot]:
    sizes = {method: retrieval.size for method, retrieval in _methods(setting).items() if "cache" in method}
    lines = {
        f"{length:,} tokens": [
            Point(sizes[row.method], row.accepted.value, row.accepted.low, row.accepted.high)
            for row in found.rows
            if row.length == length and row.method in sizes and row.accepted is not None
        ]
        for length in setting.lengths
    }
    yield LinePlot("Accepted length by working set", "working set (tokens)", "tokens per verification step", lines)


STUDY = Study(
    "How sensitive is retrieval to its settings?",
    measure=lambda setting: setting.measure(
        {name: setting.models.recipe(setting.models.attending, made) for name, made in _methods(setting).items()}
    ),
    tables=lambda setting, found: [_table(found, *choice) for choice in _choices(setting).items()],
    plots=_plots,
)
