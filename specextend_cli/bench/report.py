"""A benchmark's rows as tables for people, and as text and JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from specextend_cli.bench import statistics, storage
from specextend_cli.bench.notes import caveats, provenance
from specextend_cli.bench.quality import Quality
from specextend_cli.bench.records import Benchmark
from specextend_cli.bench.rows import Row, summarize
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.tables import (
    Cell,
    Format,
    Table,
    dumps,
    escape,
    to_csv,
    to_markdown,
)
from specextend_cli.humanize import format_percent


def tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Speed, drafting and output, for people. Tables without anything to say are left out."""
    drafted = [row for row in rows if row.accepted is not None or row.shares is not None]
    return (
        _speed(rows),
        *([_drafting(drafted)] if drafted else []),
        _output(rows),
    )


def _speed(rows: Sequence[Row]) -> Table:
    return Table(
        "Speed",
        (
            "prompt (tokens)",
            "method",
            "prefill (s)",
            "decoding (s)",
            "in all (s)",
            "tokens/s",
            "decoding, times plain",
            "end to end, times plain",
            "peak memory (MB)",
        ),
        tuple(
            (
                _prompt(row),
                row.method,
                row.prefill_seconds,
                row.decode_seconds,
                row.total_seconds,
                row.tokens_per_second,
                format_interval(row.decode_speedup, "×"),
                format_interval(row.total_speedup, "×"),
                round(row.peak_bytes / 1e6) or None,
            )
            for row in rows
        ),
        "Seconds and tokens/s are medians over runs; tokens/s leaves prefill out. Times plain: the median of the "
        "documents' own ratios, in brackets its 95% interval (percentile bootstrap over documents).",
    )


def _drafting(rows: Sequence[Row]) -> Table:
    return Table(
        "Drafting",
        (
            "prompt (tokens)",
            "method",
            "accepted length",
            "10%-90% of steps",
            "tree nodes",
            "draft",
            "verify",
            "retrieve",
            "host",
            "hit",
        ),
        tuple(
            (
                _prompt(row),
                row.method,
                format_interval(row.accepted),
                format_spread(row.accepted_counts),
                row.nodes,
                *(
                    [None] * 4
                    if row.shares is None
                    else [
                        format_percent(share)
                        for share in (row.shares.draft, row.shares.verify, row.shares.retrieve, row.shares.host)
                    ]
                ),
                None if row.hit is None else format_percent(row.hit),
            )
            for row in rows
        ),
        "Accepted length: tokens a verification step emits, bonus token included (plain decoding has 1), the mean over "
        "documents with its 95% interval. Draft, verify, retrieve and host: shares of decoding time. Hit: share of "
        "the target's attention that the draft could see.",
    )


def _output(rows: Sequence[Row]) -> Table:
    scored = any(row.quality for row in rows)
    return Table(
        "Output",
        (
            "prompt (tokens)",
            "method",
            "documents",
            "runs equal to plain",
            "first difference (token)",
            "logit gap there",
            "largest gap",
            "repeated 4-grams",
            *(("ROUGE-1", "ROUGE-2", "ROUGE-L", "chrF") if scored else ()),
        ),
        tuple(
            (
                _prompt(row),
                row.method,
                row.documents,
                f"{row.equal} of {row.compared}" if row.compared else None,
                row.first_divergence.index + 1 if row.first_divergence else None,
                row.first_divergence.gap if row.first_divergence else None,
                row.largest_gap,
                format_percent(row.repeated),
                *(_scores(row.quality) if scored else ()),
            )
            for row in rows
        ),
        "Gap: the distance of plain decoding's two largest logits at the first token that differs. Rounding in half "
        "precision turns small ones over; in float32 every run must be equal.",
    )


def _prompt(row: Row) -> Cell:
    return f"{row.length:,} (scaled)" if row.scaled else row.length


def _scores(score: Quality | None) -> tuple[Cell, ...]:
    return (None,) * 4 if score is None else (score.rouge1, score.rouge2, score.rouge_l, score.chrf)


def format_interval(interval: Interval | None, unit: str = "") -> str | None:
    """ "1.92× (1.80-2.05)"; without brackets where one document stands alone, or nothing varies (plain's 1.00×)."""
    if interval is None:
        return None
    value = f"{interval.value:.2f}{unit}"
    return value if interval.low == interval.high else f"{value} ({interval.low:.2f}-{interval.high:.2f})"


def format_spread(counts: Counter[int]) -> str | None:
    """ "1-5": what the middle 80% of steps emitted."""
    if not counts:
        return None
    low, high = statistics.quantile(counts, 0.1), statistics.quantile(counts, 0.9)
    return f"{low}-{high}" if low < high else str(low)


def flat(row: Row) -> dict[str, Cell]:
    """A row for programs: one number a key, names with units. Keys are stable."""
    found: dict[str, Cell] = {}
    for name, value in asdict(row).items():
        match name, value:
            case (("decode_speedup" | "total_speedup" | "accepted"), _):
                interval = value or {"value": None, "low": None, "high": None}
                found |= {name: interval["value"], f"{name}_low": interval["low"], f"{name}_high": interval["high"]}
            case "accepted_counts", _:
                found["accepted_p10"] = statistics.quantile(row.accepted_counts, 0.1) if value else None
                found["accepted_p90"] = statistics.quantile(row.accepted_counts, 0.9) if value else None
            case "shares", _:
                parts = value or dict.fromkeys(("draft", "verify", "retrieve", "host"))
                found |= {f"{part}_share": share for part, share in parts.items()}
            case "first_divergence", _:
                parts = value or {"index": None, "gap": None}
                found |= {"first_divergence": parts["index"], "first_divergence_gap": parts["gap"]}
            case "quality", _:
                found |= value or dict.fromkeys(("rouge1", "rouge2", "rouge_l", "chrf"))
            case _:
                found[name] = value
    return found


def render(benchmark: Benchmark, format: Format) -> str:
    """The benchmark as text that ends with a newline.

    "json" is what `from_json` reads; "csv" has a line a row; "jsonl" a line for the run and then one a row.
    """
    if format == "json":
        return to_json(benchmark)
    rows = summarize(benchmark)
    match format:
        case "csv":
            flats = [flat(row) for row in rows]
            header = tuple(flats[0]) if flats else ()
            return to_csv(Table("", header, tuple(tuple(values.values()) for values in flats)))
        case "jsonl":
            head = {"type": "benchmark", "schema": storage.SCHEMA, "preset": benchmark.preset, "seed": benchmark.seed}
            run = {"settings": benchmark.settings, "machine": asdict(benchmark.machine), "skipped": benchmark.skipped}
            return "".join(
                f"{dumps(line)}\n" for line in ({**head, **run}, *({"type": "row", **flat(row)} for row in rows))
            )
        case "md":
            return _markdown(benchmark, rows)


def _markdown(benchmark: Benchmark, rows: Sequence[Row]) -> str:
    notes = [f"{name}: {value}" for name, value in provenance(benchmark).items()]
    return (
        "\n".join(
            [
                *map(to_markdown, tables(rows)),
                *(f"- {escape(sentence)}" for sentence in caveats(benchmark, rows)),
                *(f"- {escape(line)}" for line in notes),
            ]
        )
        + "\n"
    )


def to_json(benchmark: Benchmark) -> str:
    """The whole benchmark, with a summary for other programs: a line a record."""
    return storage.dump(benchmark, [flat(row) for row in summarize(benchmark)])


def from_json(text: str) -> Benchmark:
    """What `to_json` wrote. Raises UsageError where the text is something else."""
    return storage.load(text)
