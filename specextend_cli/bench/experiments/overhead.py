"""Table 7 of the paper, against length: what a step spends on the target, the draft, and choosing a working set."""

from __future__ import annotations

from specextend_cli.bench.experiments.setting import Run, Setting, per_step
from specextend_cli.bench.tables import Experiment, LinePlot, Point, Series, Table

_PARTS = ("draft", "verify", "retrieve")
_HEADER = (
    "prompt (tokens)",
    "plain step (ms)",
    "drafting (ms)",
    "verifying (ms)",
    "retrieving (ms)",
    "one retrieval (ms)",
)


def run(setting: Setting) -> Run:
    """Retrieval on every fourth step as a preset has it, drafts on every step."""
    found = yield from setting.measure({"retrieval": setting.policy("retrieval")})
    rows: list[tuple[int, tuple[float | None, ...]]] = []
    for length in setting.lengths:
        plain, drafted = found.of("plain", length), found.of("retrieval", length)
        choices = sum(record.retrievals for record in drafted)
        one = 1e3 * sum(record.retrieve_seconds for record in drafted) / choices if choices else None
        rows.append((length, (per_step(plain, "verify"), *(per_step(drafted, part) for part in _PARTS), one)))
    lines = tuple(
        Series(name, tuple(Point(length, value) for length, cells in rows if (value := cells[column]) is not None))
        for column, name in enumerate(("plain step", "drafting", "verifying", "retrieving"))
    )
    return Experiment(
        "overhead",
        "What does a step cost, and does choosing a working set grow with the document?",
        (
            Table(
                "Milliseconds a step (Table 7)",
                _HEADER,
                tuple((length, *cells) for length, cells in rows),
                "Drafting, verifying and retrieving are means over verification steps; one retrieval is the mean of "
                "those that took place.",
            ),
        ),
        (LinePlot("Cost of a step", "prompt (tokens)", "milliseconds a step", lines, log_x=True),),
    )
