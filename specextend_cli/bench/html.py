"""A report as one HTML page that needs nothing else: no network, no scripts. Foreign text is escaped everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from specextend_cli.bench.charts import charts
from specextend_cli.bench.notes import caveats, provenance
from specextend_cli.bench.plots import draw
from specextend_cli.bench.records import Benchmark
from specextend_cli.bench.report import tables, to_json
from specextend_cli.bench.rows import summarize
from specextend_cli.bench.tables import (
    Cell,
    Experiment,
    Plot,
    Table,
    dumps,
    format_cell,
    is_number_column,
    one_line,
    to_plain,
)
from specextend_cli.errors import UsageError

_READING = (
    (
        "Times plain",
        "how many times faster than plain decoding with the same kernels and the same cache; 1 is no gain, "
        "below 1 is a loss. <em>Decoding</em> leaves prefill out; <em>end to end</em> has it in, and is what a reader "
        "waits for.",
    ),
    (
        "Interval",
        "the 95% percentile bootstrap interval over documents of the median of paired ratios. Where it "
        "contains 1, a gain has not been shown.",
    ),
    (
        "Accepted length",
        "tokens a verification step emits, bonus token included. The paper's code leaves the bonus "
        "out: its figures are lower by up to one.",
    ),
    (
        "Equal to plain",
        "decoding here is lossless: in float32 every run must be equal. In half precision a tree is "
        "rounded otherwise than a single token, and two almost equal logits may change places; the gap says how close "
        "they were.",
    ),
    ("Repeated 4-grams", "an output that loops is easy to draft for and flatters every method that copies."),
)

_STYLE = """
:root{color-scheme:light dark;--ink:#222;--quiet:#595959;--line:#ddd;--paper:#fff;--shade:#f6f6f6;--warn:#8a4b00}
@media (prefers-color-scheme:dark){
:root{--ink:#e8e8e8;--quiet:#aaa;--line:#3a3a3a;--paper:#161616;--shade:#202020;--warn:#f0b840}}
body{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.5rem 0 .5rem}
p,dd{max-width:48rem}.quiet,.note{color:var(--quiet)}.note{font-size:.87rem}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.87rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:left;white-space:nowrap}
th{border-bottom:2px solid var(--line);vertical-align:bottom;white-space:normal}td{border-bottom:1px solid var(--line)}
.number{text-align:right}tr.first td{border-top:2px solid var(--line)}tbody tr:hover{background:var(--shade)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(34rem,100%),1fr));gap:1.5rem;align-items:start}
.plots svg{width:100%;height:auto}
ul.caveats{padding-left:1.2rem;color:var(--warn)}dt{font-weight:600}dd{margin:0 0 .5rem}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}dl.facts dd{margin:0;overflow-wrap:anywhere}
@media print{.wide{overflow:visible}.plots{display:block}svg,table{break-inside:avoid}}
"""


def write_report(benchmark: Benchmark, directory: Path, experiments: Sequence[Experiment] = ()) -> Path:
    """`index.html` in `directory`, with `benchmark.json` beside it for `--compare`; returns the page's path.

    Every plot is there as a picture of its own, too. The directory is made where it is absent. Raises UsageError where
    it cannot be written.
    """
    plots = [*charts(summarize(benchmark)), *(plot for experiment in experiments for plot in experiment.plots)]
    return _write(directory, page(benchmark, experiments), {"benchmark.json": to_json(benchmark), **_pictures(plots)})


def write_experiments(
    experiments: Sequence[Experiment], directory: Path, facts: Mapping[str, str] | None = None
) -> Path:
    """The same for experiments alone, with `experiments.json`; `facts` are named lines about machine and settings."""
    data = dumps([to_plain(experiment) for experiment in experiments], indent=2) + "\n"
    pictures = _pictures([plot for experiment in experiments for plot in experiment.plots])
    return _write(directory, experiments_page(experiments, facts or {}), {"experiments.json": data, **pictures})


def page(benchmark: Benchmark, experiments: Sequence[Experiment] = ()) -> str:
    """The report's HTML."""
    rows = summarize(benchmark)
    doubts = caveats(benchmark, rows)
    return _page(
        f"specextend bench: {one_line(benchmark.preset)}",
        [
            f"<p class='quiet'>{_text(benchmark.machine.processor)} · {_text(benchmark.machine.device)}</p>",
            _list(doubts),
            "<h2>Plots</h2><div class='plots'>",
            *map(draw, charts(rows)),
            "</div><h2>Figures</h2>",
            *(_table(table) for table in tables(rows)),
            *(section(experiment) for experiment in experiments),
            "<h2>How to read it</h2><dl>",
            *(f"<dt>{name}</dt><dd>{meaning}</dd>" for name, meaning in _READING),
            "</dl><h2>Machine and settings</h2>",
            _facts(provenance(benchmark)),
            "<p class='note'>Every run's figures are in <a href='benchmark.json'>benchmark.json</a>; "
            "<code>specextend bench --compare benchmark.json</code> measures against them.</p>",
        ],
    )


