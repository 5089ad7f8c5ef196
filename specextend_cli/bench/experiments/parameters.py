"""Table 8 of the paper (working cache, chunk, frequency, recent tokens, one at a time), and chunks of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from specextend_cli.bench.experiments.setting import COLUMNS, Run, Setting, changed, figures
from specextend_cli.bench.rows import Row
from specextend_cli.bench.tables import Experiment, LinePlot, Point, Series, Table
from specextend_cli.engine.config import Retrieval

_SIZES = (4, 8, 16, 32, 64, 128)
_CHUNKS = (1, 4, 8, 16, 32, 64, 128)
_EVERY = (1, 2, 4, 8, 16, 32, 0)
_RECENT = (16, 32, 64, 128, 256)


class _Choice(NamedTuple):
    """One value of one setting, all others being the preset's."""

    parameter: str
    label: str
    retrieval: Retrieval

    @property
    def name(self) -> str:
        return f"{self.parameter} {self.label}"


def run(setting: Setting) -> Run:
    """Every setting is swept with the others at the preset's values."""
    models = setting.models
    choices = tuple(_choices(changed(models.retrieval, policy="retrieval"), models.encoder.sentence_ends))
    found = yield from setting.measure({choice.name: setting.recipe(choice.retrieval) for choice in choices})
    rows = {(row.method, row.length): row for row in found.rows}
    tables = []
    for parameter in dict.fromkeys(choice.parameter for choice in choices):
        header = ("prompt (tokens)", parameter, "working set (tokens)", *COLUMNS)
        cells = tuple(
            (length, choice.label, choice.retrieval.size, *figures(row))
            for length in setting.lengths
            for choice in choices
            if choice.parameter == parameter and (row := rows.get((choice.name, length)))
        )
        tables.append(Table(f"{parameter.capitalize()} (Table 8)", header, cells))
    sizes = [choice for choice in choices if choice.parameter == "working cache"]
    plot = _plot(setting.lengths, sizes, rows)
    return Experiment("parameters", "How sensitive is retrieval to its settings?", tuple(tables), (plot,))


def _choices(base: Retrieval, ends: frozenset[int]) -> list[_Choice]:
    budget = base.top_k * base.chunk
    return [
        *(_Choice("working cache", f"{size} chunks", changed(base, top_k=size)) for size in _SIZES),
        *(
            _Choice("chunk", f"{chunk} tokens", changed(base, chunk=chunk, top_k=budget // chunk))
            for chunk in _CHUNKS
            if chunk <= budget
        ),
        *(
            _Choice(
                "sentences", f"up to {chunk} tokens", changed(base, chunk=chunk, top_k=budget // chunk, breaks=ends)
            )
            for chunk in _CHUNKS
            if 16 <= chunk <= budget
        ),
        *(
            _Choice(
                "frequency", f"every {every} steps" if every else "once", changed(base, every=every, adaptive=False)
            )
            for every in _EVERY
        ),
        *(_Choice("recent", f"{recent} tokens", changed(base, recent=recent)) for recent in _RECENT),
    ]


def _plot(lengths: Sequence[int], choices: Sequence[_Choice], rows: Mapping[tuple[str, int], Row]) -> LinePlot:
    lines = []
    for length in lengths:
        measured = [(choice.retrieval.size, rows.get((choice.name, length))) for choice in choices]
        points = tuple(
            Point(size, row.accepted.value, row.accepted.low, row.accepted.high)
            for size, row in measured
            if row is not None and row.accepted is not None
        )
        lines.append(Series(f"{length:,} tokens", points))
    return LinePlot(
        "Accepted length by working set",
        "working set (tokens)",
        "tokens per verification step",
        tuple(lines),
        log_x=True,
    )
