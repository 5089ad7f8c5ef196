"""`specextend models list|show|pull|rm|use`: presets, the weights on this machine, and which of them run."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.errors import ModelError
from specextend_cli.humanize import format_bytes

if TYPE_CHECKING:
    from specextend_cli.models.choice import Machine
    from specextend_cli.models.preset import Preset
    from specextend_cli.ui.tables import PresetRow

_OLD = "conversions"
"""What `rm` takes instead of a preset's name."""

app = typer.Typer(help="List, show, download, choose and remove models.", rich_markup_mode=None)


@app.command("list")
def list_(
    everything: Annotated[bool, options.option("--all", "List presets that do not run on this machine, too.")] = False,
    json: options.Json = False,
) -> None:
    """List the presets that run on this machine; › marks the one that runs where none is named.

    "Invents" is the share of the model's summaries with something that their text does not say, where it was measured.
    """
    from specextend_cli.cli.choice import chosen_model
    from specextend_cli.models import store
    from specextend_cli.models.presets import list_presets
    from specextend_cli.models.sources import conversions
    from specextend_cli.runtime.devices import this_machine
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.tables import preset_table

    output, machine = Output(), this_machine()
    found = sorted((_row(preset, machine) for preset in list_presets()), key=lambda row: row.order)
    rows = [row for row in found if everything or not row.obstacle or row.disk]
    if json:
        output.write_json([_record(row) for row in rows])
        return
    output.show(preset_table(rows, chosen=chosen_model(None).preset))
    if more := len(found) - len(rows):
        output.status(f"{more} more need another machine: specextend models list --all")
    if old := conversions():
        size = format_bytes(sum(map(store.size_on_disk, old)))
        output.status(f"{size} are converted models that nothing reads any more: specextend models rm {_OLD}")


@app.command()
def show(preset: options.Preset, json: options.Json = False) -> None:
    """Show every setting of a preset as a .toml file, which can be edited and used; its sizes are in comments.

    \b
    Examples:
      specextend models show smollm2-135m > mine.toml
      specextend summarize report.pdf --model ./mine.toml
    """
    from specextend_cli.models.memory import estimate
    from specextend_cli.models.presets import load_preset, to_toml
    from specextend_cli.models.sources import locate, size_on_disk
    from specextend_cli.runtime.devices import this_machine
    from specextend_cli.ui.output import Output, sanitize

    found, output = load_preset(preset), Output()
    if json:
        output.write_json(found.model_dump(mode="json"))
        return
    need = estimate(found, on_cpu=this_machine().device == "cpu")
    lines = [f"# {found.title}", f"# memory: {format_bytes(need) if need else 'not known'}"]
    for role, source in zip(("target", "draft"), found.sources, strict=False):
        path = locate(source)
        size = f"{format_bytes(size_on_disk(source))} in {path}" if path else "not on disk"
        lines.append(f"# {role}: {source}, {size}")
    comments = "".join(f"{' '.join(line.split())}\n" for line in lines)
    output.write(sanitize(f"{comments}{to_toml(found)}"))


@app.command()
def pull(preset: options.Preset, offline: options.Offline = False, quiet: options.Quiet = False) -> None:
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


@app.command()
def use(preset: options.Preset, quiet: options.Quiet = False) -> None:
    """Let this model run wherever none is named; auto leaves the choice to the program, and lets it offer one again.

    \b
    Example:
      specextend models use qwen3-1.7b
    """
    from specextend_cli.models.configuration import configuration_file, configure
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import is_present
    from specextend_cli.ui.output import Output

    output = Output(quiet=quiet)
    if preset == options.AUTO:
        configure("model", None)
        configure("offer", None)
        output.status("where no model is named, the program chooses one again: specextend models list shows which")
        return
    chosen = load_preset(preset)
    is_file = Path(preset).suffix in (".toml", ".gguf")
    configure("model", os.path.abspath(os.path.expanduser(preset)) if is_file else preset)  # noqa: PTH100, PTH111
    output.status(f"{preset} runs where no model is named ({configuration_file()})")
    if not is_present(chosen):
        output.status(f"it is not on disk and is fetched at its first use; now: specextend models pull {quote(preset)}")


@app.command()
def rm(preset: options.Preset, quiet: options.Quiet = False) -> None:
    """Delete the models of a preset, or `conversions`, which earlier versions made of GGUF files."""
    from specextend_cli.models import store
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import conversions, remove
    from specextend_cli.ui.output import Output

    freed = sum(map(store.remove, conversions()) if preset == _OLD else map(remove, load_preset(preset).sources))
    if not freed:
        raise ModelError(f"nothing of {preset} is on disk", fix="specextend models list")
    Output(quiet=quiet).status(f"{preset}: {format_bytes(freed)} freed")


def _record(row: PresetRow) -> dict[str, object]:
    preset = row.preset.model_dump(include={"name", "title", "licence", "gated", "tested", "rank"})
    known = {"invents": row.invents, "window": row.preset.window.context, "memory": row.memory}
    return {**preset, **known, "disk": row.disk, "present": row.present, "obstacle": row.obstacle}


def _row(preset: Preset, machine: Machine) -> PresetRow:
    """The row of a preset on a machine."""
    from specextend_cli.models.choice import hindrance
    from specextend_cli.models.memory import estimate
    from specextend_cli.models.source_kinds import LocalSource
    from specextend_cli.models.sources import is_present, size_on_disk
    from specextend_cli.ui.tables import PresetRow

    # What lies beside a preset's file came with it, and is no model that was fetched.
    disk = sum(size_on_disk(one) for one in preset.sources if not isinstance(one, LocalSource))
    lacks_gpu = machine.device != "cuda" and hindrance(machine, preset) is not None
    need = estimate(preset, on_cpu=machine.device == "cpu")
    obstacle = "too large" if need and not machine.holds(need) else "for GPUs" if lacks_gpu else ""
    return PresetRow(preset, need, disk, is_present(preset), obstacle)
