"""`specextend bench`: every method over the same prompts, measured, compared with plain decoding, token for token."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specextend_cli.cli import bench_options as own
from specextend_cli.cli import options
from specextend_cli.errors import UsageError

if TYPE_CHECKING:
    from specextend_cli.ui.streams import Output


def bench(
    context: typer.Context,
    length: own.Lengths = "1k",
    docs: own.Docs = 2,
    input: own.Inputs = None,
    dataset: own.Dataset = None,
    methods: own.Methods = None,
    list_methods: own.List = False,
    report: own.Report = None,
    compare: own.Compare = None,
    output: own.OutputPath = None,
    format: own.FormatOption = None,
    json: own.Json = False,
    experiment: own.Experiments = None,
    profile: own.Profile = False,
    suite: own.Suite = None,
    words: own.Words = None,
    tune: own.Tune = None,
    explain: own.Explain = False,
    tokens: own.Tokens = None,
    repeats: own.Repeats = 1,
    decoding: own.Decoding = "preset",
    workload: own.Workload = "summary",
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = "auto",
    offline: options.Offline = False,
    draft: options.DraftOption = None,
    compile: options.Compile = True,
    head: options.DraftHead = None,
    timeout: options.Timeout = None,
    force: options.Force = False,
    fresh: own.Fresh = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Measure decoding methods on the same prompts, with the same models and kernels, and check every token.

    Examples:
      specextend bench --len 1k,4k --docs 5
      specextend bench --input report.pdf --docs 1 --methods standard,specextend
      specextend bench --experiment lengths,gate --len 1k,4k --report lengths/
      specextend bench --tune fast.toml --docs 8
      specextend bench --suite quality --dataset reports.jsonl.gz -o quality/
    """
    from specextend_cli.ui.streams import Output

    terminal = Output()
    if list_methods:
        _list(terminal)
        return
    is_quality = suite == "quality"
    kind = own.format_name(format, json, None if is_quality else output)
    if output is None or is_quality:
        terminal.require_stdout()
    own.refuse_together(
        {"--experiment": experiment, "--tune": tune, "--profile": profile, "--suite": suite},
        {"--compare": compare, **({"--report": report, "--input": input} if is_quality else {"--methods": methods})},
    )
    if words is not None and not is_quality:
        raise UsageError("--words belongs to --suite quality", fix="add --suite quality")
    if is_quality:
        from specextend_cli.cli import bench_suite

        options.go_offline(offline)
        options.usable(device)
        sources = {name: context.get_parameter_source(name) for name in ("length", "docs")}
        chosen = {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}
        bench_suite.run_quality(
            terminal,
            dataset,
            kind or "md",
            output,
            options.given(
                methods=methods and tuple(map(str.strip, methods.split(","))),
                lengths=tuple(map(str.strip, length.lower().split(","))) if "length" in chosen else None,
                docs=docs if "docs" in chosen else None,
                words=words,
                seed=seed,
                options=options.given(
                    preset=model,
                    temperature=temperature,
                    seed=seed,
                    device=device,
                    dtype=dtype,
                    compile=compile,
                    offline=offline,
                    draft=options.drafter(draft, no_spec=False),
                    draft_head=None if head is None else str(head.absolute()),
                ),
            ),
            timeout=timeout,
            quiet=quiet,
            one_line=json,
            fresh=fresh,
        )
        return
    if report is not None and suite is None:  # the suite has no plots
        from specextend_cli.bench import plots

        plots.require()
    _check_outputs(
        outputs=(output, tune, *(() if report is None else (report / name for name in _PAGE))),
        inputs=(*(input or ()), dataset, compare, model),
        force=force,
    )
    if suite is not None:
        from specextend_cli.cli import bench_suite

        bench_suite.run(
            terminal, device, kind, output, report, timeout=timeout, quiet=quiet, one_line=json, force=force
        )
        return
    options.go_offline(offline)
    options.usable(device)

    from specextend_cli.bench import experiments, session
    from specextend_cli.bench import methods as registry
    from specextend_cli.bench.records import parse_lengths
    from specextend_cli.cli import bench_result
    from specextend_cli.models.preset_file import check_name

    wanted = None if experiment is None else experiments.parse(experiment)
    if explain and tune is None:
        raise UsageError("--explain belongs to --tune", fix="add --tune NAME.toml")
    if tune is not None:
        check_name(tune)

    settings = session.Options(
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
            compile=compile,
            offline=offline,
            draft=options.drafter(draft, no_spec=False),
            head=None if head is None else str(head.absolute()),
            fresh=fresh,
        )
    )
    old = None if compare is None else bench_result.read(compare)
    if draft == "none":
        raise UsageError("--draft none leaves nothing to measure", fix="--methods plain measures plain decoding alone")
    wanted = ("tune",) if tune is not None else ("profile",) if profile else wanted
    events = session.explore(settings, wanted, traces=report, explain=explain) if wanted else session.run(settings)
    result = bench_result.watch(terminal, events, timeout=timeout, quiet=quiet)
    bench_result.show(terminal, result, kind, output, one_line=json, force=force)
    if report is not None:
        page = bench_result.write_page(result, report)
        if not quiet:
            terminal.note(f"report: {page}")
    if tune is not None:
        found = bench_result.write_preset(result, tune, force=force)
        if not quiet:
            terminal.note(f"written: {tune}" if found else f"the preset's own settings stand; {tune} was not written")
    result.forget()
    bench_result.judge(result, old)


_PAGE = ("index.html", "benchmark.json", "experiments.json")
"""Files of a report, besides its plots."""


def _check_outputs(*, outputs: Sequence[Path | None], inputs: Sequence[Path | str | None], force: bool) -> None:
    """UsageError, before anything is measured, if a result would replace an input or a file, or cannot be written."""
    from specextend_cli.ui.destination import check_writable
    from specextend_cli.ui.overwriting import refuse_existing, refuse_inputs

    wanted = [path for path in outputs if path is not None]
    refuse_inputs(wanted, options.files(*inputs))
    refuse_existing(wanted, force=force)
    for path in wanted:
        check_writable(path)


def _list(terminal: Output) -> None:
    from specextend_cli.bench import methods
    from specextend_cli.ui.tables import cell, table

    made = table("method", "")
    for name, text in methods.about().items():
        made.add_row(cell(name, "bold"), cell(text))
    terminal.show(made)
