"""`specextend models list|pull|show|rm|use`: the weights on this machine, and which of them run."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from specextend_cli.cli import options, presets
from specextend_cli.cli.help import Group
from specextend_cli.errors import ModelError
from specextend_cli.humanize import format_bytes

app = typer.Typer(help="Download, list and remove model weights.", cls=Group, rich_markup_mode=None)


@options.command(app, "list")
def list_(json: options.Json = False) -> None:
    """List the presets whose models are on this machine, whole or in part, and their size; presets list has all."""
    from specextend_cli.models.presets import list_presets
    from specextend_cli.models.source_kinds import LocalSource
    from specextend_cli.models.sources import is_present, size_on_disk
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.tables import model_table

    output = Output()
    found = [
        preset
        for preset in list_presets()
        # What lies beside a preset's file came with it, and is no model that was fetched.
        if is_present(preset) or any(size_on_disk(one) for one in preset.sources if not isinstance(one, LocalSource))
    ]
    rows = presets.preset_rows(found)
    if json:
        output.write_json([asdict(row) for row in rows])
    elif rows:
        output.show(model_table(rows))
    else:
        output.status("no model is on disk; to fetch one: specextend models pull NAME (specextend presets list)")


@options.command(app)
def pull(preset: presets.Name, offline: options.Offline = False, quiet: options.Quiet = False) -> None:
    """Download the models of a preset and verify those on disk."""
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import fetch_pair, size_on_disk
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.panel import open_view

    output = Output(quiet=quiet)
    chosen = load_preset(preset)
    with open_view(output, chosen.name) as view:
        fetch_pair(chosen, offline=offline, progress=view.fetched, verify=True)
    output.status(f"{chosen.name} is ready ({format_bytes(sum(map(size_on_disk, chosen.sources)))} on disk)")


@options.command(app)
def show(preset: presets.Name, json: options.Json = False) -> None:
    """Show the source, path and size of the models of a preset."""
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import locate, size_on_disk
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.tables import cell, table

    output = Output()
    chosen = load_preset(preset)
    rows = [
        {"model": role, "source": str(source), "path": str(path) if path else None, "bytes": size_on_disk(source)}
        for role, source in zip(("target", "draft"), chosen.sources, strict=False)
        for path in (locate(source, tokenizer=role == "target"),)
    ]
    if json:
        output.write_json(rows)
        return
    made = table("model", "source", "on disk", "path")
    for row in rows:
        size = format_bytes(float(str(row["bytes"]))) if row["path"] else "no"
        made.add_row(cell(row["model"], "bold"), cell(row["source"]), size, cell(row["path"] or ""))
    output.show(made)


@options.command(app)
def use(
    model: Annotated[
        str,
        typer.Argument(
            metavar="PRESET",
            help="Preset name, .toml or .gguf file, ollama:NAME, or auto.",
            autocompletion=options.model_names,
        ),
    ],
    quiet: options.Quiet = False,
) -> None:
    """Let this model run wherever none is named; auto leaves the choice to the program, and lets it offer one again.

    Example:
      specextend models use qwen3-1.7b
    """
    from specextend_cli.models.configuration import configuration_file, configure
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import is_present
    from specextend_cli.ui.output import Output

    output = Output(quiet=quiet)
    if model == options.AUTO:
        configure("model", None)
        configure("offer", None)
        output.status("where no model is named, the program chooses one again: specextend presets list shows which")
        return
    chosen = load_preset(model)
    is_file = Path(model).suffix in (".toml", ".gguf")
    configure("model", os.path.abspath(os.path.expanduser(model)) if is_file else model)  # noqa: PTH100, PTH111
    output.status(f"{model} runs where no model is named ({configuration_file()})")
    if not is_present(chosen):
        output.status(f"it is not on disk and is fetched at its first use; now: specextend models pull {quote(model)}")


@options.command(app)
def rm(preset: presets.Name, quiet: options.Quiet = False) -> None:
    """Delete the models of a preset from this machine."""
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import remove
    from specextend_cli.ui.output import Output

    chosen = load_preset(preset)
    freed = sum(map(remove, chosen.sources))
    if not freed:
        raise ModelError(f"nothing of {chosen.name} is on disk", fix="specextend models list")
    Output(quiet=quiet).status(f"{chosen.name}: {format_bytes(freed)} freed")
