"""Finding presets, shipped and the user's own, by name or path.

`load_preset("smollm2-135m")` or `load_preset("./mine.toml")`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from specextend_cli.errors import UsageError
from specextend_cli.models.preset import DEFAULT, Preset
from specextend_cli.models.preset_file import read_preset


def load_preset(name_or_path: str | Path) -> Preset:
    """The preset of that name, or in that file where the argument ends in .toml or has a directory.

    UsageError: there is no such preset (with the nearest name), or it is not valid (with file and key).
    """
    path = Path(name_or_path).expanduser()
    if path.suffix != ".toml" and path.name == str(name_or_path):
        files = preset_files()
        if path.name not in files:
            raise _unknown(path.name, files)
        path = files[path.name]
    return read_preset(path)


def list_presets() -> list[Preset]:
    """Every preset, the default first, then by name. UsageError where one of them is not valid."""
    return sorted(map(read_preset, preset_files().values()), key=lambda preset: (preset.name != DEFAULT, preset.name))


def preset_files() -> dict[str, Path]:
    """Preset names and their files. A user's preset hides a shipped one of the same name."""
    return {path.stem: path for folder in (_shipped(), user_presets()) for path in sorted(folder.glob("*.toml"))}


def user_presets() -> Path:
    """The directory of the user's own presets."""
    return Path(platformdirs.user_config_dir("specextend")) / "presets"


def sentence_ranker() -> Path:
    """The file of the sentence ranker that needs no model (see `summarize/ranking/ranker.py`)."""
    return _shipped() / "sentence-ranker" / "trees.npz"


def _shipped() -> Path:
    """Inside the package when it was installed from a wheel, at the top of the repository in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "presets"
    return inside if inside.is_dir() else package.parent / "presets"


def _unknown(name: str, files: Mapping[str, Path]) -> UsageError:
    near = difflib.get_close_matches(name, files, n=1, cutoff=0.5)
    return UsageError(
        f"there is no preset {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        why=f"known presets: {', '.join(files)}",
        fix=f"specextend summarize --model {near[0] if near else DEFAULT} FILE",
    )
