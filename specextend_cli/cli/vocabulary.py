"""The tokenizer of a preset's target, without torch; shared by the commands that only count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specextend_cli.models.preset import Preset
    from specextend_cli.models.tokens import TextEncoder


def check_model(model: str | None) -> None:
    """UsageError where there is no preset of that name: said before a document is read."""
    from specextend_cli.models.preset import DEFAULT
    from specextend_cli.models.presets import load_preset

    load_preset(model or DEFAULT)


def vocabulary(model: str | None, *, offline: bool) -> tuple[Preset, TextEncoder]:
    """The preset of that name (or the default one) and its encoder; the model is fetched if it is not here."""
    from specextend_cli.models.preset import DEFAULT
    from specextend_cli.models.presets import load_preset
    from specextend_cli.models.sources import fetch
    from specextend_cli.models.tokens import TextEncoder
    from specextend_cli.ui.fetching import fetching
    from specextend_cli.ui.streams import Output

    preset = load_preset(model or DEFAULT)
    with fetching(Output(), preset.name) as progress:
        directory = fetch(preset.target.source, name=preset.name, offline=offline, progress=progress)
    return preset, TextEncoder.of(directory)
