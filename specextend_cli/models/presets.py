"""Presets: finding them, shipped and the user's own, by name or path; reading and writing their TOML files.

`load_preset("smollm2-135m")` or `load_preset("./mine.toml")`. Errors name the file, the key and the fix.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
from pydantic import TypeAdapter, ValidationError

from specextend_cli import toml
from specextend_cli.errors import UsageError, cause
from specextend_cli.models.preset import DEFAULT, NAME, Preset
from specextend_cli.models.source_kinds import GgufSource, OllamaSource

_LARGEST = 1 << 20  # bytes
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")  # of a pydantic model, and of a dataclass
OLLAMA = "ollama:"
"""What the argument for a model of ollama's begins with."""


def read_preset(path: Path) -> Preset:
    """The preset in that file; UsageError with the key and the fix where it is not valid."""
    try:
        if (size := path.stat().st_size) > _LARGEST:
            raise UsageError(f"the preset {path} is too large", why=f"it has {size:,} bytes, more than {_LARGEST:,}")
        data = toml.loads(path.read_text(encoding="utf-8"))
        if path.suffix != ".toml" or not re.fullmatch(NAME, path.stem):
            why = "a name has lower-case letters, digits, dots and dashes"
            raise UsageError(f"{path} is no name for a preset", why=why, fix="for example fast.toml")
        # As JSON: its strict mode takes lists for tuples and strings for paths, and converts nothing else.
        text = json.dumps({**data, "name": path.stem}, default=str)
        preset = Preset.model_validate_json(text, context=path.parent)  # local paths are relative to the preset's file
    except FileNotFoundError:
        raise UsageError(f"there is no preset file {path}", fix="specextend models list") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the preset {path}", why=cause(error)) from error
    except (toml.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML", why=str(error), fix=f"correct it in {path}") from error
    except ValidationError as error:
        raise _explain(path, error) from error
    except ValueError as error:  # of what is computed from the rest
        raise UsageError(f"{path}: {error}", fix="give its [window], or another gpu_memory") from error
    return preset


def to_toml(preset: Preset) -> str:
    """The preset as TOML, defaults included; its name is left to the file."""
    import tomlkit

    return tomlkit.dumps(preset.model_dump(mode="json", exclude_none=True, exclude={"name"}))


def _explain(path: Path, error: ValidationError) -> UsageError:
    """The first problem in terms of the user's file: the key, the problem, the fix.

    Unknown keys come before all others, because a missing key may be a misspelt one.
    """
    first = min(error.errors(), key=lambda problem: problem["type"] not in _UNKNOWN)
    kinds = {"wheel", "hub", "hub-file", "local", "gguf", "ollama"}  # pydantic puts them behind "source"
    places = zip(first["loc"], ("", *first["loc"]), strict=False)
    keys = [str(part) for part, before in places if before != "source" or part not in kinds]
    where, message = ".".join(keys), first["msg"].removeprefix("Value error, ")
    if first["type"] in _UNKNOWN:
        place: Any = Preset.model_fields[keys[0]].annotation if len(keys) > 1 else Preset
        schema = TypeAdapter(place).json_schema()
        tables = (schema, *schema.get("$defs", {}).values())
        known = {key for table in tables for key in table.get("properties", ())}
        near = difflib.get_close_matches(keys[-1], known, n=1)
        fix = f"write {near[0]!r} there" if near else f"remove {keys[-1]!r}"
        return UsageError(f"{path}: {where}: unknown key", why="a misspelt key would be ignored silently", fix=fix)
    if first["type"] == "missing":
        return UsageError(
            f"{path}: {where}: missing", fix=f"add {keys[-1]!r}; for an example: specextend models show {DEFAULT}"
        )
    given = json.dumps(first["input"], default=str)
    return UsageError(
        f"{path}: {where or 'preset'}: {message}", why=f"it is {given:.120}", fix=f"change {where} in {path}"
    )


def load_preset(name_or_path: str | Path) -> Preset:
    """The preset of that name, or in that file where the argument ends in .toml or has a directory.

    For a .gguf file, or "ollama:NAME", a preset is made. UsageError: there is no such preset (with the nearest name),
    or it is not valid (with file and key). ModelError: the file cannot be used.
    """
    path = Path(os.path.expanduser(name_or_path))  # noqa: PTH111 - unlike Path's, it raises nothing without a home
    if path.suffix == ".gguf" or str(name_or_path).startswith(OLLAMA):
        return _made(str(name_or_path), path)
    if path.suffix != ".toml" and path.name == str(name_or_path):
        files = preset_files()
        if path.name not in files:
            raise _unknown(path.name, files)
        path = files[path.name]
    return read_preset(path)


def _made(argument: str, path: Path) -> Preset:
    from specextend_cli.models.gguf.settings import preset_for

    try:
        if path.suffix == ".gguf":
            return preset_for(GgufSource(kind="gguf", path=path.absolute()))
        return preset_for(OllamaSource(kind="ollama", name=argument.removeprefix(OLLAMA)))
    except ValidationError:
        if path.suffix == ".gguf":
            raise UsageError(f"{argument!r:.80} is no path", why="it has control characters") from None
        why = "ollama's names are [HOST/][NAMESPACE/]MODEL[:TAG]"
        raise UsageError(f"{argument!r:.80} names no model of ollama", why=why, fix="ollama list") from None


def list_presets() -> list[Preset]:
    """Every preset, the default first, then by name. UsageError where one of them is not valid."""
    return sorted(map(read_preset, preset_files().values()), key=lambda preset: (preset.name != DEFAULT, preset.name))


def preset_files() -> dict[str, Path]:
    """Preset names and their files. A user's preset hides a shipped one of the same name."""
    return {path.stem: path for folder in (_shipped(), user_presets()) for path in sorted(folder.glob("*.toml"))}


def user_presets() -> Path:
    """The directory of the user's own presets."""
    return Path(platformdirs.user_config_dir("specextend")) / "presets"


def _shipped() -> Path:
    """Inside the package when it was installed from a wheel, at the top of the repository in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "presets"
    return inside if inside.is_dir() else package.parent / "presets"


def _unknown(name: str, files: Mapping[str, Path]) -> UsageError:
    near = difflib.get_close_matches(name, files, n=1, cutoff=0.5)
    return UsageError(
        f"there is no preset {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        fix="specextend models list",
    )
