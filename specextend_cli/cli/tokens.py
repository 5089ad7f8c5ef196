"""`specextend tokens FILE`: how many tokens a document has for a model."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.cli.reading import one_source, recognizing
from specextend_cli.cli.vocabulary import check_model, vocabulary


def tokens(
    file: options.File = None,
    pages: options.Pages = None,
    password_file: options.PasswordFile = None,
    ocr: options.OcrOption = False,
    ocr_lang: options.OcrLanguages = None,
    full_page: options.FullPage = False,
    model: options.Model = None,
    offline: options.Offline = False,
    ids: Annotated[
        bool, typer.Option("--ids", help="The token ids, one a line.", rich_help_panel=options.OUTPUT)
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Count a document's tokens in the vocabulary of a preset's target.

    Example:
      specextend tokens report.pdf
    """
    from specextend_cli.ui.streams import Output

    source = one_source(
        file,
        example="specextend tokens FILE",
        pages=pages,
        password_file=password_file,
        ocr=options.ocr(ocr, ocr_lang),
        full_page=full_page,
    )
    options.go_offline(offline)
    check_model(model)
    output = Output()
    document = source.read(recognizing=partial(recognizing, output))
    _, encoder = vocabulary(model, offline=offline)
    encoded = encoder.encode(document.text)
    output.write("\n".join(map(str, encoded if ids else [len(encoded)])) + "\n")
