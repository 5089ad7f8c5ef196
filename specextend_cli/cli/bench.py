"""`specextend bench`: every method over the same prompts, measured, compared with plain decoding, token for token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

import typer

from specextend_cli.cli import bench_result, options
from specextend_cli.cli.help import Rare
from specextend_cli.cli.options import option
from specextend_cli.errors import UsageError
from specextend_cli.runtime.options import EngineOptions

if TYPE_CHECKING:
    from specextend_cli.ui.output import Output

INSTEAD, WORKLOAD = "Instead of a comparison", "Workload"
"""Panels of `--help`. An option without a panel is an everyday one: those come first, under "Options"."""

Format: TypeAlias = Literal["md", "csv", "json", "jsonl"]


def format_name(format: Format | None, json: bool, output: Path | None) -> str | None:
    """The format: `--format`, else by the output's name; None is the table."""
    named = options.format_name(format, json)
    if named is not None or output is None:
        return named
    suffix = output.suffix.removeprefix(".")
    if suffix not in get_args(Format):
        raise UsageError(
            f"--output {output}: its name does not say which format it is", fix="add -f md, csv, json or jsonl"
        )
    return suffix


def refuse_together(ones: Mapping[str, object], others: Mapping[str, object]) -> None:
    """UsageError for options that ask for different things: two of `ones`, or one of each."""
    given = [name for name, value in ones.items() if value]
    given += [name for name, value in others.items() if value and given]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} contradict each other", fix="leave one of them out")


