"""What the config.json of an EAGLE head says, whichever program wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specextend_cli.errors import ModelError


def read_settings(directory: Path) -> dict[str, Any]:
    """A head's config.json, flat; ModelError where it cannot be read."""
    try:
        settings = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        if not isinstance(settings, dict):
            raise ValueError("it is not an object")
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot read the head's config.json in {directory}", why=str(error)) from error
    # speculators keeps a decoder layer's sizes in a table of their own; what stands outside goes before it.
    inner = settings.get("transformer_layer_config") or {}
    return {**inner, **{key: value for key, value in settings.items() if value is not None}}


def nested(settings: dict[str, Any], key: str, default: Any) -> Any:
    """A field that some put at the top and others into `eagle_config`."""
    inner = settings.get("eagle_config") or {}
    return settings.get(key, inner.get(key, default))


def claims_eagle3(settings: dict[str, Any]) -> bool:
    """Whether the configuration says that the head is an EAGLE-3 one; SafeAILab's own do not all say so."""
    return (
        "eagle3" in json.dumps(settings.get("architectures", "")).lower()
        or settings.get("speculators_model_type") == "eagle3"
    )
