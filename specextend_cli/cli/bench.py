"""`specextend bench`: every method over the same prompts, measured, compared with plain decoding, token for token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from specextend_cli.bench.formats import Format
from specextend_cli.cli import options
from specextend_cli.cli.options import option
from specextend_cli.errors import SpecextendError, UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.results import Benchmark, Event
    from specextend_cli.ui.output import Output

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]
_PAGE = ("index.html", "benchmark.json")  # files of a report, besides its plots


def bench(
    length: Annotated[str, option("--len", "Prompt lengths in target tokens; k is 1,024.", "512,1k,16k")] = "1k",
    docs: Annotated[int, option("--docs", "Documents of each length.", "N", min=1)] = 2,
    input: Annotated[list[Path] | None, option("--input", "Measure on this document; may be repeated.", "FILE")] = None,
    dataset: Annotated[
        Path | None, option("--dataset", "A file of JSON lines. Default: Python's manual.", "FILE")
    ] = None,
    methods: Annotated[
        str | None, option("--methods", "Methods besides plain; --list describes them.", "A,B,…")
    ] = None,
    list_methods: Annotated[bool, option("--list", "Describe the methods and exit.")] = False,
    experiment: Annotated[
        str | None,
        option("--experiment", "Instead of --methods: lengths, ablation, policies, needle.", "A,B,…"),
    ] = None,
    report: Annotated[
        Path | None, option("--report", "Write an HTML page and its plots into this directory.", "DIR")
    ] = None,
    output: Annotated[Path | None, option("--output -o", "Write the result to this file.", "PATH")] = None,
    format: Annotated[
        Format | None, option("--format -f", "md, csv, json. Default: a table, or by the output's name.", "NAME")
    ] = None,
    json: Annotated[bool, option("--json", "Print the whole result as one line of JSON.")] = False,
    quiet: options.Quiet = False,
    tokens: Annotated[int, option("--tokens", "Limit on new tokens.", "N", min=2)] = 256,
    repeats: Annotated[int, option("--repeats", "Runs of each method on each prompt.", "R", min=1)] = 1,
    seed: Annotated[int, option("--seed", "Seed for the order of runs, and for sampling.", "N", min=0)] = 0,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: Annotated[
        Dtype,
        option("--dtype", "Number format: auto, float32, bfloat16, float16. In float32 all tokens must agree.", "NAME"),
    ] = "auto",
    offline: options.Offline = False,
    draft: options.DraftOption = None,
    head: options.DraftHead = None,
) -> None:
    """Measure decoding methods on the same prompts, with the same models and kernels, and check every token.

    \b
    Examples:
      specextend bench --len 1k,4k --docs 5
      specextend bench --input report.pdf --docs 1 --methods standard,specextend
      specextend bench --experiment lengths,policies --len 1k,4k --report lengths/
    """
    from specextend_cli.ui.output import Output

    terminal = Output(quiet=quiet)
    if list_methods:
        _list(terminal)
        return
    if experiment and methods:
        raise UsageError("--experiment and --methods contradict each other", fix="leave one of them out")
    if draft == "none":
        raise UsageError("--draft none leaves nothing to measure", fix="--methods plain measures plain decoding alone")
    kind = _format(format, json, output)
    if output is None:
        terminal.require_stdout()
    pages = () if report is None else tuple(report / name for name in _PAGE)
    _check_outputs([*([] if output is None else [output]), *pages], [*(input or ()), dataset, model])
    if report is not None:
        from specextend_cli.bench import plots

        plots.require()

    from specextend_cli.bench import experiments
    from specextend_cli.bench.methods import parse
    from specextend_cli.bench.prompts import parse_lengths
    from specextend_cli.bench.session import Options
    from specextend_cli.runtime.devices import device_of

    device_of(device)  # refuses one that this machine lacks
    settings = Options(
        model=None if model == options.AUTO else model,
        lengths=parse_lengths(length),
        tokens=tokens,
        docs=docs,
        repeats=repeats,
        methods=parse(methods),
        inputs=tuple(input or ()),
        dataset=dataset,
        offline=offline,
        seed=seed,
        device=device,
        dtype=dtype,
        draft=draft,
        draft_head=head,
    )
    names = () if experiment is None else experiments.parse(experiment)
    found = _watch(terminal, experiments.run(settings, names))
    _show(terminal, found, kind, output, one_line=json)
    if report is not None:
        from specextend_cli.bench.report import write_report

        terminal.status(f"report: {write_report(report, found)}")
    _refuse_wrong(found)


def _format(format: Format | None, json: bool, output: Path | None) -> Format | None:
    """The format: `--json`, `--format`, else by the output's name; None is the table."""
    if json and format not in (None, "json"):
        raise UsageError(f"--json and --format {format} contradict each other", fix="leave one of them out")
    if json or format is not None or output is None:
        return "json" if json else format
    for known in get_args(Format):
        if output.suffix == f".{known}":
            return known  # type: ignore[no-any-return]
    raise UsageError(f"--output {output}: its name does not say which format it is", fix="add -f md, csv or json")


def _check_outputs(outputs: Sequence[Path], inputs: Iterable[Path | str | None]) -> None:
    """UsageError, before anything is measured, if a result would replace an input or a file, or cannot be written."""
    from specextend_cli.ui.destination import check_writable, refuse_inputs

    refuse_inputs(outputs, [Path(one).expanduser() for one in inputs if one is not None])
    for path in outputs:
        if path.is_file():
            raise UsageError(f"{path} exists already", why="results are not overwritten", fix="name another")
        check_writable(path)


def _watch(terminal: Output, events: Iterable[Event]) -> Benchmark:
    """Run to the end, with progress on stderr."""
    from specextend_cli.bench.results import Benchmark, Measured
    from specextend_cli.ui.measurements import format_record
    from specextend_cli.ui.panel import open_view

    try:
        with open_view(terminal, "bench") as view:
            for event in events:
                match event:
                    case Benchmark():
                        return event
                    case Measured():
                        view.say(f"[{event.done}/{event.runs}] {format_record(event.record)}")
                    case _:
                        view.add(event)
    except KeyboardInterrupt:
        terminal.note("stopped; nothing was saved")
        raise
    raise AssertionError("the benchmark ended without a result")


def _show(terminal: Output, found: Benchmark, kind: Format | None, output: Path | None, *, one_line: bool) -> None:
    if kind is None:
        from specextend_cli.ui.measurements import report

        terminal.show(report(found, terminal.width))
        return

    from specextend_cli.bench.report import render
    from specextend_cli.ui.destination import atomic

    text = render(found, kind, indent=None if one_line else 2)
    if output is None:
        terminal.write(text)
        return
    with atomic(output) as write:
        write(text)


def _refuse_wrong(found: Benchmark) -> None:
    """SpecextendError for other tokens than plain decoding's, after the result was shown."""
    if not found.wrong:
        return
    exact = found.settings.get("dtype") == "float32"
    raise SpecextendError(
        f"{', '.join(found.wrong)} wrote other tokens than plain decoding",
        why="in float32 none may differ" if exact else "the two best logits were too far apart for rounding",
        fix="please report this with the result: specextend bench … --json",
    )


def _list(terminal: Output) -> None:
    from specextend_cli.bench import methods
    from specextend_cli.ui.tables import cell, table

    made = table("method", "")
    for name, (text, _) in methods.METHODS.items():
        made.add_row(cell(name, "bold"), cell(text))
    terminal.show(made)
