"""`specextend plan FILES…`: what summarizing would take, known before any model is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from specextend_cli.cli import options
from specextend_cli.cli.inputs import all_inputs
from specextend_cli.cli.reading import Source, recognizing

if TYPE_CHECKING:
    from specextend_cli.models.preset import Preset
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.streams import Output


def plan(
    files: options.Files = None,
    pages: options.Pages = None,
    password_file: options.PasswordFile = None,
    ocr: options.OcrOption = False,
    ocr_lang: options.OcrLanguages = None,
    full_page: options.FullPage = False,
    allow_url: options.AllowUrl = False,
    files_from: options.FilesFrom = None,
    length: options.Length = None,
    style: options.StyleOption = options.Style.paragraph,
    max_tokens: options.MaxTokens = None,
    model: options.Model = None,
    offline: options.Offline = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show pages, tokens, prompts, levels, time and memory of a summary, without loading a model.

    Time is what the tokens to read and to write took in earlier runs of the preset; loading, and chunk summaries that
    exist already, apart.

    Example:
      specextend plan *.pdf
    """
    options.go_offline(offline)

    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.streams import Output

    settings = Options(
        **options.given(
            preset=model, length=options.length(length), style=style, max_tokens=max_tokens, offline=offline
        )
    )
    with closing(Summarizer(settings)) as summarizer:
        inputs = all_inputs(
            files,
            example="specextend plan FILES…",
            listed=files_from,
            pages=pages,
            password_file=password_file,
            allow_url=allow_url,
            offline=offline,
            ocr=options.ocr(ocr, ocr_lang),
            full_page=full_page,
        )
        print_plans(Output(), summarizer, inputs, as_json=json)


def print_plans(output: Output, summarizer: Summarizer, inputs: Sequence[Source], *, as_json: bool) -> None:
    """Plan every input and print the plans on stdout."""
    from specextend_cli.ui.jsonl import format_json, plan_record
    from specextend_cli.ui.tables import plan_table

    plans = []
    for source in inputs:
        document = source.read(recognizing=partial(recognizing, output))
        for message in document.extraction.warnings:
            output.warn(message)
        plans.append(replace(summarizer.plan(document), document=source.name))
    seconds = [summarizer.expected_seconds(plan) for plan in plans]
    memory = _needed_memory(output, summarizer.preset)
    if as_json:
        known = zip(plans, seconds, strict=True)
        records = [plan_record(plan) | {"seconds": expected, "memory": memory} for plan, expected in known]
        output.write(format_json(records[0] if len(records) == 1 else records) + "\n")
    else:
        output.show(plan_table(plans, seconds, memory))


def _needed_memory(output: Output, preset: Preset) -> int | None:
    """Bytes, where they are known. Warns where this machine has no room for them."""
    from specextend_cli.humanize import format_bytes
    from specextend_cli.models.memory import device_memory, estimate, fits

    memory, need = device_memory(), estimate(preset)
    if need is None:
        return None
    if fits(preset, memory) is False:
        output.warn(f"{preset.name} needs about {format_bytes(need.total)} of memory, there are {format_bytes(memory)}")
    return need.total
