"""One run of `summarize`: each document is read, summarized, shown and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from specextend_cli.cli import signals
from specextend_cli.cli.choice import REASONS
from specextend_cli.cli.failures import Failures
from specextend_cli.cli.inputs import Documents, Source
from specextend_cli.errors import SpecextendError
from specextend_cli.models.choice import Choice
from specextend_cli.summarize.events import Event, Warned
from specextend_cli.summarize.ray_pool import Result
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer
from specextend_cli.ui.destination import Destination
from specextend_cli.ui.output import Output
from specextend_cli.ui.panel import View, open_view
from specextend_cli.ui.progress import format_details, incomplete


@dataclass(frozen=True)
class Job:
    """One run of the command: one summarizer and one request for all inputs."""

    output: Output
    summarizer: Summarizer
    request: Request
    destination: Destination
    documents: Documents
    choice: Choice
    verbose: bool
    many: bool
    warned: set[str] = field(default_factory=set)
    """Warnings that name no document: each is shown once, however many documents have it."""
    methods: set[str] = field(default_factory=set)
    """How summaries were made: see `Method`."""

    def run(self, inputs: Sequence[Source], results: Iterable[tuple[Source, Result]] | None = None) -> None:
        """Summarize every input, or write the `results` that workers have made of the inputs, as they come."""
        failures = Failures(self.output, len(inputs), alone=not self.many)
        with self.destination.all(self.output.write):
            for number, (source, result) in enumerate(results or ((one, None) for one in inputs), 1):
                failures.attempt(source, partial(self._one, f"{number}/{len(inputs)}", result))
        failures.report()

    def _one(self, position: str, result: Result | None, source: Source) -> None:
        if isinstance(result, SpecextendError):
            raise result
        if self.destination.keeps(source.name):
            self.output.status(f"{self.destination.paths[source.name]} exists already; --force writes it again")
            return
        view = open_view(
            self.output, source.name, position * self.many, raw=self.destination.format in ("json", "jsonl")
        )
        self._write(source, view, self._events(source, view) if result is None else result)

    def _events(self, source: Source, view: View) -> Iterator[Event]:
        self.summarizer.load_ahead(self.request)
        document = self.documents.read(source, view)
        yield from chain(map(Warned, document.extraction.warnings), self.summarizer.run(document, self.request))

    def _write(self, source: Source, view: View, events: Iterable[Event]) -> None:
        """Show and write the events of one document. PartialError where it was not read completely."""
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
        self.methods.add(summary.method)
        if self.verbose:
            model = f"{self.summarizer.preset.name}, {REASONS[self.choice.reason]}"
            self.output.status(format_details(view.progress, model))
        if (error := incomplete(source.name, summary)) is not None:
            raise error

    def _is_new(self, message: str, document: str) -> bool:
        is_new = message not in self.warned or document in message
        self.warned.add(message)
        return is_new

    def _stopped(self, view: View) -> str:
        progress = view.progress
        chunks = len(progress.plan.chunks) if progress.plan else 0
        if not self.summarizer.saves or not progress.saved or chunks < 2:
            return "stopped; nothing was saved"
        return f"{progress.saved}/{chunks} chunks saved; run again to continue"
