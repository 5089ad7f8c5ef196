"""Recorded runs as tables, text and JSON. Everything in them is untrusted text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from specextend_cli.humanize import format_count, format_many, format_percent, format_seconds
from specextend_cli.summarize.cache import Run
from specextend_cli.summarize.events import Sentence
from specextend_cli.summarize.words import count_words
from specextend_cli.ui.output import QUIET, sanitize
from specextend_cli.ui.results import annotated, format_page
from specextend_cli.ui.tables import cell, table


def run_table(runs: Sequence[Run]) -> Table:
    """One row per run."""
    made = table("run", "made", "document", "pages", "words", "preset", numbers=("pages", "words"))
    for column in made.columns:  # a long name is folded
        column.no_wrap = column.header != "document"
    for run in runs:
        made.add_row(
            cell(run.id, "bold"),
            cell(_when(run.made)),
            cell(run.document),
            format_count(run.pages),
            format_count(count_words(run.text)),
            cell(_preset(run)),
        )
    return made


def format_run(run: Run) -> Text:
    """The facts of a run and its numbered sentences with annotations."""
    facts = (
        sanitize(run.document),
        format_many(run.pages, run.unit),
        f"summary of {format_many(count_words(run.text), 'word')}",
        sanitize(_preset(run)),
        format_seconds(run.seconds),
        _when(run.made),
    )
    lines = [Text.assemble((f"run {run.id}", "bold"), (" · " + " · ".join(facts), QUIET)), Text()]
    width = len(str(len(run.sentences)))
    for number, sentence in enumerate(run.sentences, 1):
        lines.append(Text.assemble((f"{number:>{width}}  ", QUIET), _line(annotated(sentence, run.unit))))
    return Text("\n").join(lines)


def format_sentence(run: Run, number: int) -> Text:
    """One sentence (the first is 1), and the passages behind it."""
    sentence = run.sentences[number - 1]
    lines = [Text.assemble((f"{number}  ", QUIET), (_line(sentence.text), "bold"))]
    if sentence.unsupported:
        missing = ", ".join(one.text for one in sentence.unsupported)
        lines.append(Text(f"not in the source: {_line(missing)}", style="yellow"))
    if not sentence.citations:
        lines += [Text(), Text("no source found: no passage of the document shares enough of its words")]
    for citation in sentence.citations:
        quote = run.quotes.get(citation.start)
        page = _line(format_page(citation.page, citation.label)) + " by OCR" * citation.ocr
        lines += [Text(), Text(f"{run.unit} {page} · {format_percent(citation.score)} of its words", style=QUIET)]
        if quote is not None:
            lines.append(Text(sanitize(quote)))
    return Text("\n").join(lines)


def short_record(run: Run) -> dict[str, Any]:
    """A run without its texts, as JSON."""
    left_out = ("text", "chunk_summaries", "sentences", "quotes")
    return {key: value for key, value in asdict(run).items() if key not in left_out}


def sentence_record(run: Run, sentence: Sentence) -> dict[str, Any]:
    """A sentence with the passages behind it, as JSON."""
    passages = [run.quotes[one.start] for one in sentence.citations if one.start in run.quotes]
    return {**asdict(sentence), "passages": passages}


def _preset(run: Run) -> str:
    """The preset whose model made the summary."""
    return run.preset if run.method == "abstractive" else "no model"


def _line(text: str) -> str:
    return " ".join(sanitize(text).split())


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
