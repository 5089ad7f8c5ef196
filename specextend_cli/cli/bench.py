"""`specextend bench`: every method over the same prompts, measured, compared with plain decoding, token for token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from specextend_cli.cli import options, signals
from specextend_cli.errors import Exit, InputError, SpecextendError, UsageError

if TYPE_CHECKING:
    from specextend_cli.bench.events import Event, Explored, Finished
    from specextend_cli.bench.records import Benchmark
    from specextend_cli.ui.benching import BenchView
    from specextend_cli.ui.streams import Output

WORKLOAD = "Workload"


class Format(str, Enum):
    """What the result looks like; without one, a table for people."""

    md = "md"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"


class DecodingOption(str, Enum):
    """How the target's tokens are chosen."""

    greedy = "greedy"
    preset = "preset"
    sample = "sample"


class WorkloadOption(str, Enum):
    """What is written."""

    summary = "summary"
    reasoning = "reasoning"


class DivergedError(SpecextendError):
    """A method that claims to be lossless is not: a bug of ours."""

    exit = Exit.INTERNAL


class RegressionError(SpecextendError):
    """Something is worse than it was."""

    exit = Exit.INTERNAL


def bench(
    length: Annotated[
        str,
        typer.Option("--len", metavar="512,1k,16k", help="Prompt lengths in target tokens.", rich_help_panel=WORKLOAD),
    ] = "1k",
    docs: Annotated[
        int, typer.Option("--docs", metavar="N", min=1, help="Documents a length.", rich_help_panel=WORKLOAD)
    ] = 2,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="R", min=1, help="Runs of each.", rich_help_panel=WORKLOAD)
    ] = 1,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            metavar="N",
            min=2,
            help="Most new tokens: 256, or 2,048 for reasoning.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    decoding: Annotated[
        DecodingOption,
        typer.Option(
            "--decoding", help="The preset's own, greedy without penalties, or sampled.", rich_help_panel=WORKLOAD
        ),
    ] = DecodingOption.preset,
    workload: Annotated[
        WorkloadOption,
        typer.Option("--workload", help="Long prompts, or short problems with long answers.", rich_help_panel=WORKLOAD),
    ] = WorkloadOption.summary,
    input: Annotated[
        list[Path] | None,
        typer.Option("--input", metavar="FILE", help="A document; may be repeated.", rich_help_panel=options.INPUT),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset",
            metavar="FILE|NAME",
            help="A JSONL file of documents, or govreport, pg19, booksum from the Hub. "
            "Default: the Python language reference, which every interpreter carries.",
            rich_help_panel=options.INPUT,
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="A,B,…",
            help="Which, plain always among them; --list names all.",
            rich_help_panel=options.SPEED,
        ),
    ] = None,
    list_methods: Annotated[
        bool, typer.Option("--list", help="List the methods and end.", rich_help_panel=options.SPEED)
    ] = False,
    experiment: Annotated[
        str | None,
        typer.Option(
            "--experiment",
            metavar="A,B,…",
            help="Instead of a comparison: lengths, ablation, overhead, parameters, positions, triggers, gate, layers, "
            "needle, divergence.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    tune: Annotated[
        Path | None,
        typer.Option(
            "--tune",
            metavar="NAME.toml",
            help="Look for better settings; write them there as a preset, where they are.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --tune: what each change brought.", rich_help_panel=WORKLOAD)
    ] = False,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.auto,
    offline: options.Offline = False,
    draft: options.DraftOption = None,
    head: options.HeadOption = None,
    timeout: options.Timeout = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="DIR", help="Write a self-contained HTML page there.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare",
            metavar="OLD.json",
            help="Fail where something is worse than in an earlier result.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write the result there.", rich_help_panel=options.OUTPUT),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(
            "--format", "-f", help="Default: a table, or what the output's name says.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="The whole result as one line of JSON.", rich_help_panel=options.OUTPUT)
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Do not continue an interrupted run.", rich_help_panel=options.DIAGNOSTICS),
    ] = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Measure decoding methods side by side: the same prompts, models and kernels, checked token for token.

    Methods: plain, standard, streaming, specextend; drafters ngram, self, lm, blend, eagle; parts naive, +flash, +hta,
    +streaming, +retrieval; rivals magicdec, triforce, rapid; peers transformers, transformers-assisted,
    transformers-prompt-lookup, llama.cpp.

    [dim]Examples:[/]

      specextend bench --len 1k,4k --docs 5

      specextend bench --len 16k --docs 1 --report report/

      specextend bench --experiment lengths,gate --len 1k,4k --report report/

      specextend bench --tune fast.toml --docs 8 --explain

      specextend bench --dataset govreport.jsonl.gz --methods plain,standard,specextend -f md
    """
    from specextend_cli.bench import methods as registry
    from specextend_cli.ui.streams import Output

    terminal = Output()
    if list_methods:
        _list(terminal)
        return
    kind = _format(format, json, output)
    options.go_offline(offline)

    from specextend_cli.bench import experiments
    from specextend_cli.bench.lengths import parse_lengths
    from specextend_cli.bench.session import Options, explore, run
    from specextend_cli.bench.session import tune as search
    from specextend_cli.models.preset_file import check_name
    from specextend_cli.ui.benching import open_bench

    wanted = None if experiment is None else experiments.parse(experiment)
    _refuse_together({"--experiment": experiment, "--tune": tune}, {"--compare": compare, "--methods": methods})
    if explain and tune is None:
        raise UsageError("--explain belongs to --tune", fix="add --tune NAME.toml")
    if tune is not None:
        check_name(tune)

    settings = Options(
        **options.given(
            preset=model,
            lengths=parse_lengths(length),
            tokens=tokens,
            decoding=decoding,
            docs=docs,
            repeats=repeats,
            methods=registry.parse(methods),
            inputs=tuple(input or ()),
            dataset=dataset,
            workload=workload,
            temperature=temperature,
            seed=seed,
            device=device,
            dtype=dtype,
            offline=offline,
            draft=options.drafter(draft, no_spec=False),
            head=None if head is None else str(head.absolute()),
            fresh=fresh,
        )
    )
    old = None if compare is None else _read(compare)
    if draft is options.Draft.none:
        raise UsageError("--draft none leaves nothing to measure", fix="--methods plain measures plain decoding alone")
    view = open_bench(terminal, quiet=quiet)
    try:
        with signals.deadline(timeout), view:
            if tune is not None:
                events = search(settings, explain=explain)
            else:
                events = explore(settings, wanted) if wanted else run(settings)
            finished = _watch(events, view)
    except (KeyboardInterrupt, signals.DeadlineError):
        terminal.note(view.stopped())
        raise
    _show(terminal, finished, kind, output, one_line=json)
    if report is not None:
        page = _report(finished, report)
        if not quiet:
            terminal.note(f"report: {page}")
    if tune is not None:
        _write_preset(terminal, finished, tune, quiet=quiet)
    finished.forget()
    _judge(finished, old)


def _watch(events: Iterable[Event], view: BenchView) -> Finished | Explored:
    from specextend_cli.bench.events import Explored, Finished

    for event in events:
        view.add(event)
        if isinstance(event, Finished | Explored):
            return event
    raise AssertionError("the benchmark ended without a result")


def _show(
    terminal: Output, result: Finished | Explored, kind: str | None, output: Path | None, *, one_line: bool
) -> None:
    """The result, on stdout or in a file."""
    from specextend_cli.bench import tables
    from specextend_cli.bench.events import Finished
    from specextend_cli.bench.report import render
    from specextend_cli.ui import bench, experiments
    from specextend_cli.ui.destination import atomic

    if kind is None:
        if isinstance(result, Finished):
            terminal.show(bench.report(result.benchmark, terminal.pager.width))
        else:
            terminal.show(experiments.report(result.experiments, result.facts, result.skipped, terminal.pager.width))
        return
    form = cast(tables.Format, kind)
    if isinstance(result, Finished):
        text = render(result.benchmark, form)
    elif form == "json":
        text = tables.dumps([tables.to_plain(experiment) for experiment in result.experiments], indent=2) + "\n"
    else:
        text = "\n".join(tables.render(experiment, form) for experiment in result.experiments)
    if one_line:
        import json

        text = tables.dumps(json.loads(text)) + "\n"
    if output is None:
        terminal.write(text)
        return
    with atomic(output) as write:
        write(text)


def _refuse_together(ones: Mapping[str, object], others: Mapping[str, object]) -> None:
    """UsageError for options that ask for different things: two of the first, or one of each."""
    given = [name for name, value in ones.items() if value]
    given += [name for name, value in others.items() if value and given]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} contradict each other", fix="leave one of them out")


def _write_preset(terminal: Output, result: Finished | Explored, path: Path, *, quiet: bool) -> None:
    """What tuning found, if it is better."""
    from specextend_cli.bench.events import Explored
    from specextend_cli.models.preset_file import to_toml
    from specextend_cli.ui.destination import atomic

    preset = result.preset if isinstance(result, Explored) else None
    if preset is not None:
        with atomic(path) as write:
            write(to_toml(preset, path.stem))
    if not quiet:
        terminal.note(f"written: {path}" if preset else f"the preset's own settings stand; {path} was not written")


def _report(result: Finished | Explored, directory: Path) -> Path:
    """The HTML page."""
    from specextend_cli.bench.events import Finished
    from specextend_cli.bench.html import write_experiments, write_report

    if isinstance(result, Finished):
        return write_report(result.benchmark, directory)
    return write_experiments(result.experiments, directory, result.facts)


def _judge(finished: Finished | Explored, old: Benchmark | None) -> None:
    """The exit code: something is wrong, or worse than it was. Said after the result, which stays useful."""
    from specextend_cli.bench.events import Explored

    if finished.wrong:
        exact = (
            finished.exact if isinstance(finished, Explored) else finished.benchmark.settings.get("dtype") == "float32"
        )
        why = "in float32 none may differ" if exact else "where the choice was too clear for rounding to turn it over"
        raise DivergedError(
            f"{', '.join(finished.wrong)} wrote other tokens than plain decoding",
            why=why,
            fix="please report this with the result: specextend bench … --json",
        )
    if old is None or isinstance(finished, Explored):
        return
    from specextend_cli.bench.regression import regressions

    worse = regressions(old, finished.benchmark)
    if worse:
        raise RegressionError("something is worse than it was", why="; ".join(worse))


def _read(path: Path) -> Benchmark:
    """An earlier result, read before hours are spent."""
    from specextend_cli.bench.report import from_json

    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}", why=str(error)) from error


def _format(format: Format | None, json: bool, output: Path | None) -> str | None:
    """`--format`, else what the output's name says; None is the table."""
    if json and format not in (None, Format.json):
        raise UsageError(f"--json and --format {format.value} contradict each other", fix="leave one of them out")
    if json:
        return "json"
    if format is not None:
        return format.value
    if output is None:
        return None
    suffix = output.suffix.removeprefix(".")
    if suffix not in Format.__members__:
        raise UsageError(
            f"--output {output}: its name does not say which format it is", fix="add -f md, csv, json or jsonl"
        )
    return suffix


def _list(terminal: Output) -> None:
    from specextend_cli.bench import methods
    from specextend_cli.ui.tables import cell, table

    made = table("method", "")
    for name, text in methods.about().items():
        made.add_row(cell(name, "bold"), cell(text))
    terminal.show(made)
