"""`specextend compare FILE`: one document decoded plainly and with SpecExtend, with the same model in one process."""

from __future__ import annotations

from contextlib import ExitStack
from shlex import quote

from specextend_cli.cli import options, signals
from specextend_cli.runtime.options import Engine


def compare(
    file: options.File = None,
    length: options.LengthOption = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    pages: options.Pages = None,
    model: options.Model = None,
    device: options.Device = "auto",
    draft: options.DraftOption = None,
    draft_head: options.DraftHead = None,
    offline: options.Offline = False,
) -> None:
    """Compare plain decoding with SpecExtend on one document.

    Both decode the beginning of the document: a demonstration, in seconds, of one text, measured once.
    `specextend bench --dtype float32 --input FILE` measures strictly.

    \b
    Example:
      specextend compare report.pdf
    """
    from specextend_cli.bench.comparison import Comparison, SideBegins, compare_once
    from specextend_cli.cli.choice import chosen_model
    from specextend_cli.cli.inputs import STDIN, Reading, one_source
    from specextend_cli.summarize.request import Request
    from specextend_cli.summarize.summarizer import Summarizer
    from specextend_cli.ui.measurements import comparison, comparison_record
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import open_view

    source = one_source(file, Reading.of(pages, False, None), command="compare", offline=offline)

    request = Request(length=options.length(length), mode="abstractive")
    preset = chosen_model(model, device).preset
    engine = Engine(model=preset, device=device, draft=draft, draft_head=draft_head, offline=offline)
    with Summarizer(engine, cache=False) as summarizer:  # refuse impossible options before the document is read
        summarizer.check(request)
    options.usable(device)
    output = Output(quiet=quiet)
    output.require_stdout()
    found = None
    try:
        document = source.read_shown(output)
        if summarizer.preset.unreliable:
            name = summarizer.preset.name
            output.warn(f"{name} writes here: its text shows the engine, and is not a summary to believe")
        with ExitStack() as shown:
            view = shown.enter_context(open_view(output, source.name))
            for event in compare_once(document, engine, request):
                match event:
                    case Comparison():
                        found = event
                    case SideBegins():
                        shown.close()
                        side = "plain decoding" if event.plain else "SpecExtend"
                        view = shown.enter_context(open_view(output, f"{source.name}, {side}"))
                    case _:
                        view.add(event)
    except (KeyboardInterrupt, signals.Terminated):
        output.note("stopped; nothing was compared")
        raise
    assert found is not None  # the last event
    if json:
        output.write_json(comparison_record(found))
        return
    output.show(comparison(found))
    if source.path != STDIN:
        output.status(f"for a strict check: specextend bench --dtype float32 --input {quote(source.path)}")
