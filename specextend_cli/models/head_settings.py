"""What the config.json of an EAGLE head says, whichever program wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specextend_cli.errors import ModelError
from specextend_cli.models.json_file import read_object


def read_settings(directory: Path) -> dict[str, Any]:
    """A head's config.json, flat; ModelError where it cannot be read."""
    try:
        settings = read_object(directory / "config.json")
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the head's config.json in {directory}", why=str(error)) from error
    # speculators keeps a decoder layer's sizes in a table of their own; what stands outside goes before it.
    inner = _table(directory, settings, "transformer_layer_config")
    flat = {**inner, **{key: value for key, value in settings.items() if value is not None}}
    _table(directory, flat, "eagle_config")
    return flat


def _table(directory: Path, settings: dict[str, Any], key: str) -> dict[str, Any]:
    """The table under `key`, empty where there is none; ModelError where something else stands there."""
    table = settings.get(key)
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise ModelError(f"cannot read the head's config.json in {directory}", why=f"its {key} is not an object")
    return table


def nested(settings: dict[str, Any], key: str, default: Any) -> Any:
    """A field that some put at the top and others into `eagle_config`."""
    inner = settings.get("eagle_config")
    return settings.get(key, inner.get(key, default) if isinstance(inner, dict) else default)


def claims_eagle3(settings: dict[str, Any]) -> bool:
    """Whether the configuration says that the head is an EAGLE-3 one; SafeAILab's own do not all say so."""
    return (
        "eagle3" in json.dumps(settings.get("architectures", "")).lower()
        or settings.get("speculators_model_type") == "eagle3"
    )
