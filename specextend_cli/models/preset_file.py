"""A preset as the text of a TOML file that `load_preset` reads back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from specextend_cli.errors import UsageError
from specextend_cli.models.preset import Preset

NAME = r"[a-z0-9][a-z0-9.-]*"


def check_name(path: Path) -> None:
    """UsageError where no preset could be read from there: its name is the file's."""
    if path.suffix != ".toml" or not re.fullmatch(NAME, path.stem):
        why = "a name has lower-case letters, digits, dots and dashes"
        raise UsageError(f"{path} is no name for a preset", why=why, fix="for example fast.toml")


def to_toml(preset: Preset, name: str) -> str:
    """The preset under another `name`, that of its file; settings at their defaults are written out too."""
    data = preset.model_dump(mode="json", exclude_none=True)
    return "\n".join(_table({**data, "name": name}, ())) + "\n"


def _table(values: Mapping[str, object], at: tuple[str, ...]) -> Iterator[str]:
    """Plain values before tables, as TOML demands."""
    if at:
        yield f"\n[{'.'.join(at)}]"
    for key, value in values.items():
        if not isinstance(value, Mapping):
            # JSON's strings, numbers, booleans and lists of them are TOML's, with DEL escaped.
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _table(value, (*at, key))
