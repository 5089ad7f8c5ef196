"""`specextend presets list|show`: pairs of models with the settings that suit them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from specextend_cli.cli import options
from specextend_cli.cli.help import Group
from specextend_cli.cli.model_choice import chosen_model
from specextend_cli.errors import ModelError

if TYPE_CHECKING:
    from specextend_cli.models.choice import Machine
    from specextend_cli.models.preset import Preset
    from specextend_cli.ui.tables import PresetRow

app = typer.Typer(help="List and show presets: pairs of models with their settings.", cls=Group, rich_markup_mode=None)

Name = Annotated[
    str,
    typer.Argument(
        metavar="PRESET", help="Preset name, .toml or .gguf file, or ollama:NAME.", autocompletion=options.preset_names
    ),
]


@options.command(app, "list")
def list_(json: options.Json = False) -> None:
    """List the presets, those that can run here first: window, memory, on disk or not, and licence.

    The model that runs where none is named is marked, and the last line says why, and why no other does.

    "Invents" is the share of the target's summaries with something that their text does not say, where it was measured.
    """
    from specextend_cli.models.presets import list_presets
    from specextend_cli.ui.output import Output
    from specextend_cli.ui.tables import preset_table

    output = Output()
    rows = preset_rows(list_presets())
    if json:
        output.write_json([asdict(row) for row in rows])
    else:
        choice = chosen_model(None)
        width = output.pager.width if output.stdout_is_terminal else None
        output.show(preset_table(rows, width=width, chosen=choice.preset))
        if output.stdout_is_terminal:
            output.status(f"{choice.preset} ({choice.reason})")


@options.command(app)
def show(preset: Name, json: options.Json = False) -> None:
    """Show every setting of a preset as a .toml file, which can be edited and used as a preset.

    Examples:
      specextend presets show smollm2-135m > mine.toml
      specextend summarize report.pdf --model ./mine.toml
    """
    from specextend_cli.models.presets import load_preset, to_toml
    from specextend_cli.ui.output import Output, sanitize

    found, output = load_preset(preset), Output()
    output.write_json(found.model_dump(mode="json")) if json else output.write(sanitize(to_toml(found)))


def preset_rows(presets: Iterable[Preset]) -> list[PresetRow]:
    """Of these presets, in the order of the list."""
    from specextend_cli.runtime.machine import this_machine

    machine = this_machine()
    return sorted((row(preset, machine) for preset in presets), key=lambda row: row.order)


def row(preset: Preset, machine: Machine) -> PresetRow:
    """The row of a preset on a machine."""
    from specextend_cli.models.candidates import is_slow_on_cpu, needs_cuda
    from specextend_cli.models.memory import estimate, fits
    from specextend_cli.models.sources import is_present, size_on_disk
    from specextend_cli.ui.tables import PresetRow

    on_cpu, lacks_gpu = machine.device == "cpu", machine.device != "cuda" and needs_cuda(preset)
    try:
        lacks_gpu = lacks_gpu or (on_cpu and is_slow_on_cpu(preset))
        need, room = estimate(preset, on_cpu=on_cpu), fits(preset, machine.free, on_cpu=on_cpu)
    except ModelError:  # a damaged local model: using it raises, listing does not
        need = room = None
    return PresetRow(
        name=preset.name,
        title=preset.title,
        drafter=" + ".join(preset.draft.of) or preset.draft.kind,
        licence=preset.licence,
        gated=preset.gated,
        tested=preset.tested,
        rank=preset.rank,
        hallucinated=preset.evidence.hallucinated if preset.evidence else None,
        context=preset.window.context,
        memory=need.total if need else None,
        complete=need is None or need.complete,
        disk=sum(map(size_on_disk, preset.sources)),
        present=is_present(preset),
        fits=room,
        lacks_gpu=lacks_gpu,
    )
