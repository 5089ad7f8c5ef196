"""The embedded pair end to end on the device: the benchmark itself, on one prompt, if its weights are here."""

from __future__ import annotations

from specextend_cli.bench.suite.sizes import Sizes
from specextend_cli.bench.tables import Cell

HEADER = ("prompt (tokens)", "method", "prefill (s)", "tokens/s", "times plain", "accepted length", "equal to plain")


def measured(sizes: Sizes) -> tuple[tuple[tuple[Cell, ...], ...], tuple[str, ...]]:
    """A row a method, and those that wrote other tokens than plain decoding, beyond what rounding explains.

    ImportError and SpecextendError where the program, or the pair, is not installed here.
    """
    from specextend_cli.bench import session
    from specextend_cli.bench.events import Finished
    from specextend_cli.bench.rows import summarize

    options = session.Options(
        lengths=(sizes.prompt,),
        tokens=sizes.prompt // 4,
        docs=1,
        methods=("plain", "ngram", "specextend"),
        device=str(sizes.device),
        offline=True,
        fresh=True,
    )
    rows: list[tuple[Cell, ...]] = []
    wrong: tuple[str, ...] = ()
    for event in session.run(options):
        if isinstance(event, Finished):
            event.forget()
            wrong = event.wrong
            for row in summarize(event.benchmark):
                equal = f"{row.equal} of {row.compared}" if row.compared else None
                speedup = None if row.decode_speedup is None else row.decode_speedup.value
                accepted = None if row.accepted is None else row.accepted.value
                rows.append(
                    (row.length, row.method, row.prefill_seconds, row.tokens_per_second, speedup, accepted, equal)
                )
    return tuple(rows), wrong
