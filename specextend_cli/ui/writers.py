"""Results in the four formats. A writer consumes events and calls `write`; it does not know where that leads.

`write` may be stdout, a file, or the panel of the terminal on which both are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from specextend_cli.summarize.events import Event, Part, Plan, Sentence, Summarized, Text
from specextend_cli.ui.annotations import Annotations
from specextend_cli.ui.jsonl import format_event, format_json, named, summary_record
from specextend_cli.ui.markdown import format_footer
from specextend_cli.ui.streams import Sanitizer

Format: TypeAlias = Literal["text", "md", "json", "jsonl"]
Write: TypeAlias = Callable[[str], object]
NO_MARKS = Annotations()
"""JSON needs none: it always says what a sentence rests on."""
SUFFIX: dict[Format, str] = {"text": ".txt", "md": ".md", "json": ".json", "jsonl": ".jsonl"}


class Writer(Protocol):
    """Turns the events of one document into what `write` gets."""

    def add(self, event: Event) -> None:
        """Take one event in."""


class TextWriter:
    """The summary as it is written, then a newline. Model text is data: terminal sequences in it are removed.

    With `marks`, a sentence waits until it is known what it rests on, which is as soon as it is whole.
    """

    def __init__(self, write: Write, marks: Annotations = NO_MARKS, document: str = "") -> None:
        self.write = write
        self._marks = marks
        self._clean = Sanitizer()
        self._begun = False
        self._last = "\n"
        self._unit = "page"
        self._waiting = ""
        self._told = 0

    def add(self, event: Event) -> None:
        """Write the summary's text; notes are not part of it."""
        match event:
            case Plan():
                self._unit = event.unit
            case Text() if event.final and self._marks:
                self._waiting += event.delta
            case Text() if event.final:
                self._emit(self._clean.feed(event.delta))
            case Sentence() if self._marks:
                size, self._told = event.end - self._told, event.end
                text, self._waiting = self._waiting[:size], self._waiting[size:]
                self._emit(self._clean.feed(self._marks.mark(text, event, self._unit)))
            case Summarized():
                self._emit(self._clean.feed(self._waiting) + self._clean.close())
                if self._last != "\n":
                    self.write("\n")
            case _:
                pass

    def _emit(self, text: str) -> None:
        if not self._begun:
            text = text.lstrip()
        if text:
            self._begun, self._last = True, text[-1]
            self.write(text)


class MarkdownWriter:
    """The summary, and a footer that says what was read."""

    def __init__(self, write: Write, marks: Annotations = NO_MARKS, document: str = "") -> None:
        self.write = write
        self._text = TextWriter(write, marks)
        self._span: tuple[int, int] | None = None

    def add(self, event: Event) -> None:
        """Write the summary's text; at its end, the footer."""
        self._text.add(event)
        match event:
            case Part():
                first, last = self._span or event.pages
                self._span = (min(first, event.pages[0]), max(last, event.pages[1]))
            case Summarized():
                self.write(format_footer(event.summary, self._span))
            case _:
                pass


class JsonWriter:
    """One JSON object when the document is done."""

    def __init__(self, write: Write, marks: Annotations = NO_MARKS, document: str = "") -> None:
        self.write = write
        self._document = document

    def add(self, event: Event) -> None:
        """Write the result when it is there."""
        if isinstance(event, Summarized):
            self.write(format_json(named(summary_record(event.summary), self._document)) + "\n")


class JsonArray:
    """Several JSON objects on one stream, as one array: `item` makes a `write` for each, `close` ends it."""

    def __init__(self) -> None:
        self._begun = False

    def item(self, write: Write) -> Write:
        """A `write` that takes one whole object."""

        def put(text: str) -> None:
            write(f"{',' if self._begun else '['}\n{text.rstrip()}")
            self._begun = True

        return put

    def close(self, write: Write, *, empty: bool = True) -> None:
        """End the array; one without objects is written only if it may be `empty`."""
        if self._begun or empty:
            write("\n]\n" if self._begun else "[]\n")


class JsonLinesWriter:
    """Every event as a line, when it happens, with its document's name."""

    def __init__(self, write: Write, marks: Annotations = NO_MARKS, document: str = "") -> None:
        self.write = write
        self._document = document

    def add(self, event: Event) -> None:
        """Write the event."""
        self.write(format_event(event, self._document) + "\n")


WRITERS: dict[Format, Callable[[Write, Annotations, str], Writer]] = {
    "text": TextWriter,
    "md": MarkdownWriter,
    "json": JsonWriter,
    "jsonl": JsonLinesWriter,
}