def experiments_page(experiments: Sequence[Experiment], facts: Mapping[str, str]) -> str:
    """The HTML of experiments alone."""
    names = ", ".join(one_line(experiment.name) for experiment in experiments)
    return _page(
        f"specextend bench: {names}",
        [*map(section, experiments), *(["<h2>Machine and settings</h2>", _facts(facts)] if facts else [])],
    )


def section(experiment: Experiment) -> str:
    """One experiment: its question, plots and tables."""
    plots = f"<div class='plots'>{''.join(map(draw, experiment.plots))}</div>" if experiment.plots else ""
    return (
        f"<section><h2>{_text(experiment.name)}</h2><p>{_text(experiment.question)}</p>"
        f"{plots}{''.join(map(_table, experiment.tables))}</section>"
    )


def _page(title: str, parts: Iterable[str]) -> str:
    # The policy forbids scripts and every request: what the page shows is in the page.
    body = "\n".join(part for part in parts if part)
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def _table(table: Table) -> str:
    """A table whose first column's groups are set apart by a line."""
    kinds = [" class='number'" if is_number_column(table, column) else "" for column in range(len(table.header))]
    head = "".join(f"<th scope='col'{kind}>{_text(name)}</th>" for kind, name in zip(kinds, table.header, strict=True))
    rows: list[str] = []
    previous: tuple[Cell, ...] | None = None
    for row in table.rows:
        cells = "".join(f"<td{kind}>{_text(format_cell(cell))}</td>" for kind, cell in zip(kinds, row, strict=True))
        first = " class='first'" if previous is not None and row[:1] != previous else ""
        rows.append(f"<tr{first}>{cells}</tr>")
        previous = row[:1]
    note = f"<p class='note'>{_text(table.note)}</p>" if table.note else ""
    return (
        f"<h3>{_text(table.title)}</h3><div class='wide'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>{note}"
    )


def _facts(facts: Mapping[str, str]) -> str:
    return (
        "<dl class='facts'>"
        + "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in facts.items())
        + "</dl>"
    )


def _list(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{_text(sentence)}</li>" for sentence in sentences)
    return f"<ul class='caveats'>{items}</ul>" if items else ""


def _text(text: str) -> str:
    return escape(one_line(text))


def _pictures(plots: Sequence[Plot]) -> dict[str, str]:
    """Files of the plots, numbered and named for their titles."""
    names = (re.sub(r"[^a-z0-9]+", "-", plot.title.lower()).strip("-")[:60] for plot in plots)
    return {f"{number}-{name}.svg": draw(plot) for number, (name, plot) in enumerate(zip(names, plots, strict=True), 1)}


def _write(directory: Path, page: str, files: Mapping[str, str]) -> Path:
    index = directory / "index.html"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in {**files, "index.html": page}.items():
            (directory / name).write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {one_line(str(directory))}",
            why=error.strerror or str(error),
            fix="--report DIR, a directory you may write to",
        ) from None
    return index
