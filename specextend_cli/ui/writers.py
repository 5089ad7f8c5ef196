"""Results in the formats of `Format`: a writer takes events and calls `write`, to stdout, a file or the panel."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, TypeAlias

from specextend_cli import __version__
from specextend_cli.humanize import format_many
from specextend_cli.summarize.events import Event, Method, Part, Plan, Sentence, Summarized, Summary, Text
from specextend_cli.ui import Format
from specextend_cli.ui.annotations import Annotations
from specextend_cli.ui.jsonl import format_event, format_json, named, summary_record
from specextend_cli.ui.progress import format_coverage
from specextend_cli.ui.streams import Sanitizer, sanitize

Write: TypeAlias = Callable[[str], object]
NO_MARKS = Annotations()  # JSON always contains citations and unsupported facts

_MADE: dict[Method, str] = {
    "extractive": "Sentences of the source, chosen without a model",
    "guided": "Sentences of the source, chosen with {}",
    "abstractive": "Written by {} (drafter: {})",
    "lead": "The first sentences of the source, taken",
    "verbatim": "The source as it is, which is no longer than a summary: read",
}
_MARKDOWN = re.compile(r"([\\`*_\[\]<>#|])")


class Writer(ABC):
    """Formats the events of one `document` and passes the text to `write`.

    `is_prose`: it is for people. On stdout each of several documents has a heading, and a terminal wraps the text.
    """

    is_prose: ClassVar[bool] = True

    def __init__(self, write: Write, marks: Annotations = NO_MARKS, document: str = "") -> None:
        self.write = write
        self._marks = marks
        self._document = document

    @abstractmethod
    def add(self, event: Event) -> None:
        """Take one event."""


class TextWriter(Writer):
    """The summary as it is generated, sanitized; with `marks` by sentences, whose citations are known at their end."""

    def __init__(self, write: Write, marks: Annotations = NO_MARKS, document: str = "") -> None:
        super().__init__(write, marks, document)
        self._clean = Sanitizer()
        self._started = False
        self._last = "\n"
        self._unit = "page"
        self._waiting = ""
        self._end = 0

    def add(self, event: Event) -> None:
        """Write the text of the summary; chunk summaries are ignored."""
        match event:
            case Plan():
                self._unit = event.unit
            case Text() if event.final and self._marks:
                self._waiting += event.delta
            case Text() if event.final:
                self._emit(self._clean.feed(event.delta))
            case Sentence() if self._marks:
                size, self._end = event.end - self._end, event.end
                text, self._waiting = self._waiting[:size], self._waiting[size:]
                self._emit(self._clean.feed(self._marks.mark(text, event, self._unit)))
            case Summarized():
                self._emit(self._clean.feed(self._waiting) + self._clean.close())
                if self._last != "\n":
                    self.write("\n")

    def _emit(self, text: str) -> None:
        if not self._started:
            text = text.lstrip()
        if text:
            self._started, self._last = True, text[-1]
            self.write(text)


class MarkdownWriter(TextWriter):
    """The summary and a footer with its coverage."""

    _span: tuple[int, int] | None = None

    def add(self, event: Event) -> None:
        """Write the text of the summary and, at its end, the footer."""
        super().add(event)
        match event:
            case Part():
                first, last = self._span or event.pages
                self._span = (min(first, event.pages[0]), max(last, event.pages[1]))
            case Summarized():
                self.write(format_footer(event.summary, self._span))


def format_footer(summary: Summary, span: tuple[int, int] | None = None) -> str:
    """A rule and two lines: the source with its coverage; the preset with its drafter."""
    counted = summary.plan.counted
    coverage = format_coverage(summary.coverage, span, counted)
    made = _MADE[summary.method].format(escape(summary.preset), escape(summary.drafter))
    return (
        "\n---\n\n"
        f"*Source: {escape(summary.document)}, {format_many(summary.coverage.tokens, counted)}; {coverage}.*\n"
        f"*{made} with specextend {__version__}.*\n"
    )


def escape(text: str) -> str:
    """`text` escaped for Markdown."""
    return _MARKDOWN.sub(r"\\\1", sanitize(text).replace("\n", " "))


class JsonWriter(Writer):
    """One JSON object at the end of the document."""

    is_prose = False

    def add(self, event: Event) -> None:
        """Write the result with the last event."""
        if isinstance(event, Summarized):
            self.write(format_json(named(summary_record(event.summary), self._document)) + "\n")


class JsonArray:
    """Several JSON objects on one stream as an array: `item` returns a `write` for each, `close` ends the array."""

    def __init__(self) -> None:
        self._started = False

    def item(self, write: Write) -> Write:
        """A `write` for one whole object."""

        def put(text: str) -> None:
            write(f"{',' if self._started else '['}\n{text.rstrip()}")
            self._started = True

        return put

    def close(self, write: Write, *, empty: bool = True) -> None:
        """End the array; one without objects is written only if `empty`."""
        if self._started or empty:
            write("\n]\n" if self._started else "[]\n")


class JsonLinesWriter(Writer):
    """Every event as a JSON line, with the name of its document."""

    is_prose = False

    def add(self, event: Event) -> None:
        """Write the event."""
        self.write(format_event(event, self._document) + "\n")


WRITERS: dict[Format, type[Writer]] = {
    "text": TextWriter,
    "md": MarkdownWriter,
    "json": JsonWriter,
    "jsonl": JsonLinesWriter,
}
