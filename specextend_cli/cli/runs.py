"""`specextend runs list|show|rm` and `specextend show RUN`: recorded summaries and their sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.cli.help import Group
from specextend_cli.errors import UsageError
from specextend_cli.humanize import format_many

if TYPE_CHECKING:
    from specextend_cli.summarize.result_store import RunStore

app = typer.Typer(help="List, show and remove recorded summaries.", cls=Group, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or its first characters, or: last.")]
Number = Annotated[
    int | None,
    typer.Option(
        "--sentence", "-s", metavar="N", min=1, help="Show the passages behind this sentence.", show_default=False
    ),
]


@options.command(app, "list")
def list_(json: options.Json = False) -> None:
    """List recorded runs, newest first."""
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.runs import run_table, short_record

    runs, output = _store().all(), Output()
    if json:
        output.write_json([short_record(run) for run in runs])
    elif runs:
        output.show(run_table(runs, width=output.width))
    else:
        output.note("no run is recorded yet")


@options.command(app, "show")
def show(run: Name, sentence: Number = None, json: options.Json = False) -> None:
    """Show a recorded summary with its source pages, or the passages behind a sentence.

    Example:
      specextend show last --sentence 4
    """
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.runs import format_run, format_sentence, run_record, sentence_record

    found, output = _store().get(run), Output()
    if sentence is None:
        output.write_json(run_record(found)) if json else output.show(format_run(found))
        return
    if sentence > len(found.sentences):
        why = f"its summary has {len(found.sentences)}"
        raise UsageError(f"run {found.id} has no sentence {sentence}", why=why, fix=f"specextend show {found.id}")
    chosen = found.sentences[sentence - 1]
    if json:
        output.write_json(sentence_record(found, chosen))
    else:
        output.show(format_sentence(found, chosen))


@options.command(app)
def rm(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="RUNS…", help="Ids of runs, or: last.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove every run.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Remove recorded runs. Stored chunk summaries stay."""
    from specextend_cli.ui.output import Output

    if bool(runs) == everything:
        raise UsageError("name the runs to remove, or give --all", fix="specextend runs list")
    count = _store().clear() if everything else _store().remove(runs or ())
    Output(quiet=quiet).status(f"{format_many(count, 'run')} removed")


def _store() -> RunStore:
    from specextend_cli.summarize.result_store import RunStore, results_file

    return RunStore(results_file())
