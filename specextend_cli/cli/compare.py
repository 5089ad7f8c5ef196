"""`specextend compare FILE`: plain and accelerated decoding of one document, with the same model in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from specextend_cli.cli import options, signals
from specextend_cli.cli.inputs import one_source
from specextend_cli.cli.model_choice import chosen_model
from specextend_cli.runtime.options import EngineOptions

if TYPE_CHECKING:
    from specextend_cli.bench.comparison import Comparison, SideBegins
    from specextend_cli.summarize.events import Event
    from specextend_cli.ui.streams import Output


def compare(
    *,
    file: options.File = None,
    length: options.LengthOption = None,
    model: options.Model = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    reading: options.ReadOptions,
    max_tokens: options.MaxTokens = None,
    engine: EngineOptions,
    offline: options.Offline = False,
    timeout: options.Timeout = None,
) -> None:
    """Compare plain and accelerated decoding of one document: speed and tokens.

    Its beginning is decoded once each way, with the same model in the same process. `bench` measures with repeats.

    Examples:
      specextend compare report.pdf
    """
    source = one_source(file, reading, example="specextend compare FILE", offline=offline)

    from specextend_cli.bench import comparison as bench_comparison
    from specextend_cli.summarize.request import SummaryRequest
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.compared import comparison, comparison_record
    from specextend_cli.ui.streams import Output

    settings = Options(
        request=SummaryRequest(length=options.length(length), mode="abstractive"),
        engine=engine,
        preset=chosen_model(model, engine.device).preset,
        max_tokens=max_tokens,
        offline=offline,
        cache=False,
    )
    with Summarizer(settings) as summarizer:  # refuse impossible options before the document is read
        preset = summarizer.preset
    options.usable(engine.device)
    output = Output(quiet=quiet)
    output.require_stdout()
    try:
        with signals.deadline(timeout):
            document = source.read_shown(output)
            if preset.mode != "abstractive":
                output.warn(f"{preset.name} writes here: its text shows the engine, and is not a summary to believe")
            found = _shown_live(output, source.name, bench_comparison.compare_once(document, settings))
    except (KeyboardInterrupt, signals.Terminated, signals.DeadlineError):
        output.note("stopped; nothing was compared")
        raise
    if json:
        output.write_json(comparison_record(found))
    else:
        output.show(comparison(found))


def _shown_live(output: Output, name: str, events: Iterator[Event | SideBegins | Comparison]) -> Comparison:
    """The comparison that `events` end with; each of its two runs has a view of its own, and a line when it is done."""
    from specextend_cli.bench.comparison import Comparison, SideBegins
    from specextend_cli.engine.events import Prefilling, Step
    from specextend_cli.summarize.events import Stage, Summarized
    from specextend_cli.ui.compared import format_side, side_name
    from specextend_cli.ui.views import open_view

    with ExitStack() as shown:
        view, side = shown.enter_context(open_view(output, name)), None
        for event in events:
            match event:
                case Comparison():
                    return event
                case SideBegins():
                    shown.close()
                    side = side_name(event.plain)
                    view = shown.enter_context(open_view(output, f"{name}, {side}"))
                case Summarized():
                    shown.close()
                    assert side is not None
                    output.status(format_side(side, event.summary), indent=2)
                case Prefilling() | Step() if side is None:  # of the warm-up
                    pass
                case _ if side is not None or isinstance(event, Stage):
                    view.add(event)
    raise AssertionError("the comparison ended without a result")
