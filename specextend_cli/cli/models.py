"""`specextend models list|pull|show|rm`: the weights on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from specextend_cli.cli import options, presets
from specextend_cli.cli.help import Command, Group
from specextend_cli.errors import ModelError

if TYPE_CHECKING:
    from specextend_cli.models.preset import Preset, Source

app = typer.Typer(help="Fetch, list and remove model weights.", cls=Group, rich_markup_mode=None)


@app.command("list", cls=Command)
def list_(json: options.Json = False, debug: options.Debug = False) -> None:
    """List the presets' models: size, memory, licence, on disk or not."""
    presets.list_(json=json)


@app.command(cls=Command)
def pull(
    preset: presets.Name, offline: options.Offline = False, quiet: options.Quiet = False, debug: options.Debug = False
) -> None:
    """Fetch a preset's models, and check what is already here."""
    from specextend_cli.humanize import format_bytes
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import fetch_pair
    from specextend_cli.ui.fetching import fetching
    from specextend_cli.ui.streams import Output

    options.go_offline(offline)
    output = Output()
    chosen = load_preset(preset)
    with fetching(output, chosen.name, quiet=quiet) as progress:
        fetch_pair(chosen, offline=offline, progress=progress, verify=True)
    if not quiet:
        output.note(f"{chosen.name} is ready ({format_bytes(_size(chosen))} on disk)")


@app.command(cls=Command)
def show(preset: presets.Name, json: options.Json = False, debug: options.Debug = False) -> None:
    """Show where a preset's models come from, where they are and what they take."""
    from specextend_cli.humanize import format_bytes
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import locate, size_on_disk
    from specextend_cli.ui.jsonl import format_json
    from specextend_cli.ui.streams import Output
    from specextend_cli.ui.tables import cell, table

    output = Output()
    chosen = load_preset(preset)
    rows = [
        {"model": role, "source": str(source), "path": str(path) if path else None, "bytes": size_on_disk(source)}
        for role, source in zip(("target", "draft"), _sources(chosen), strict=False)
        for path in (locate(source, tokenizer=role == "target"),)
    ]
    if json:
        output.write(format_json(rows) + "\n")
        return
    made = table("model", "source", "on disk", "path")
    for row in rows:
        size = format_bytes(float(str(row["bytes"]))) if row["path"] else "no"
        made.add_row(cell(row["model"], "bold"), cell(row["source"]), size, cell(row["path"] or ""))
    output.show(made)


@app.command(cls=Command)
def rm(preset: presets.Name, quiet: options.Quiet = False, debug: options.Debug = False) -> None:
    """Delete a preset's models from this machine."""
    from specextend_cli.humanize import format_bytes
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import remove
    from specextend_cli.ui.streams import Output

    chosen = load_preset(preset)
    freed = sum(map(remove, _sources(chosen)))
    if not freed:
        raise ModelError(f"nothing of {chosen.name} is on disk", fix="specextend models list")
    if not quiet:
        Output().note(f"{chosen.name}: {format_bytes(freed)} freed")


def _sources(preset: Preset) -> list[Source]:
    return [source for source in (preset.target.source, preset.draft.source) if source is not None]


def _size(preset: Preset) -> int:
    from specextend_cli.models.sources import size_on_disk

    return sum(map(size_on_disk, _sources(preset)))
