"""A benchmark as tables, plots and what limits them; as text for programs and for people, and as an HTML page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from specextend_cli.bench import quality
from specextend_cli.bench.records import PLAIN, Benchmark, format_length
from specextend_cli.bench.rows import PARTS, Row, summarize
from specextend_cli.bench.statistics import Interval, format_interval, quantile
from specextend_cli.bench.storage import SCHEMA, to_json
from specextend_cli.bench.tables import (
    Cell,
    Experiment,
    Format,
    HeatMap,
    LinePlot,
    Plot,
    Point,
    Table,
    dumps,
    escape,
    one_line,
    to_csv,
    to_markdown,
    to_plain,
)
from specextend_cli.errors import UsageError, cause
from specextend_cli.humanize import format_many, format_percent

LONGEST = 12  # accepted lengths from here on share a column
FEW = 5  # below this many documents the report warns that intervals say little


def tables(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Speed, drafting and output, for people. Tables without data are left out."""
    drafted = [row for row in rows if row.accepted is not None or row.shares is not None]
    return (_speed(rows), *([_drafting(drafted)] if drafted else []), _output(rows))


def _names(row: Row) -> dict[str, Cell]:
    return {"prompt (tokens)": f"{row.length:,} (scaled)" if row.scaled else row.length, "method": row.method}


def _speed(rows: Sequence[Row]) -> Table:
    cells = (
        {
            **_names(row),
            "prefill (s)": row.prefill_seconds,
            "decoding (s)": row.decode_seconds,
            "in all (s)": row.total_seconds,
            "tokens/s": row.tokens_per_second,
            "decoding, times plain": format_interval(row.decode_speedup, "×"),
            "end to end, times plain": format_interval(row.total_speedup, "×"),
            "peak memory (MB)": round(row.peak_bytes / 1e6) or None,
        }
        for row in rows
    )
    note = (
        "Seconds and tokens/s are medians over runs; tokens/s leaves prefill out. Times plain: the median of the "
        "documents' own ratios, in brackets its 95% interval (percentile bootstrap over documents)."
    )
    return Table.of("Speed", cells, note)


def _drafting(rows: Sequence[Row]) -> Table:
    cells = (
        {
            **_names(row),
            "accepted length": format_interval(row.accepted),
            "10%-90% of steps": _spread(row.accepted_counts),
            "tree nodes": row.nodes,
            **{part: None if row.shares is None else format_percent(row.shares[part]) for part in PARTS},
            "hit": None if row.hit is None else format_percent(row.hit),
        }
        for row in rows
    )
    note = (
        "Accepted length: tokens a verification step emits, bonus token included (plain decoding has 1), the mean over "
        "documents with its 95% interval. Draft, verify, retrieve and host: shares of decoding time. Hit: share of "
        "the target's attention that the draft could see."
    )
    return Table.of("Drafting", cells, note)


def _output(rows: Sequence[Row]) -> Table:
    scores = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rouge_l", "chrF": "chrf"}
    if not any(row.quality for row in rows):
        scores = {}
    cells = (
        {
            **_names(row),
            "documents": row.documents,
            "runs equal to plain": f"{row.equal} of {row.compared}" if row.compared else None,
            "first difference (token)": row.first_divergence.index + 1 if row.first_divergence else None,
            "logit gap there": row.first_divergence.gap if row.first_divergence else None,
            "largest gap": row.largest_gap,
            "repeated 4-grams": format_percent(row.repeated),
            **{title: getattr(row.quality, name, None) for title, name in scores.items()},
        }
        for row in rows
    )
    note = (
        "Gap: the difference of plain decoding's two largest logits at the first token that differs. Rounding in half "
        "precision can swap close ones; in float32 every run must be equal."
    )
    return Table.of("Output", cells, note)


def _spread(counts: Counter[int]) -> str | None:
    """ "1-5": tokens that the middle 80% of steps emitted."""
    ends = [str(quantile(counts, share)) for share in (0.1, 0.9)] if counts else []
    return "-".join(dict.fromkeys(ends)) or None


