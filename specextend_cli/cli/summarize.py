"""`specextend summarize FILES…`: read, summarize, write; go on after a failure and say at the end what failed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.cli import options, signals
from specextend_cli.cli.inputs import all_inputs, parse_shard
from specextend_cli.cli.reading import Source
from specextend_cli.errors import ModelError, PartialError, SpecextendError, UsageError

if TYPE_CHECKING:
    from specextend_cli.summarize.events import Summary
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.destination import Destination
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.view import View
    from specextend_cli.ui.writers import Writer

EXAMPLE = "specextend summarize FILES…"


def summarize(
    files: options.Files = None,
    pages: options.Pages = None,
    password_file: options.PasswordFile = None,
    ocr: options.OcrOption = False,
    ocr_lang: options.OcrLanguages = None,
    full_page: options.FullPage = False,
    allow_url: options.AllowUrl = False,
    files_from: options.FilesFrom = None,
    shard: options.ShardOption = None,
    strict: options.Strict = False,
    length: options.Length = None,
    style: options.StyleOption = options.Style.paragraph,
    focus: options.Focus = None,
    language: options.Language = None,
    template: options.Template = None,
    sentences: options.SentencesOption = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.auto,
    offline: options.Offline = False,
    draft: options.DraftOption = None,
    head: options.HeadOption = None,
    policy: options.PolicyOption = None,
    no_spec: options.NoSpec = False,
    compile: options.Compile = True,
    batch: options.Batch = None,
    ray: options.RayOption = None,
    workers: options.Workers = None,
    timeout: options.Timeout = None,
    no_cache: options.NoCache = False,
    output: options.OutputPath = None,
    format: options.FormatOption = None,
    json: options.Json = False,
    cite: options.Cite = False,
    check: options.Check = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    debug: options.Debug = False,
) -> None:
    """Summarize documents.

    Examples:
      specextend summarize report.pdf
      specextend summarize report.pdf --cite --check
      specextend summarize *.pdf --output summaries/ --format md
      curl -s https://www.rfc-editor.org/rfc/rfc2324.txt | specextend summarize
    """
    share = parse_shard(shard)
    if workers is not None and ray is None:
        raise UsageError("--workers belongs to --ray", fix="--ray local")
    kind = _format(format, json, output)
    options.go_offline(offline)

    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.annotations import Annotations
    from specextend_cli.ui.destination import destination
    from specextend_cli.ui.streams import Output

    settings = Options(
        **options.given(
            preset=model,
            length=options.length(length),
            style=style,
            focus=focus,
            language=language,
            template=options.template(template),
            sentences=sentences,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            device=device,
            dtype=dtype,
            compile=compile,
            offline=offline,
            draft=options.drafter(draft, no_spec),
            head=None if head is None else str(head.absolute()),
            policy=policy,
            batch=batch,
            strict=strict,
            cache=not no_cache,
        )
    )
    terminal = Output()
    with closing(Summarizer(settings)) as summarizer:
        if not dry_run and ray is None:
            options.usable(device)
        inputs = all_inputs(
            files,
            example=EXAMPLE,
            listed=files_from,
            pages=pages,
            password_file=password_file,
            allow_url=allow_url,
            offline=offline,
            ocr=options.ocr(ocr, ocr_lang),
            full_page=full_page,
            results=None if output is None else Path(output),
        )
        if dry_run:
            from specextend_cli.cli.plan import print_plans

            print_plans(terminal, summarizer, inputs, as_json=json)
            return
        # A list or a directory may happen to hold one document: what becomes of it does not depend on that.
        many = len(inputs) > 1 or bool(share or files_from) or any(source.within for source in inputs)
        place = destination(output, kind, many=many, force=force, marks=Annotations(cite, check))
        reading = options.files(*(source.file for source in inputs), template, password_file, files_from, model)
        place.check([source.name for source in inputs], reading)
        if place.is_stdout:
            terminal.require_stdout()
        job = Job(terminal, summarizer, place, quiet=quiet, verbose=verbose, many=many)
        inputs = inputs if share is None else share.take(inputs)
        with signals.deadline(timeout):
            if ray is None:
                job.run(inputs)
            else:
                job.run_over(ray, inputs, workers)


@dataclass(frozen=True)
class Job:
    """One run of the command: the same summarizer over all inputs."""

    output: Output
    summarizer: Summarizer
    destination: Destination
    quiet: bool
    verbose: bool
    many: bool

    def run(self, inputs: Sequence[Source]) -> None:
        """Summarize every input. One failing alone raises its own error; several inputs raise PartialError."""
        if not self.many:
            self._one(inputs[0], inputs[0].name)
            return
        failures = []
        with self.destination.all(self.output.write):
            for number, source in enumerate(inputs, 1):
                if (error := self._attempt(source, f"{number}/{len(inputs)} {source.name}")) is not None:
                    failures.append((source, error))
        self._report(failures, len(inputs))

    def run_over(self, address: str, inputs: Sequence[Source], workers: int | None) -> None:
        """The same over the workers of a Ray cluster."""
        from specextend_cli.cli import ray_fleet

        if not inputs:
            return
        with self.destination.all(self.output.write):
            failures = ray_fleet.run(
                address,
                inputs,
                output=self.output,
                destination=self.destination,
                options=self.summarizer.options,
                notes=self.summarizer.notes,
                workers=workers,
                quiet=self.quiet,
            )
        if failures and not self.many:
            raise failures[0][1]
        self._report(failures, len(inputs))

    def _attempt(self, source: Source, title: str) -> SpecextendError | None:
        """One of several inputs: its failure is a result, a defect's too. What would fail for all of them is not."""
        try:
            self._one(source, title, heading=source.name)
        except (signals.DeadlineError, ModelError, OSError):
            raise
        except SpecextendError as error:
            return _alone(error)
        except Exception as error:
            return SpecextendError("something unexpected went wrong", why=f"{type(error).__name__}: {error}")
        return None

    def _one(self, source: Source, title: str, *, heading: str = "") -> None:
        from specextend_cli.ui.view import open_view

        path = self.destination.path(source.name)
        if path is not None and self.destination.keeps(path):
            if not self.quiet:
                self.output.note(f"{path} exists already; --force writes it again")
            return
        view = open_view(self.output, title, quiet=self.quiet, raw=self.destination.format in ("json", "jsonl"))
        try:
            with view, self.destination.open(view.write, path, name=source.name, heading=heading) as writer:
                summary = self._events(source, view, writer)
        except (KeyboardInterrupt, signals.Terminated, signals.DeadlineError):
            self.output.note(self._stopped(view))
            raise
        if self.verbose and not self.quiet:
            from specextend_cli.ui.tables import format_statistics

            self.output.note(format_statistics(summary.meter, summary.drafter))
        if (error := incomplete(source.name, summary)) is not None:
            raise error

    def _events(self, source: Source, view: View, writer: Writer) -> Summary:
        from specextend_cli.summarize.events import Stage, Summarized, Warned

        document = source.read(
            lambda done, total: view.add(Stage("reading", done, total, "pages")),
            lambda done, total: view.add(Stage("recognizing", done, total, "pages")),
        )
        both: Sequence[Callable[..., None]] = (view.add, writer.add)
        for message in document.extraction.warnings:
            for add in both:
                add(Warned(message))
        for event in self.summarizer.run(document):
            for add in both:
                add(event)
            if isinstance(event, Summarized):
                return event.summary
        raise AssertionError("the summarizer ended without a summary")

    def _stopped(self, view: View) -> str:
        progress = view.progress
        chunks = len(progress.plan.chunks) if progress.plan else 0
        if not self.summarizer.saves or not progress.saved or chunks < 2:
            return "stopped; nothing was saved"
        return f"{progress.saved}/{chunks} chunks saved; run again to continue"

    def _report(self, failures: Sequence[tuple[Source, SpecextendError]], total: int) -> None:
        """Say what failed of `total` documents; PartialError where anything did."""
        if not failures:
            return
        from specextend_cli.ui.tables import failure_table

        self.output.note_table(failure_table([(source.name, error) for source, error in failures]))
        raise PartialError(
            f"{len(failures)} of {total} documents failed",
            fix=f"for more about one of them: specextend extract {shlex.quote(failures[0][0].path)}",
        )


def _alone(error: SpecextendError) -> SpecextendError:
    """An error without the frames it passed: they would keep its document in memory to the end of the batch."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _format(format: options.Format | None, json: bool, output: str | None) -> str:
    """`--format`, else what the output's name says, else text."""
    by_suffix = {".md": "md", ".json": "json", ".jsonl": "jsonl"}
    return options.format_name(format, json) or by_suffix.get(Path(output or "").suffix, "text")


def incomplete(name: str, summary: Summary) -> PartialError | None:
    """What is to be said of a summary that does not cover its whole document."""
    from specextend_cli.ui.progress import format_coverage

    if summary.coverage.complete:
        return None
    return PartialError(
        f"{name} was not read completely",
        why=format_coverage(summary.coverage),
        fix="the summary covers the rest; --strict fails instead",
    )