def bench(
    context: typer.Context,
    length: Annotated[str, option("--len", "Prompt lengths in target tokens; k is 1,024.", "512,1k,16k")] = "1k",
    docs: Annotated[int, option("--docs", "Documents of each length.", "N", min=1)] = 2,
    input: Annotated[list[Path] | None, option("--input", "Measure on this document; may be repeated.", "FILE")] = None,
    dataset: Annotated[
        str | None, option("--dataset", "A file of JSON lines. Default: Python's manual.", "FILE")
    ] = None,
    methods: Annotated[
        str | None, option("--methods", "Methods besides plain; --list describes them.", "A,B,…")
    ] = None,
    list_methods: Annotated[bool, option("--list", "Describe the methods and exit.")] = False,
    report: Annotated[
        Path | None, option("--report", "Write an HTML page and its plots into this directory.", "DIR")
    ] = None,
    compare: Annotated[
        Path | None, option("--compare", "Exit with 1 if anything is worse than in this earlier result.", "OLD.json")
    ] = None,
    output: Annotated[Path | None, option("--output -o", "Write the result to this file.", "PATH")] = None,
    format: Annotated[
        Format | None, option("--format -f", "md, csv, json, jsonl. Default: a table, or by the output's name.", "NAME")
    ] = None,
    json: Annotated[bool, option("--json", "Print the whole result as one line of JSON.")] = False,
    experiment: Annotated[
        str | None, option("--experiment", "lengths, ablation, policies, needle, costs", "A,…", panel=INSTEAD)
    ] = None,
    profile: Annotated[
        bool, option("--profile", "Time of a step by operation; traces with --report.", panel=INSTEAD)
    ] = False,
    suite: Annotated[
        Literal["gpu", "quality"] | None,
        option(
            "--suite",
            "gpu: kernels to steps, in a few minutes, offline; quality: summaries against references and baselines.",
            "gpu|quality",
            panel=INSTEAD,
        ),
    ] = None,
    words: Annotated[
        Literal["document", "reference"] | None,
        option(
            "--words",
            "With --suite quality: a third of the document's, or the reference's. Default: by the latter.",
            "document|reference",
            panel=Rare(INSTEAD),
        ),
    ] = None,
    tokens: Annotated[int, option("--tokens", "Limit on new tokens.", "N", panel=WORKLOAD, min=2)] = 256,
    repeats: Annotated[int, option("--repeats", "Runs of each method on each prompt.", "R", panel=WORKLOAD, min=1)] = 1,
    decoding: Annotated[
        Literal["greedy", "preset", "sample"],
        option("--decoding", "preset, greedy (without penalties) or sample.", "NAME", panel=WORKLOAD),
    ] = "preset",
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = "auto",
    offline: options.Offline = False,
    draft: options.DraftOption = None,
    compile: options.Compile = True,
    attention: options.AttentionOption = "auto",
    head: options.DraftHead = None,
    timeout: options.Timeout = None,
    force: options.Force = False,
    fresh: Annotated[
        bool, option("--fresh", "Do not continue an interrupted run.", panel=Rare(options.DIAGNOSTICS))
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure decoding methods on the same prompts, with the same models and kernels, and check every token.

    Examples:
      specextend bench --len 1k,4k --docs 5
      specextend bench --input report.pdf --docs 1 --methods standard,specextend
      specextend bench --experiment lengths,policies --len 1k,4k --report lengths/
      specextend bench --suite quality --dataset reports.jsonl.gz -o quality/
    """
    from specextend_cli.ui.destination import check_writable, refuse_existing, refuse_inputs
    from specextend_cli.ui.output import Output

    terminal = Output(quiet=quiet)
    if list_methods:
        _list(terminal)
        return
    is_quality = suite == "quality"
    kind = format_name(format, json, None if is_quality else output)
    if output is None or is_quality:
        terminal.require_stdout()
    refuse_together(
        {"--experiment": experiment, "--profile": profile, "--suite": suite},
        {"--compare": compare, **({"--report": report, "--input": input} if is_quality else {"--methods": methods})},
    )
    if words is not None and not is_quality:
        raise UsageError("--words belongs to --suite quality", fix="add --suite quality")
    out = bench_result.BenchOutput(terminal, kind, output, report, timeout, one_line=json, force=force)
    run = options.given(preset=options.named(model), offline=offline)
    engine = options.given(
        temperature=temperature,
        seed=seed,
        device=device,
        dtype=dtype,
        compile=compile,
        attention=attention,
        draft=draft,
        draft_head=head,
    )
    if is_quality:
        from specextend_cli.summarize.summarizer import Options

        options.usable(device)
        sources = {name: context.get_parameter_source(name) for name in ("length", "docs")}
        chosen = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
        wanted = options.given(
            methods=methods and tuple(map(str.strip, methods.split(","))),
            lengths=tuple(map(str.strip, length.lower().split(","))) if "length" in chosen else None,
            docs=docs if "docs" in chosen else None,
            words=words,
            seed=seed,
            options=Options(engine=EngineOptions(**engine), **run),
        )
        bench_result.run_quality(out, dataset, wanted, fresh=fresh)
        return
    if report is not None and suite is None:  # the suite has no plots
        from specextend_cli.bench import plots

        plots.require()
    # Before anything is measured: no result may replace an input or a file, and each can be written.
    pages = () if report is None else (report / name for name in _PAGE)
    outputs = [path for path in (output, *pages) if path is not None]
    refuse_inputs(outputs, options.files(*(input or ()), dataset, compare, model))
    refuse_existing(outputs, force=force)
    for path in outputs:
        check_writable(path)
    if suite is not None:
        bench_result.run_suite(out, device)
        return
    options.usable(device)

    from specextend_cli.bench import experiments, session
    from specextend_cli.bench import methods as registry
    from specextend_cli.bench.records import parse_lengths

    chosen_experiments = None if experiment is None else experiments.parse(experiment)
    settings = session.Options(
        lengths=parse_lengths(length),
        tokens=tokens,
        decoding=decoding,
        docs=docs,
        repeats=repeats,
        methods=registry.parse(methods),
        inputs=tuple(input or ()),
        dataset=dataset,
        fresh=fresh,
        **run,
        **engine,
    )
    old = None if compare is None else bench_result.read(compare)
    if draft == "none":
        raise UsageError("--draft none leaves nothing to measure", fix="--methods plain measures plain decoding alone")
    if profile:
        chosen_experiments = ("profile",)
    if chosen_experiments:
        events = session.explore(settings, chosen_experiments, traces=report)
    else:
        events = session.run(settings)
    bench_result.show(out, bench_result.watch(out, events), old)


_PAGE = ("index.html", "benchmark.json", "experiments.json")  # files of a report, besides its plots


def _list(terminal: Output) -> None:
    from specextend_cli.bench import methods
    from specextend_cli.ui.tables import cell, table

    made = table("method", "")
    for name, text in methods.about().items():
        made.add_row(cell(name, "bold"), cell(text))
    terminal.show(made)
