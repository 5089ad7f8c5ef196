"""`specextend`, the command line. Commands import what they need when they run, so that `--help` is fast."""

from __future__ import annotations

import errno
import gc
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from specextend_cli import __version__
from specextend_cli.cli import bench, compare, doctor, extract, models, show, signals, summarize
from specextend_cli.errors import Exit, FitError, ModelError, SpecextendError, UsageError
from specextend_cli.runtime.loading_thread import is_busy
from specextend_cli.ui.standard_streams import is_writable, prepare

HELP = """
Summaries of long documents on your own machine.

\b
Examples:
  specextend summarize report.pdf
  specextend summarize *.pdf --output summaries/
  pdftotext paper.pdf - | specextend summarize --length 150
  specextend show --sentence 4
  specextend compare report.pdf
"""
MAX_WIDTH = 100


class Group(TyperGroup):
    """The program, which advises where a document stands in place of a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """UsageError with the command that summarizes it."""
        is_command = self.get_command(ctx, args[0]) is not None or ctx.resilient_parsing
        is_document = args[0] == "-" or "." in args[0] or "/" in args[0] or os.path.exists(args[0])  # noqa: PTH110
        if not is_command and is_document:
            fix = shlex.join(["specextend", "summarize", *args])
            raise UsageError(f"no command is named before {args[0]}", fix=fix)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="specextend",
    help=HELP,
    cls=Group,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MAX_WIDTH},
)


@app.callback(invoke_without_command=True)
def _program(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks, in any position.")] = False,
) -> None:
    if version:
        typer.echo(f"specextend {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(Exit.USAGE)


for _command in (summarize.summarize, compare.compare, bench.bench, extract.extract, show.show, doctor.doctor):
    app.command()(_command)
app.add_typer(models.app, name="models")


def main() -> None:
    """Entry point of the console script."""
    from specextend_cli.models import fast_import

    prepare()
    fast_import.own_process = True
    signals.handle()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = Exit.SIGINT
    if is_busy():  # with what nobody waits for: shutting Python down would abort native code of models that load
        from specextend_cli.documents.sandbox import end_all

        end_all()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    gc.freeze()  # to look once more through what torch has made would take half a second
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    debug = "--debug" in arguments
    arguments = [one for one in arguments if one != "--debug"]
    # torch's threads spin for milliseconds when they have nothing to do, on cores that others want: our own threads
    # after a prompt's products, and other programs. OpenMP reads this when torch is loaded.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    try:
        code = typer.main.get_command(app).main(arguments, prog_name="specextend", standalone_mode=False)
        return code if isinstance(code, int) else Exit.OK
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # Typer and Rich exit with 1
            return _broken_pipe()
        return ended.code if isinstance(ended.code, int) else Exit.OK if ended.code is None else Exit.INTERNAL
    except BrokenPipeError:
        return _broken_pipe()
    except Exception as error:
        if signals.interrupted() and _known(error) is None:  # of a module that ^C stopped
            raise KeyboardInterrupt from error
        return _report(error, debug)


def _report(error: Exception, debug: bool) -> int:
    """Print an error as this program's, or as a defect; returns the exit code."""
    from specextend_cli.ui.output import Output, defect, format_error

    known = _known(error)
    if debug:
        traceback.print_exception(known or error)
    shown = known or defect(error)
    if known is not None or not debug:
        Output().note(format_error(shown))
    return shown.exit


def _known(error: Exception) -> SpecextendError | None:
    """An error in this program's format; None for a defect."""
    from specextend_cli.ui.output import closed, silence

    match error:
        case SpecextendError():
            return error
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            try:
                sys.stdout.flush()
            except OSError:  # stdout is on the full disk and still holds unwritten text
                silence(sys.stdout)
            why = error.strerror or "no space left"
            return FitError("the output could not be written", why=why, fix="free some space there")
        case OSError(errno=errno.EBADF) if not is_writable(sys.stdout):
            silence(sys.stdout)
            return closed()
        case ModuleNotFoundError(name="torch" | "transformers" | "safetensors" | "tokenizers" | "numpy"):
            why, fix = "models cannot be run without it", "specextend doctor says what to do"
            return ModelError(f"{error.name} is not installed", why=why, fix=fix)
    # An error of the parser is recognized by its method: where its classes are depends on the version of Typer.
    words = getattr(error, "format_message", None)
    if words is None:
        return None
    message = " ".join(words().split()).rstrip(".").replace("Value error, ", "").replace("Input should", "it should")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "specextend"
    return UsageError(message[:1].lower() + message[1:], fix=f"{command} -h")


def _broken_pipe() -> int:
    from specextend_cli.ui.output import silence

    silence(sys.stdout)
    return Exit.SIGPIPE
