"""`specextend show`: recorded summaries, and the passages of the document behind their sentences."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.cli.options import option
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_many


def show(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Id of a run, or its first characters. Default: the last one here.", show_default=False
        ),
    ] = None,
    sentence: Annotated[
        int | None, option("--sentence -s", "Show the passages behind this sentence.", "N", min=1)
    ] = None,
    list_: Annotated[bool, option("--list", "List the recorded runs, newest first.")] = False,
    forget: Annotated[str | None, option("--forget", "Remove this run, or all; chunk summaries stay.", "ID")] = None,
    json: options.Json = False,
) -> None:
    """Show an earlier summary, and the source of its sentences.

    Without an ID it is the last one that was made in this directory.

    \b
    Examples:
      specextend show
      specextend show --sentence 4
      specextend show --list
    """
    from specextend_cli.summarize.cache import RunStore, results_file
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.runs import format_run, format_sentence, run_table, sentence_record, short_record

    store, output = RunStore(results_file()), Output()
    if (run is not None) + list_ + (forget is not None) > 1:
        raise UsageError("an ID, --list and --forget contradict each other", fix="give one of them")
    if forget is not None:
        count = store.clear() if forget == "all" else store.remove(forget)
        output.status(f"{format_many(count, 'run')} removed")
        return
    if list_:
        runs = store.all()
        if json:
            output.write_json([short_record(one) for one in runs])
        elif runs:
            output.show(run_table(runs))
        else:
            output.note("no run is recorded yet")
        return
    found = store.last() if run is None else store.get(run)
    if sentence is None:
        output.write_json(asdict(found)) if json else output.show(format_run(found))
        return
    if sentence > len(found.sentences):
        why = f"its summary has {len(found.sentences)}"
        raise UsageError(f"run {found.id} has no sentence {sentence}", why=why, fix=f"specextend show {found.id}")
    if json:
        output.write_json(sentence_record(found, found.sentences[sentence - 1]))
    else:
        output.show(format_sentence(found, sentence))
