"""The user's configuration: which model runs where none is named, and whether one may be offered.

`config.toml` in the user's configuration directory has `model`, a preset; `offer`, whether a model may be offered for
download; and `gguf`, files that may be chosen.
"""

from __future__ import annotations

import json
from pathlib import Path

import platformdirs
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, ValidationError

from specextend_cli import toml
from specextend_cli.errors import UsageError, cause
from specextend_cli.models.checkpoint import reason
from specextend_cli.models.store import write_whole


class Configuration(BaseModel):
    """The contents of the file; `model` None leaves the choice to the program."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: str | None = None
    offer: bool = True
    gguf: tuple[str, ...] = ()


def configuration_file() -> Path:
    """The file, whether it is there or not."""
    return Path(platformdirs.user_config_dir("specextend")) / "config.toml"


def read_configuration() -> Configuration:
    """What the file says; the defaults where there is none. UsageError: it is not valid, with the key and the fix."""
    file = configuration_file()
    try:
        data = toml.loads(file.read_text(encoding="utf-8-sig"))
        found = Configuration.model_validate_json(json.dumps(data, default=str))
        return found.model_copy(update={"model": None}) if found.model in ("", "auto") else found
    except FileNotFoundError:
        return Configuration()
    except ValidationError as error:
        known = ", ".join(Configuration.model_fields)
        raise UsageError(f"{file}: {reason(error)}", why=f"its keys are {known}", fix=f"edit {file}") from error
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise UsageError(f"cannot read {file}", why=cause(error), fix=f"correct or remove {file}") from error


def configure(key: str, value: str | bool | None) -> None:
    """Set a key of the file, None removes it; other lines and comments stay. UsageError: it cannot be written."""
    import tomlkit

    file = configuration_file().resolve()  # a link stays one
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(file.with_name(f".{file.name}.lock")):
            read_configuration()  # a file with other faults is not made worse
            said = tomlkit.parse(file.read_text(encoding="utf-8-sig") if file.exists() else "")
            if value is None:
                said.pop(key, None)
            else:
                said[key] = value
            write_whole(file, said.as_string())
    except OSError as error:
        raise UsageError(f"cannot write {file}", why=cause(error)) from error
