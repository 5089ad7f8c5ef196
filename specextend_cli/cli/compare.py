"""`specextend compare FILE`: plain and accelerated decoding of one document, with the same model in one process."""

from __future__ import annotations

from specextend_cli.cli import options, signals
from specextend_cli.cli.inputs import one_source
from specextend_cli.cli.model_choice import chosen_model
from specextend_cli.runtime.options import EngineOptions


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

    Both decode every text in turns, with the same model in the same process, until the speedup is known within a few
    percent, or two minutes after the first pass over the document.

    Example:
      specextend compare report.pdf --max-tokens 200
    """
    source = one_source(file, reading, example="specextend compare FILE", offline=offline)

    from specextend_cli.bench import comparison as bench_comparison
    from specextend_cli.engine.events import Prefilling, Step
    from specextend_cli.summarize.events import Plan, Stage, Warned
    from specextend_cli.summarize.request import SummaryRequest
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.compared import comparison, comparison_record
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.views import open_view

    settings = Options(
        request=SummaryRequest(length=options.length(length), mode="abstractive"),
        engine=engine,
        preset=chosen_model(model, engine.device).preset,
        max_tokens=max_tokens,
        offline=offline,
        cache=False,
    )
    Summarizer(settings).close()  # refuse impossible options before the document is read
    options.usable(engine.device)
    output = Output(quiet=quiet)
    output.require_stdout()
    with signals.deadline(timeout):
        document = source.read_shown(output)
        with open_view(output, source.name) as view:
            stage = None
            for event in bench_comparison.compare(document, settings):
                if isinstance(event, bench_comparison.Comparison):
                    break
                if isinstance(event, Stage):
                    stage = event
                if isinstance(event, (Stage, Plan, Warned)):
                    view.add(event)
                elif stage is not None and isinstance(event, (Prefilling, Step)):
                    view.add(stage)  # the clock moves on, of the comparison and not of its single runs
            else:
                raise AssertionError("the comparison ended without a result")
    if json:
        output.write_json(comparison_record(event))
    else:
        output.show(comparison(event))
