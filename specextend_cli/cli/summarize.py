"""`specextend summarize FILES…`: read, summarize and write each document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from specextend_cli.cli import options, signals
from specextend_cli.cli.choice import REASONS, chosen_model, configured_model, hint
from specextend_cli.cli.failures import Failures
from specextend_cli.cli.inputs import Documents, Reading, Source, read_files, sources
from specextend_cli.cli.options import AUTO, option
from specextend_cli.errors import SpecextendError, UsageError
from specextend_cli.humanize import format_or
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.ui import Format, format_by_suffix

if TYPE_CHECKING:
    from specextend_cli.cli.ray_pool import Result
    from specextend_cli.models.choice import Choice
    from specextend_cli.summarize.events import Event
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.destination import Destination
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import View


def summarize(
    files: options.Files = None,
    length: options.LengthOption = None,
    style: options.StyleOption = None,
    mode: options.ModeOption = None,
    focus: Annotated[
        str | None, option("--focus", "Words or a question to concentrate on (abstractive: larger presets).", "TEXT")
    ] = None,
    cite: Annotated[
        bool, option("--cite", "Add source pages to sentences, [p. 3, 7], and [?] to what the source lacks.")
    ] = False,
    language: Annotated[
        str | None,
        option("--lang", "Language to write in (needs a larger preset). Default: the document's.", "NAME"),
    ] = None,
    template: Annotated[
        Path | None,
        option("--template -t", "Your own prompt for the summary; {document} stands for the text.", "FILE"),
    ] = None,
    output: options.OutputPath = None,
    format: Annotated[
        Format | None,
        option("--format -f", f"{format_or(get_args(Format))}. Default: by the output's name, else text.", "NAME"),
    ] = None,
    json: options.Json = False,
    force: options.Force = False,
    dry_run: Annotated[
        bool, option("--dry-run -n", "Show size, prompts, time and memory without loading a model.")
    ] = False,
    quiet: options.Quiet = False,
    verbose: Annotated[bool, option("--verbose -v", "Show more statistics at the end.")] = False,
    pages: options.Pages = None,
    ocr: options.UseOcr = False,
    ocr_languages: options.OcrLanguages = None,
    files_from: Annotated[
        str | None, option("--files-from", "Also read the files listed in this file, one a line.", "PATH")
    ] = None,
    model: options.Model = None,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    device: options.Device = "auto",
    draft: options.DraftOption = None,
    draft_head: options.DraftHead = None,
    offline: options.Offline = False,
    batch: Annotated[
        int | None,
        option(
            "--batch", "Chunk summaries decoded together, without drafts; 1: one at a time, with drafts.", "N", min=1
        ),
    ] = None,
    ray: Annotated[
        str | None, option("--ray", "Use the workers of this Ray cluster; local: start one on this machine.", "ADDRESS")
    ] = None,
    workers: Annotated[
        int | None, option("--workers", "Workers for --ray. Default: one per GPU, or per four cores.", "N", min=1)
    ] = None,
    no_cache: Annotated[bool, option("--no-cache", "Neither reuse nor store results of earlier runs.")] = False,
) -> None:
    """Summarize documents.

    \b
    Examples:
      specextend summarize report.pdf
      specextend summarize report.pdf --length 150 --cite
      specextend summarize *.pdf --output summaries/ --format md
      curl -s https://www.rfc-editor.org/rfc/rfc2324.txt | specextend summarize
    """
    if workers is not None and ray is None:
        raise UsageError("--workers belongs to --ray", fix="--ray local")
    kind = options.format_name(format, json) or format_by_suffix(Path(output or "").suffix)
    reading = Reading.of(pages, ocr, ocr_languages)
    documents = Documents()
    if ray is None and not dry_run:
        documents.begin(files, reading)  # beside the imports below

    from specextend_cli.summarize.request import SummaryRequest
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.destination import destination
    from specextend_cli.ui.output import Output

    request = SummaryRequest(
        length=options.length(length),
        style=style,
        focus=focus,
        language=language,
        template=options.template(template),
        mode=mode,
    )
    engine = EngineOptions(temperature=temperature, seed=seed, device=device, draft=draft, draft_head=draft_head)
    wanted = Options(request=request, engine=engine, batch=batch, offline=offline, cache=not no_cache)
    terminal, results = Output(quiet=quiet), None if output is None else Path(output)
    inputs = sources(files, reading, command="summarize", listed=files_from, offline=offline, results=results)
    # A list or a directory counts as many documents, even if it holds one.
    many = len(inputs) > 1 or bool(files_from) or any(source.within for source in inputs)
    named = [(source.name, source.file) for source in inputs]
    place = destination(output, kind, named, many=many, force=force, cite=cite)
    if not dry_run:
        if ray is None:
            options.usable(device)
        read = read_files(*(source.file for source in inputs), template, files_from, model)
        place.check([source.name for source in inputs], read)
        if place.is_stdout:
            terminal.require_stdout()
    left = [source for source in inputs if not place.keeps(source.name)]
    writes = mode == "abstractive" or request.needs_writing
    if model in (None, AUTO) and (mode in ("extractive", "guided") or draft_head or ray is not None):
        choice = configured_model(quoting=not writes and mode is not None)
    else:
        asking = None if dry_run else terminal
        choice = chosen_model(model, device, partial(documents.tokens, left, terminal), asking=asking, offline=offline)
    with closing(Summarizer(replace(wanted, preset=choice.preset))) as summarizer:
        _warn_of_no_effect(terminal, summarizer, batch)
        if dry_run:
            from specextend_cli.cli.dry_run import print_plans

            print_plans(terminal, summarizer, inputs, as_json=json, choice=choice)
            return
        job = Job(terminal, summarizer, place, documents, choice, verbose=verbose, many=many)
        if ray is None:
            job.run(inputs)
        else:
            from specextend_cli.cli import ray_pool

            job.run_over(left, ray_pool.results(ray, left, terminal, summarizer, workers))
        if advice := hint(choice, writes=writes):
            terminal.status(advice)


def _warn_of_no_effect(output: Output, summarizer: Summarizer, batch: int | None) -> None:
    """Name the options that matter only where text is generated, where none is."""
    from specextend_cli.runtime.options import GENERATING

    mode, engine = summarizer.settings.mode, summarizer.options.engine
    given = [f"--{name.replace('_', '-')}" for name in GENERATING if getattr(engine, name) is not None]
    given += ["--batch"] if batch else []
    if mode != "abstractive" and given and not output.quiet:
        output.warn(f"{', '.join(given)}: no effect, because {mode} mode generates no text")


@dataclass(frozen=True)
class Job:
    """One run of the command: one summarizer for all inputs."""

    output: Output
    summarizer: Summarizer
    destination: Destination
    documents: Documents
    choice: Choice
    verbose: bool
    many: bool
    warned: set[str] = field(default_factory=set)
    """Warnings that name no document: each is shown once, however many documents have it."""

    def run(self, inputs: Sequence[Source]) -> None:
        """Summarize every input."""
        failures = Failures(self.output, len(inputs))
        with self.destination.all(self.output.write):
            for number, source in enumerate(inputs, 1):
                failures.attempt(source, partial(self._one, source, f"{number}/{len(inputs)}"))
        failures.report()

    def run_over(self, inputs: Sequence[Source], results: Iterator[tuple[Source, Result]]) -> None:
        """Write what the workers of a Ray cluster have made of the inputs, as it comes."""
        failures = Failures(self.output, len(inputs))
        with self.destination.all(self.output.write):
            for number, (source, result) in enumerate(results, 1):
                failures.attempt(source, partial(self._made, source, f"{number}/{len(inputs)}", result))
        failures.report()

    def _one(self, source: Source, number: str) -> None:
        if self.destination.keeps(source.name):
            self.output.status(f"{self.destination.path(source.name)} exists already; --force writes it again")
            return
        view = self._view(source, number)
        self._write(source, view, self._events(source, view))

    def _made(self, source: Source, number: str, result: Result) -> None:
        if isinstance(result, SpecextendError):
            raise result
        self._write(source, self._view(source, number), result)

    def _view(self, source: Source, number: str) -> View:
        from specextend_cli.ui.panel import open_view

        position = number if self.many else ""
        return open_view(self.output, source.name, position, raw=not self.destination.is_prose)

    def _events(self, source: Source, view: View) -> Iterator[Event]:
        from specextend_cli.summarize.events import Warned

        self.summarizer.load_ahead()
        document = self.documents.read(source, view)
        yield from chain(map(Warned, document.extraction.warnings), self.summarizer.run(document))

    def _write(self, source: Source, view: View, events: Iterable[Event]) -> None:
        """Show and write the events of one document. PartialError where it was not read completely."""
        from specextend_cli.summarize.events import Warned
        from specextend_cli.ui.progress import format_details, incomplete

        heading = source.name if self.many else ""
        try:
            with view, self.destination.open(view.write, source.name, heading=heading) as writer:
                for event in events:
                    if not isinstance(event, Warned) or self._is_new(event.message, source.name):
                        view.add(event)
                    writer.add(event)
        except (KeyboardInterrupt, signals.Terminated):
            self.output.note(self._stopped(view))
            raise
        summary = view.progress.summary
        assert summary is not None  # the last event has it
        if self.verbose:
            uses_model = self.summarizer.settings.mode != "extractive"
            model = f"{self.choice.preset}, {REASONS[self.choice.reason]}" if uses_model else ""
            self.output.status(format_details(view.progress, model))
        if (error := incomplete(source.name, summary)) is not None:
            raise error

    def _is_new(self, message: str, document: str) -> bool:
        if document in message:
            return True
        is_new = message not in self.warned
        self.warned.add(message)
        return is_new

    def _stopped(self, view: View) -> str:
        progress = view.progress
        chunks = len(progress.plan.chunks) if progress.plan else 0
        if not self.summarizer.saves or not progress.saved or chunks < 2:
            return "stopped; nothing was saved"
        return f"{progress.saved}/{chunks} chunks saved; run again to continue"
