"""A benchmark as text for programs and for people, and as an HTML page with plots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.bench.tables import (
    Experiment,
    Format,
    Plot,
    Table,
    dumps,
    escape,
    one_line,
    to_csv,
    to_markdown,
    to_plain,
)
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.records import Benchmark


def render(benchmark: Benchmark, format: Format) -> str:
    """The benchmark as text that ends with a newline.

    "json" is what `from_json` reads; "csv" has a line a row; "jsonl" a line for the run and then one a row.
    """
    from specextend_cli.bench.overview import caveats, provenance, tables
    from specextend_cli.bench.rows import summarize
    from specextend_cli.bench.storage import SCHEMA, to_json

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
        from specextend_cli.bench import overview
        from specextend_cli.bench.rows import summarize
        from specextend_cli.bench.storage import to_json

        rows = summarize(benchmark)
        own = overview.charts(rows)
        plots = [*own, *plots]
        page |= {"title": benchmark.preset, "facts": overview.provenance(benchmark), "plots": own}
        page |= {"tables": overview.tables(rows), "caveats": overview.caveats(benchmark, rows)}
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
            why=error.strerror or str(error),
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
