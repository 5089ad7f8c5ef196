"""`specextend tokens FILE` and `specextend chunks FILE`: a document in the vocabulary of a preset's target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from specextend_cli.cli import options
from specextend_cli.cli.inputs import one_source
from specextend_cli.cli.model_choice import chosen_model
from specextend_cli.humanize import format_count, format_numbers

if TYPE_CHECKING:
    from specextend_cli.documents.document import Document
    from specextend_cli.models.preset import Preset
    from specextend_cli.models.tokens import TextEncoder

_START = 60  # characters of a chunk that the table shows


def tokens(
    *,
    file: options.File = None,
    model: options.Model = None,
    ids: Annotated[bool, options.option("--ids", "Print the token ids, one a line.")] = False,
    reading: options.ReadOptions,
    offline: options.Offline = False,
) -> None:
    """Count a document's tokens in the vocabulary of a preset's target.

    Example:
      specextend tokens report.pdf
    """
    from specextend_cli.ui.output import Output

    document, _, encoder = _read(file, reading, model, example="specextend tokens FILE", offline=offline)
    encoded = encoder.encode(document.text)
    Output().write("\n".join(map(str, encoded if ids else [len(encoded)])) + "\n")


def chunks(
    *,
    file: options.File = None,
    model: options.Model = None,
    size: Annotated[
        int | None, options.option("--size", "Tokens of a chunk, at most. Default: the preset's.", "TOKENS", min=16)
    ] = None,
    jsonl: Annotated[bool, options.option("--jsonl", "Print a JSON line for each chunk, with its text.")] = False,
    reading: options.ReadOptions,
    offline: options.Offline = False,
) -> None:
    """Show how a document is split for a model: tokens, pages and first words of every chunk.

    Example:
      specextend chunks report.pdf --size 2048
    """
    import json

    from specextend_cli.documents.chunk import chunk
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.tables import cell, table

    output = Output()
    document, preset, encoder = _read(file, reading, model, example="specextend chunks FILE", offline=offline)
    made = table("chunk", "tokens", f"{document.unit}s", "begins", numbers=("chunk", "tokens"))
    for number, span in enumerate(chunk(document, encoder.encode, size or preset.window.chunk), start=1):
        text = document.text[span.start : span.end]
        pages = document.pages_of(span.start, span.end)
        record = {"chunk": number, "start": span.start, "end": span.end, "tokens": span.tokens}
        if jsonl:
            output.write(json.dumps({**record, "pages": list(pages), "text": text}) + "\n")
        else:
            first = " ".join(text[: 2 * _START].split())[:_START]
            made.add_row(str(number), format_count(span.tokens), format_numbers(pages), cell(first))
    if not jsonl:
        output.show(made)


def _read(
    file: str | None, reading: options.ReadOptions, model: str | None, *, example: str, offline: bool
) -> tuple[Document, Preset, TextEncoder]:
    """The document, the preset and its tokenizer, fetched if it is not on this machine. Does not import torch."""
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import fetch
    from specextend_cli.models.tokens import TextEncoder
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import open_view

    source = one_source(file, reading, example=example, offline=offline)
    preset = load_preset(chosen_model(model).preset)
    document = source.read_shown(Output())
    with open_view(Output(), preset.name) as view:
        directory = fetch(preset.target.source, name=preset.name, offline=offline, progress=view.fetched)
    return document, preset, TextEncoder.of(directory)
