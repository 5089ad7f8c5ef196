"""`specextend chunks FILE`: how a document would be cut, as a table or as JSON lines with the text."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.cli.reading import one_source, recognizing
from specextend_cli.cli.vocabulary import check_model, vocabulary

START = 60


def chunks(
    file: options.File = None,
    pages: options.Pages = None,
    password_file: options.PasswordFile = None,
    ocr: options.OcrOption = False,
    ocr_lang: options.OcrLanguages = None,
    full_page: options.FullPage = False,
    model: options.Model = None,
    offline: options.Offline = False,
    size: Annotated[
        int | None,
        typer.Option("--size", metavar="TOKENS", min=16, help="Default: the preset's.", rich_help_panel=options.STYLE),
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="A line a chunk, text included.", rich_help_panel=options.OUTPUT)
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Show how a document would be cut for a model: tokens, pages and the first words of every chunk.

    Example:
      specextend chunks report.pdf --size 2048
    """
    import json

    from specextend_cli.documents.chunk import chunk
    from specextend_cli.humanize import format_count, format_numbers
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.tables import cell, table

    source = one_source(
        file,
        example="specextend chunks FILE",
        pages=pages,
        password_file=password_file,
        ocr=options.ocr(ocr, ocr_lang),
        full_page=full_page,
    )
    options.go_offline(offline)
    check_model(model)
    output = Output()
    document = source.read(recognizing=partial(recognizing, output))
    preset, encoder = vocabulary(model, offline=offline)
    made = table("chunk", "tokens", f"{document.unit}s", "begins", numbers=("chunk", "tokens"))
    for number, span in enumerate(chunk(document, encoder.encode, size or preset.window.chunk), start=1):
        text = document.text[span.start : span.end]
        numbers = document.pages_of(span.start, span.end)
        if jsonl:
            record = {
                "chunk": number,
                "start": span.start,
                "end": span.end,
                "tokens": span.tokens,
                "pages": list(numbers),
                "text": text,
            }
            output.write(json.dumps(record) + "\n")
        else:
            first = " ".join(text[: 2 * START].split())[:START]
            made.add_row(str(number), format_count(span.tokens), format_numbers(numbers), cell(first))
    if not jsonl:
        output.show(made)
