"""Results as text, Markdown and JSON: a writer takes events and calls `write`, to stdout, a file or the panel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, TypeAlias

from specextend_cli import __version__
from specextend_cli.bench.formats import dumps, escape
from specextend_cli.engine.meter import Meter
from specextend_cli.humanize import format_numbers
from specextend_cli.summarize.events import Event, Method, Plan, Sentence, Summarized, Summary
from specextend_cli.summarize.facts import Unsupported
from specextend_cli.ui import Format
from specextend_cli.ui.output import sanitize
from specextend_cli.ui.progress import format_gaps, format_size

Write: TypeAlias = Callable[[str], object]

_MADE: dict[Method, str] = {
    "extractive": "Sentences of the source, chosen without a model",
    "abstractive": "Written by {} (drafter: {})",
    "lead": "The first sentences of the source, taken",
    "verbatim": "The source as it is, which is no longer than a summary: read",
}
MOST_FACTS = 8  # that a warning names


@dataclass
class Writer(ABC):
    """Formats the events of one `document` and passes the text to `write`, below a `heading` if it is for people.

    `cite`: with the source pages of each sentence, and `[?]` after what the source does not say.
    """

    write: Write
    cite: bool = False
    document: str = ""
    heading: str = ""

    @abstractmethod
    def add(self, event: Event) -> None:
        """Take one event."""


@dataclass
class TextWriter(Writer):
    """The summary as it is made, sentence by sentence, sanitized."""

    _is_begun: bool = False
    _unit: str = "page"

    def add(self, event: Event) -> None:
        """Write the text of the summary; chunk summaries are ignored."""
        match event:
            case Plan():
                self._unit = event.unit
            case Sentence():
                heading = "" if self._is_begun or not self.heading else f"==> {sanitize(self.heading)} <==\n\n"
                text = annotated(event, self._unit) if self.cite else event.text
                self.write(heading + sanitize(event.lead + text))
                self._is_begun = True
            case Summarized() if self._is_begun:
                self.write("\n")


class MarkdownWriter(TextWriter):
    """The summary, and a footer: the source with its size and what of it was not read; what made the summary."""

    def add(self, event: Event) -> None:
        """Write the text of the summary and, at its end, the footer."""
        super().add(event)
        if isinstance(event, Summarized):
            self.write(format_footer(event.summary))


def format_footer(summary: Summary) -> str:
    """A rule and two lines."""
    pieces = (escape(summary.document), format_size(summary.plan), *format_gaps(summary.coverage))
    made = _MADE[summary.method].format(escape(summary.preset), escape(summary.drafter))
    return f"\n---\n\n*Source: {', '.join(pieces)}.*\n*{made} with specextend {__version__}.*\n"


@dataclass
class JsonWriter(Writer):
    """One JSON object at the end of the document; on one line without an `indent`."""

    indent: int | None = None

    def add(self, event: Event) -> None:
        """Write the result with the last event."""
        if isinstance(event, Summarized):
            named = {"document": self.document} if self.document else {}
            self.write(dumps({**summary_record(event.summary), **named}, indent=self.indent) + "\n")


WRITERS: dict[Format, Callable[..., Writer]] = {
    "text": TextWriter,
    "md": MarkdownWriter,
    "json": partial(JsonWriter, indent=2),
    "jsonl": JsonWriter,
}


def summary_record(summary: Summary) -> dict[str, Any]:
    """The result for one document. Keys are stable: new ones may be added, none changes its meaning."""
    coverage = {**asdict(summary.coverage), "words": summary.plan.words, "complete": summary.coverage.complete}
    del coverage["tokens"]
    model = {
        "preset": summary.preset,
        "drafter": summary.drafter,
        "chunks": list(summary.plan.chunks),
        "chunk_summaries": list(summary.chunk_summaries),
        "reused": summary.reused,
        "retried": [asdict(one) for one in summary.retried],
        **statistics(summary.meter),
    }
    return {
        "document": summary.document,
        "text": summary.text,
        "mode": summary.method,
        "own_summary": asdict(summary.own) if summary.own else None,
        "sentences": [asdict(sentence) for sentence in summary.sentences],
        "coverage": coverage,
        "warnings": list(summary.warnings),
        "seconds": round(summary.seconds, 3),
        "settings": asdict(summary.request),
        "model": model if summary.method == "abstractive" else None,
        "run": summary.run,
        "version": __version__,
    }


def statistics(meter: Meter) -> dict[str, Any]:
    """Statistics of a run; null: not measured. Accepted length counts the bonus token: plain decoding has 1.0."""
    counted = {one.name: getattr(meter, one.name) for one in fields(meter) if not one.name.startswith("_")}
    derived = {name: getattr(meter, name) for name in ("tokens_per_second", "speedup", "accepted_length", "hit")}
    figures = {**counted, **derived, "accepted_lengths": dict(sorted(meter.accepted_lengths.items()))}
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def annotated(sentence: Sentence, unit: str) -> str:
    """The sentence's text with its marks: `[?]` behind what the source lacks, and the pages that it rests on."""
    text = sentence.text
    for one in reversed(sentence.unsupported):
        text = f"{text[: one.end]} [?]{text[one.end :]}"
    return f"{text} {format_citations(sentence, unit)}"


def format_citations(sentence: Sentence, unit: str) -> str:
    """ "[p. 3, 7; p. 9 by OCR]", "[s. 2]" for a document with sections, or "[no source found]".

    A labelled page is shown by its label and its number in the file: "[p. iv (6), 9 (15)]".
    """
    pieces = []
    for ocr, how in ((False, ""), (True, " by OCR")):
        labels = {citation.page: citation.label for citation in sentence.citations if citation.ocr == ocr}
        if any(labels.values()):
            pages = ", ".join(format_page(page, label) for page, label in sorted(labels.items()))
        else:
            pages = format_numbers(labels)
        if pages:
            pieces.append(f"{unit[0]}. {pages}{how}")
    return f"[{'; '.join(pieces) or 'no source found'}]"


def format_page(page: int, label: str) -> str:
    """ "6", or "iv (6)" if the sixth page is labelled iv."""
    return f"{label} ({page})" if label else f"{page}"


def format_unsupported(found: Sequence[Unsupported]) -> str:
    """ "not in the source: 1931, Port Ellery"; "" for nothing."""
    texts = list(dict.fromkeys(one.text for one in found))
    more = f" and {len(texts) - MOST_FACTS} more" if len(texts) > MOST_FACTS else ""
    return f"not in the source: {', '.join(texts[:MOST_FACTS])}{more}" if texts else ""
