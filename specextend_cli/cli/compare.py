"""`specextend compare FILE`: one document decoded plainly and accelerated, with the same model in the same process."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from specextend_cli.bench.differences import first_difference
from specextend_cli.cli import options, signals
from specextend_cli.cli.reading import one_source, recognizing

if TYPE_CHECKING:
    from specextend_cli.summarize.events import Event, Summary
    from specextend_cli.ui.streams import Output


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

    from specextend_cli.summarize.events import Warned
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.summarize.summarizer import compare as run
    from specextend_cli.ui.jsonl import format_json, summary_record
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.tables import comparison

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
        warned: Iterable[Event] = map(Warned, document.extraction.warnings)
        events = chain(warned, run(document, settings))
        (plain, plain_tokens), (fast, fast_tokens) = (
            _watch(events, output, f"{source.name}, {label}", quiet) for label in ("plain", "accelerated")
        )
    divergence = first_difference(plain_tokens, fast_tokens)
    if json:
        record = {"plain": summary_record(plain), "accelerated": summary_record(fast), "divergence": divergence}
        output.write(format_json(record) + "\n")
        return
    output.show(comparison(plain, fast, divergence))


def _watch(events: Iterable[Event], output: Output, title: str, quiet: bool) -> tuple[Summary, list[int]]:
    """Show one of the two runs; returns its result and every token it emitted."""
    from specextend_cli.engine.events import Step
    from specextend_cli.summarize.events import Summarized
    from specextend_cli.ui.view import open_view

    tokens: list[int] = []
    with open_view(output, title, quiet=quiet) as view:
        for event in events:
            view.add(event)
            if isinstance(event, Step):
                tokens += event.tokens
            if isinstance(event, Summarized):
                return event.summary, tokens
    raise AssertionError("the comparison ended without a summary")
