"""`specextend compare FILE`: one document decoded plainly and accelerated, with the same model in the same process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from specextend_cli.cli import options, signals
from specextend_cli.cli.reading import one_source, recognizing

if TYPE_CHECKING:
    from specextend_cli.bench.comparison import Comparison
    from specextend_cli.documents.document import Document
    from specextend_cli.summarize.summarizer import Options
    from specextend_cli.ui.view import View


def compare(
    file: options.File = None,
    pages: options.Pages = None,
    password_file: options.PasswordFile = None,
    ocr: options.OcrOption = False,
    ocr_lang: options.OcrLanguages = None,
    full_page: options.FullPage = False,
    length: options.Length = None,
    max_tokens: options.MaxTokens = None,
    temperature: options.Temperature = None,
    seed: options.Seed = None,
    model: options.Model = None,
    device: options.Device = "auto",
    dtype: options.DtypeOption = options.Dtype.auto,
    offline: options.Offline = False,
    draft: options.DraftOption = None,
    compile: options.Compile = True,
    head: options.HeadOption = None,
    policy: options.PolicyOption = None,
    timeout: options.Timeout = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    debug: options.Debug = False,
) -> None:
    """Decode one document plainly and accelerated: speeds side by side, and whether the tokens are identical.

    Every text is decoded both ways, in turns, until the speedup is known within a few percent, for two minutes at most
    beyond the first pass over the document.

    Example:
      specextend compare report.pdf --max-tokens 200
    """
    source = one_source(
        file,
        example="specextend compare FILE",
        pages=pages,
        password_file=password_file,
        ocr=options.ocr(ocr, ocr_lang),
        full_page=full_page,
    )
    options.go_offline(offline)

    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.compared import comparison, comparison_record
    from specextend_cli.ui.jsonl import format_json
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.view import open_view

    settings = Options(
        **options.given(
            preset=model,
            length=options.length(length),
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
            device=device,
            dtype=dtype,
            compile=compile,
            offline=offline,
            draft=options.drafter(draft, no_spec=False),
            head=None if head is None else str(head.absolute()),
            policy=policy,
            cache=False,
        )
    )
    Summarizer(settings).close()  # what cannot be done is said before the document is read
    options.usable(device)
    output = Output()
    output.require_stdout()
    with signals.deadline(timeout):
        document = source.read(recognizing=None if quiet else partial(recognizing, output))
        for message in document.extraction.warnings:
            output.warn(message)
        with open_view(output, source.name, quiet=quiet) as view:
            compared = _compared(document, settings, view)
    if json:
        output.write(format_json(comparison_record(compared)) + "\n")
        return
    output.show(comparison(compared))


def _compared(document: Document, options: Options, view: View) -> Comparison:
    """The result; the view is shown how far the comparison is, not the runs that it consists of."""
    from specextend_cli.bench.comparison import Comparison, compare
    from specextend_cli.engine.events import Prefilling, Step
    from specextend_cli.summarize.events import Plan, Stage, Warned

    stage = None
    for event in compare(document, options):
        if isinstance(event, Comparison):
            return event
        if isinstance(event, Stage):
            stage = event
        if isinstance(event, (Stage, Plan, Warned)):
            view.add(event)
        elif stage is not None and isinstance(event, (Prefilling, Step)):
            view.add(stage)  # time passes
    raise AssertionError("the comparison ended without a result")
