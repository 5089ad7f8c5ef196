"""`specextend summarize FILES…`: read, summarize and write each document; failures are listed at the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

from specextend_cli.cli import options, signals
from specextend_cli.cli.failures import attempt, report, show
from specextend_cli.cli.help import Rare
from specextend_cli.cli.inputs import parse_shard, sources
from specextend_cli.cli.model_choice import QUOTING, chosen_model, model_for, without_choice
from specextend_cli.cli.options import AUTO, INPUT, SPEED, STYLE, option
from specextend_cli.cli.source import Documents, Source, begin_reading
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_or
from specextend_cli.runtime.options import EngineOptions
from specextend_cli.ui import Format, format_by_suffix

if TYPE_CHECKING:
    from specextend_cli.cli.failures import Failure
    from specextend_cli.models.choice import Choice
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.destination import Destination
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import View

EXAMPLE = "specextend summarize FILES…"


def summarize(
    *,
    files: options.Files = None,
    length: options.LengthOption = None,
    style: options.StyleOption = None,
    mode: options.ModeOption = None,
    focus: Annotated[
        str | None, option("--focus", "Words or a question to concentrate on (abstractive: larger presets).", "TEXT")
    ] = None,
    cite: Annotated[bool, option("--cite", "Add source pages to each sentence: [p. 3, 7].")] = False,
    flag_unsupported: Annotated[
        bool, option("--flag-unsupported", "Mark numbers, dates and names the source lacks: [?].")
    ] = False,
    model: options.Model = None,
    output: options.OutputPath = None,
    format: Annotated[
        Format | None,
        option("--format -f", f"{format_or(get_args(Format))}. Default: by the output's name, else text.", "NAME"),
    ] = None,
    json: options.Json = False,
    force: options.Force = False,
    dry_run: Annotated[bool, option("--dry-run -n", "Show the plan without loading a model.")] = False,
    quiet: options.Quiet = False,
    verbose: Annotated[bool, option("--verbose -v", "Show more statistics at the end.")] = False,
    reading: options.ReadOptions,
    files_from: options.FilesFrom = None,
    shard: Annotated[
        str | None, option("--shard", "Only this share of the inputs, 1/N to N/N.", "i/N", Rare(INPUT))
    ] = None,
    strict: Annotated[
        bool,
        option("--strict", "Fail if a page cannot be read; pages without text are only listed.", panel=Rare(INPUT)),
    ] = False,
    language: Annotated[
        str | None,
        option("--lang", "Language to write in (needs a larger preset). Default: the document's.", "NAME", STYLE),
    ] = None,
    template: Annotated[
        Path | None,
        option("--template -t", "Your own prompt for the summary; {document} stands for the text.", "FILE", STYLE),
    ] = None,
    max_tokens: options.MaxTokens = None,
    engine: EngineOptions,
    offline: options.Offline = False,
    no_spec: Annotated[bool, option("--no-spec", "Plain decoding, without a drafter.", panel=SPEED)] = False,
    batch: Annotated[
        int | None,
        option(
            "--batch",
            "Chunk summaries decoded together, without drafts; 1: one at a time, with drafts.",
            "N",
            Rare(SPEED),
            min=1,
        ),
    ] = None,
    ray: Annotated[
        str | None,
        option(
            "--ray", "Use the workers of this Ray cluster; local: start one on this machine.", "ADDRESS", Rare(SPEED)
        ),
    ] = None,
    workers: Annotated[
        int | None,
        option("--workers", "Workers for --ray. Default: one per GPU, or per four cores.", "N", Rare(SPEED), min=1),
    ] = None,
    timeout: options.Timeout = None,
    no_cache: Annotated[
        bool, option("--no-cache", "Neither reuse nor store results of earlier runs.", panel=Rare(SPEED))
    ] = False,
) -> None:
    """Summarize documents.

    Examples:
      specextend summarize report.pdf
      specextend summarize report.pdf --cite --flag-unsupported
      specextend summarize *.pdf --output summaries/ --format md
      curl -s https://www.rfc-editor.org/rfc/rfc2324.txt | specextend summarize
    """
    share = parse_shard(shard)
    if workers is not None and ray is None:
        raise UsageError("--workers belongs to --ray", fix="--ray local")
    kind = options.format_name(format, json) or format_by_suffix(Path(output or "").suffix)
    engine = replace(engine, draft=options.drafter(engine.draft, no_spec))
    begun = begin_reading(files, reading) if ray is None and not dry_run else None  # beside the imports below

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
    wanted = Options(
        request=request,
        engine=engine,
        max_tokens=max_tokens,
        batch=batch,
        offline=offline,
        strict=strict,
        cache=not no_cache,
    )
    terminal = Output(quiet=quiet)
    results = None if output is None else Path(output)
    inputs = sources(files, reading, example=EXAMPLE, listed=files_from, offline=offline, results=results)
    if not dry_run and ray is None:
        options.usable(engine.device)
    # A list or a directory counts as many documents, even if it holds one.
    many = len(inputs) > 1 or bool(share or files_from) or any(source.within for source in inputs)
    place = destination(
        output, kind, [(source.name, source.file) for source in inputs], many=many, force=force, cite=cite
    )
    if not dry_run:
        read = options.files(*(source.file for source in inputs), template, reading.password_file, files_from, model)
        place.check([source.name for source in inputs], read)
        if place.is_stdout:
            terminal.require_stdout()
    inputs = inputs if share is None else share.take(inputs)
    documents = Documents(terminal, begun)
    with signals.deadline(timeout):
        if model in (None, AUTO) and (mode in QUOTING or engine.draft_head or ray is not None):
            choice = without_choice(mode)
        else:
            new = [source for source in inputs if (path := place.path(source.name)) is None or not place.keeps(path)]
            size = partial(documents.tokens, new)
            if dry_run or model not in (None, AUTO):
                choice = chosen_model(model, engine.device, size)
            else:
                writes = mode == "abstractive" or request.needs_writing
                choice = model_for(terminal, size, writes=writes, device=engine.device, offline=offline)
        with closing(Summarizer(replace(wanted, preset=choice.preset))) as summarizer:
            mode, generating = summarizer.settings.mode, [*options.generating(engine), *(["--batch"] if batch else [])]
            if mode != "abstractive" and generating and not quiet:
                terminal.warn(f"{', '.join(generating)}: no effect, because {mode} mode generates no text")
            if dry_run:
                from specextend_cli.cli.plan import print_plans

                print_plans(terminal, summarizer, inputs, as_json=json, choice=choice)
                return
            job = Job(terminal, summarizer, place, documents, choice, verbose=verbose, many=many)
            job.run(inputs) if ray is None else job.run_over(ray, inputs, workers)


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
    said: set[str] = field(default_factory=set)
    """Warnings that name no document: each is shown once, however many documents have it."""

    def run(self, inputs: Sequence[Source]) -> None:
        """Summarize every input. The error of a single input is raised; failures of several become a PartialError."""
        if not self.many:
            self._one(inputs[0])
            return
        failures: list[Failure] = []
        try:
            with self.destination.all(self.output.write):
                for number, source in enumerate(inputs, 1):
                    position = f"{number}/{len(inputs)}"
                    if (error := attempt(partial(self._one, source, position))) is not None:
                        failures.append((source, error))
                        self.output.note(f"{source.name}: error: {error.what}")
        except BaseException:
            show(self.output, failures)  # what ends the run is no reason to keep quiet about them
            raise
        report(self.output, failures, len(inputs))

    def run_over(self, address: str, inputs: Sequence[Source], workers: int | None) -> None:
        """Summarize every input with the workers of a Ray cluster."""
        from specextend_cli.cli import ray_pool

        if not inputs:
            return
        with self.destination.all(self.output.write):
            failures = ray_pool.run(address, inputs, self.output, self.destination, self.summarizer, workers)
        if failures and not self.many:
            raise failures[0][1]
        report(self.output, failures, len(inputs))

    def _one(self, source: Source, position: str = "") -> None:
        from specextend_cli.summarize.events import Warned
        from specextend_cli.ui.panel import open_view
        from specextend_cli.ui.progress import incomplete

        path = self.destination.path(source.name)
        if path is not None and self.destination.keeps(path):
            self.output.status(f"{path} exists already; --force writes it again")
            return
        view = open_view(self.output, source.name, position, raw=not self.destination.is_prose)
        heading = source.name if position else ""
        try:
            with view, self.destination.open(view.write, source.name, heading=heading) as writer:
                self.summarizer.load_ahead()
                document = self.documents.read(source, view)
                for event in chain(map(Warned, document.extraction.warnings), self.summarizer.run(document)):
                    if not isinstance(event, Warned) or self._is_new(event.message, document.name):
                        view.add(event)
                    writer.add(event)
        except (KeyboardInterrupt, signals.Terminated, signals.DeadlineError):
            self.output.note(self._stopped(view))
            raise
        summary = view.progress.summary
        assert summary is not None  # the last event has it
        if self.verbose:
            from specextend_cli.ui.progress import format_details

            uses_model = self.summarizer.settings.mode != "extractive"
            model = f"{self.choice.preset} ({self.choice.reason})" if uses_model else ""
            self.output.status(format_details(view.progress, model))
        if (error := incomplete(source.name, summary)) is not None:
            raise error

    def _is_new(self, message: str, document: str) -> bool:
        if document in message:
            return True
        known = message in self.said
        self.said.add(message)
        return not known

    def _stopped(self, view: View) -> str:
        progress = view.progress
        chunks = len(progress.plan.chunks) if progress.plan else 0
        if not self.summarizer.saves or not progress.saved or chunks < 2:
            return "stopped; nothing was saved"
        return f"{progress.saved}/{chunks} chunks saved; run again to continue"
