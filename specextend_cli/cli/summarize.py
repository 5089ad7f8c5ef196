"""`specextend summarize FILES…`: read, summarize, write; go on after a failure and say at the end what failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specextend_cli.cli import options, signals
from specextend_cli.cli.reading import Source, sources
from specextend_cli.errors import PartialError, SpecextendError

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
    strict: options.Strict = False,
    length: options.Words = None,
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
    batch: options.Batch = None,
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

    [dim]Examples:[/]

      specextend summarize report.pdf

      specextend summarize report.pdf --cite --check

      specextend summarize *.pdf --output summaries/ --format md

      curl -s https://example.org/essay.txt | specextend summarize --length 100 | tee summary.txt
    """
    inputs = sources(files, example=EXAMPLE, pages=pages, password_file=password_file)
    options.go_offline(offline)

    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.destination import destination
    from specextend_cli.ui.marks import Marks
    from specextend_cli.ui.streams import Output

    settings = Options(
        **options.given(
            preset=model,
            words=length,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            device=device,
            dtype=dtype,
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
        if dry_run:
            from specextend_cli.cli.plan import print_plans

            print_plans(terminal, summarizer, inputs, as_json=json)
            return
        kind, marks = _format(format, json, output), Marks(cite, check)
        place = destination(output, kind, many=len(inputs) > 1, force=force, marks=marks)
        place.refuse_collisions([source.name for source in inputs])
        job = Job(terminal, summarizer, place, quiet=quiet, verbose=verbose)
        with signals.deadline(timeout):
            job.run(inputs)


@dataclass(frozen=True)
class Job:
    """One run of the command: the same summarizer over all inputs."""

    output: Output
    summarizer: Summarizer
    destination: Destination
    quiet: bool
    verbose: bool

    def run(self, inputs: Sequence[Source]) -> None:
        """Summarize every input. One failing alone raises its own error; several inputs raise PartialError."""
        if len(inputs) == 1:
            self._one(inputs[0])
            return
        tried = [(source, self._attempt(source)) for source in inputs]
        failures = [(source, error) for source, error in tried if error is not None]
        if failures:
            raise self._report(failures, len(inputs))

    def _attempt(self, source: Source) -> SpecextendError | None:
        """One of several inputs: its failure is a result, the deadline's is not."""
        try:
            self._one(source, heading=source.name)
        except signals.DeadlineError:
            raise
        except SpecextendError as error:
            return error
        return None

    def _one(self, source: Source, *, heading: str = "") -> None:
        from specextend_cli.ui.view import open_view

        path = self.destination.path(source.name)
        if path is not None and self.destination.keeps(path):
            if not self.quiet:
                self.output.note(f"{path} exists already; --force writes it again")
            return
        view = open_view(self.output, source.name, quiet=self.quiet, raw=self.destination.format in ("json", "jsonl"))
        try:
            with view, self.destination.open(view.write, path, heading=heading) as writer:
                summary = self._events(source, view, writer)
        except (KeyboardInterrupt, signals.DeadlineError):
            self.output.note(self._stopped(view))
            raise
        if self.verbose and not self.quiet:
            from specextend_cli.ui.tables import format_statistics

            self.output.note(format_statistics(summary.meter, summary.drafter))
        if not summary.coverage.complete:
            raise PartialError(
                f"{source.name} was not read completely",
                why=_unread(summary),
                fix="the summary covers the rest; --strict fails instead",
            )

    def _events(self, source: Source, view: View, writer: Writer) -> Summary:
        from specextend_cli.summarize.events import Stage, Summarized, Warned

        document = source.read(lambda done, total: view.add(Stage("reading", done, total, "pages")))
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
        if not self.summarizer.saves or chunks < 2:
            return "stopped; nothing was saved"
        return f"{progress.saved}/{chunks} chunks saved; run again to continue"

    def _report(self, failures: Sequence[tuple[Source, SpecextendError]], total: int) -> PartialError:
        from specextend_cli.ui.tables import failure_table

        self.output.console.print(failure_table([(source.name, error) for source, error in failures]))
        first = failures[0][0]
        return PartialError(
            f"{len(failures)} of {total} documents failed",
            fix=f"for more about one of them: specextend extract {first.path}",
        )


def _format(format: options.Format | None, json: bool, path: Path | None) -> str:
    """`--format`, else what the output's name says, else text."""
    by_suffix = {".md": "md", ".json": "json", ".jsonl": "jsonl"}
    return options.format_name(format, json) or by_suffix.get(path.suffix if path else "", "text")


def _unread(summary: Summary) -> str:
    from specextend_cli.ui.progress import format_coverage

    return format_coverage(summary.coverage)