def charts(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """Every plot that has data."""
    return (
        *decoding_speedup(rows),
        *_by_length(rows, "End to end: speedup over plain", "times plain", lambda row: row.total_speedup),
        *accepted_lengths(rows),
        *(plot for length in sorted({row.length for row in rows}) for plot in distribution(rows, length)),
    )


def decoding_speedup(rows: Sequence[Row]) -> Iterable[LinePlot]:
    """Decoding speed over plain decoding, by prompt length."""
    return _by_length(rows, "Decoding: speedup over plain", "times plain", lambda row: row.decode_speedup)


def accepted_lengths(rows: Sequence[Row]) -> Iterable[LinePlot]:
    """Tokens a verification step, by prompt length."""
    title, y_label = "Accepted length, bonus token included", "tokens per verification step"
    return _by_length(rows, title, y_label, lambda row: row.accepted if _drafts(row) else None)


def distribution(rows: Sequence[Row], length: int) -> Iterable[HeatMap]:
    """How often a verification step emits how many tokens, at one prompt length."""
    shown = [row for row in rows if row.length == length and _drafts(row)]
    longest = max((size for row in shown for size in row.accepted_counts), default=0)
    names = {size: f"{size}{'+' if size == LONGEST < longest else ''}" for size in range(1, min(longest, LONGEST) + 1)}
    values = {row.method: dict.fromkeys(names.values(), 0.0) for row in shown}
    for row in shown:
        for size, count in row.accepted_counts.items():
            values[row.method][names[min(size, LONGEST)]] += count / row.accepted_counts.total()
    if shown:
        yield HeatMap(
            f"Tokens per verification step, prompts of {format_length(length)} tokens",
            "tokens a step emits, bonus included (share of all steps)",
            "method",
            values,
        )


def _drafts(row: Row) -> bool:
    """True if any step emitted more than one token."""
    return any(size > 1 for size in row.accepted_counts)


def _by_length(
    rows: Sequence[Row], title: str, y_label: str, pick: Callable[[Row], Interval | None]
) -> Iterable[LinePlot]:
    """A line a method, and plain decoding's 1."""
    lines: dict[str, list[Point]] = {row.method: [] for row in rows if row.method != PLAIN}
    for row in rows:
        if row.method != PLAIN and (interval := pick(row)) is not None:
            lines[row.method].append(Point(row.length, interval.value, interval.low, interval.high))
    if any(lines.values()):
        note = "Error bars: 95% interval over documents."
        yield LinePlot(title, "prompt (tokens)", y_label, lines, note, over_plain=True)


def provenance(benchmark: Benchmark) -> dict[str, str]:
    """Preset, machine, software and settings, by name, in display order."""
    machine = benchmark.machine
    commit = f" ({machine.commit})" if machine.commit else ""
    lines = {
        "preset": benchmark.preset,
        "device": machine.device,
        "processor": f"{machine.processor}, {format_many(machine.threads, 'thread')}",
        "software": (
            f"specextend {machine.version}{commit}, Python {machine.python}, torch {machine.torch}, "
            f"transformers {machine.transformers}"
        ),
        "seed": str(benchmark.seed),
        "settings": _settings(benchmark.settings),
    }
    return {name: one_line(value) for name, value in lines.items() if value}


_BEHIND = 0.05


def caveats(benchmark: Benchmark, rows: Sequence[Row]) -> tuple[str, ...]:
    """Limits of the tables' validity, a sentence each."""
    found = []
    few = max((row.documents for row in rows if row.method != PLAIN and row.documents < FEW), default=0)
    if few == 1:
        found.append("Small n: one document has no interval, and the next one may differ.")
    elif few:
        found.append(f"Small n: intervals rest on {format_many(few, 'document')} or fewer; read them as a hint.")
    if rows and not any(row.method == PLAIN for row in rows):
        found.append("Plain decoding was not measured: there are no speedups, and no output was checked against it.")
    scaled = sorted({row.length for row in rows if row.scaled})
    if scaled:
        lengths = ", ".join(map(format_length, scaled))
        found.append(f"Scaled: prompts of {lengths} tokens pass the model's trained window; RoPE was stretched.")
    found += _slower_than_ngrams(rows)
    differing: dict[str, list[Row]] = {}
    for row in rows:
        if row.equal < row.compared:
            differing.setdefault(row.method, []).append(row)
    found += [_differing_output(method, of) for method, of in differing.items()]
    found += [f"Left out: {method}: {why}" for method, why in benchmark.skipped.items()]
    if benchmark.references and (absent := quality.missing()):
        found.append(f"{absent}.")
    return tuple(one_line(sentence) for sentence in found)


def _slower_than_ngrams(rows: Sequence[Row]) -> list[str]:
    """Where the preset's blend decodes more than `_BEHIND` slower than n-grams, a part of it, by the medians."""
    speeds = {(row.method, row.length): row.decode_speedup.value for row in rows if row.decode_speedup}
    found = []
    for (method, length), speed in speeds.items():
        part = speeds.get(("ngram", length))
        if method == "specextend" and part is not None and speed < (1 - _BEHIND) * part:
            found.append(
                f"Behind a part: specextend at {format_length(length)} decodes at {speed:.2f} times plain, n-grams "
                f"alone at {part:.2f}."
            )
    return found


def _differing_output(method: str, rows: Sequence[Row]) -> str:
    """How often a method's output differs from plain decoding, at the lengths where it does."""
    gaps = [row.largest_gap for row in rows if row.largest_gap is not None]
    gap = f" (largest logit gap {max(gaps):.3g})" if gaps else ""
    runs = sum(row.compared for row in rows)
    return (
        f"Different output: {method} at {', '.join(format_length(row.length) for row in rows)} left plain decoding in "
        f"{runs - sum(row.equal for row in rows)} of {format_many(runs, 'run')}{gap}."
    )


def _setting(value: object) -> str:
    if isinstance(value, dict):
        return f"({_settings(value)})"
    if isinstance(value, (list, tuple)):
        return "/".join(map(_setting, value))
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _settings(values: dict[str, object]) -> str:
    """The settings that were set, not None or empty."""
    return ", ".join(f"{name} {_setting(value)}" for name, value in values.items() if value not in (None, [], (), ""))


def render(benchmark: Benchmark, format: Format) -> str:
    """The benchmark as text that ends with a newline.

    "json" is what `from_json` reads; "csv" has a line a row; "jsonl" a line for the run and then one a row.
    """
    if format == "json":
        return to_json(benchmark)
    rows = summarize(benchmark)
    flats = [row.flat() for row in rows]
    match format:
        case "csv":
            header = tuple(flats[0]) if flats else ()
            return to_csv(Table("", header, tuple(tuple(values.values()) for values in flats)))
        case "jsonl":
            head = {"type": "benchmark", "schema": SCHEMA, "preset": benchmark.preset, "seed": benchmark.seed}
            run = {"settings": benchmark.settings, "machine": asdict(benchmark.machine), "skipped": benchmark.skipped}
            lines = [head | run, *({"type": "row", **values} for values in flats)]
            return "".join(f"{dumps(line)}\n" for line in lines)
        case "md":
            facts = (f"{name}: {value}" for name, value in provenance(benchmark).items())
            remarks = [f"- {escape(line)}\n" for line in (*caveats(benchmark, rows), *facts)]
            return "\n".join(map(to_markdown, tables(rows))) + "\n" + "".join(remarks)


def write_report(
    directory: Path,
    benchmark: Benchmark | None = None,
    experiments: Sequence[Experiment] = (),
    facts: Mapping[str, str] | None = None,
) -> Path:
    """`index.html`, every plot as SVG and PNG, and the data as JSON; returns the page's path.

    The data are `benchmark.json` for `--compare`, or `experiments.json` if there is no benchmark; the `facts` (machine
    and settings) of a benchmark are its own. The directory is made if it is absent. UsageError if it cannot be
    written, or without matplotlib.
    """
    page: dict[str, object] = {"facts": facts or {}, "experiments": experiments}
    plots: list[Plot] = [plot for experiment in experiments for plot in experiment.plots]
    if benchmark is None:
        page["title"] = ", ".join(experiment.name for experiment in experiments)
        data = {"experiments.json": dumps([to_plain(experiment) for experiment in experiments], indent=2) + "\n"}
    else:
        rows = summarize(benchmark)
        own = charts(rows)
        plots = [*own, *plots]
        page |= {"title": benchmark.preset, "facts": provenance(benchmark), "plots": own}
        page |= {"tables": tables(rows), "caveats": caveats(benchmark, rows)}
        data = {"benchmark.json": to_json(benchmark)}
    written, drawn = {name: content.encode() for name, content in data.items()}, dict[int, str]()
    for number, plot in enumerate(plots, 1):
        from specextend_cli.bench.plots import draw

        picture = draw(plot)
        drawn[id(plot)] = picture.svg
        name = f"{number}-{re.sub(r'[^a-z0-9]+', '-', plot.title.lower()).strip('-')[:60]}"
        written |= {f"{name}.svg": picture.svg.encode(), f"{name}.png": picture.png}
    written["index.html"] = _page(drawn, page).encode()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, bytes_ in written.items():
            (directory / name).write_bytes(bytes_)
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {one_line(str(directory))}",
            why=cause(error),
            fix="--report DIR, a directory you may write to",
        ) from None
    return directory / "index.html"


def _page(drawn: Mapping[int, str], values: Mapping[str, object]) -> str:
    """The template filled in. Untrusted text is escaped by jinja2, or, in tables, by Markdown's own rules."""
    from jinja2 import Environment
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    def shown(value: object) -> object:
        """Untrusted text on one line; what a filter has made, which is of another type, stays as it is."""
        return one_line(value) if type(value) is str else value

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=shown)
    environment.filters["markdown"] = lambda table: Markup(markdown.render(to_markdown(table)))
    environment.filters["picture"] = lambda plot: Markup(drawn[id(plot)])
    template = Path(__file__).with_name("report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(template).render(values)
