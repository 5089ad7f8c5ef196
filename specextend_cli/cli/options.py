"""The options that several commands share, each declared once, and the checks of their values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import typer

from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.errors import UsageError, cause
from specextend_cli.humanize import format_or

MAX_TEMPLATE = 1 << 17
"""Bytes of a template that are read. A longer file is refused for its length by `Request`."""
AUTO = "auto"
"""What `--model` is where no model is named: the program chooses."""

if TYPE_CHECKING:
    from specextend_cli.models.prompt_templates import Length

    Draft: TypeAlias = str
else:
    Draft = Literal[tuple(DRAFTERS)]


def _not_empty(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("it is empty; perhaps a shell variable is not set")
    return value


def go_offline(offline: bool) -> bool:
    """Set HF_HUB_OFFLINE before transformers or huggingface_hub is imported: both read it once."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return offline


def presets(incomplete: str) -> list[str]:
    """Names of presets, for shell completion."""
    from specextend_cli.models.presets import preset_files

    return [name for name in (AUTO, *preset_files()) if name.startswith(incomplete)]


def option(names: str, help: str, metavar: str | None = None, **settings: Any) -> Any:
    """An option of a command."""
    return typer.Option(*names.split(), help=help, metavar=metavar, **settings)


Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES", help="Documents, directories, http(s) addresses, or - for stdin."),
]
File: TypeAlias = Annotated[str | None, typer.Argument(metavar="FILE", help="A document, or - for stdin.")]
Preset: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="Preset, .toml or .gguf file, or ollama:NAME.", autocompletion=presets)
]

Pages: TypeAlias = Annotated[str | None, option("--pages", "Read only these pages (PDF, text).", "3-10,20")]
UseOcr: TypeAlias = Annotated[bool, option("--ocr", "Recognize scanned pages and images (needs ocrmypdf).")]
OcrLanguages: TypeAlias = Annotated[str | None, option("--ocr-lang", "Languages of scans: deu, eng+fra.", "NAMES")]

LengthOption: TypeAlias = Annotated[str | None, option("--length", "Words, or short, medium or long.", "WORDS")]

Model: TypeAlias = Annotated[
    str | None,
    option(
        "--model -m",
        "Preset, .toml or .gguf file, ollama:NAME, or auto.",
        "NAME",
        envvar="SPECEXTEND_MODEL",
        autocompletion=presets,
    ),
]
Device: TypeAlias = Annotated[str, option("--device", "auto, cpu, cuda or cuda:1.", "NAME", envvar="SPECEXTEND_DEVICE")]
Offline: TypeAlias = Annotated[
    bool,
    option(
        "--offline", "Use only what is on disk.", envvar=["SPECEXTEND_OFFLINE", "HF_HUB_OFFLINE"], callback=go_offline
    ),
]
DraftOption: TypeAlias = Annotated[Draft | None, option("--draft", f"{format_or(DRAFTERS)}.", "NAME")]
DraftHead: TypeAlias = Annotated[
    Path | None, option("--draft-head", "Draft with the head in this directory and n-grams.", "DIR", resolve_path=True)
]

OutputPath: TypeAlias = Annotated[
    str | None, option("--output -o", "Write to this file or directory.", "PATH", callback=_not_empty)
]
Json: TypeAlias = Annotated[bool, option("--json", "Print JSON.")]
Force: TypeAlias = Annotated[bool, option("--force", "Overwrite existing results.")]
Quiet: TypeAlias = Annotated[bool, option("--quiet -q", "Show no progress and no statistics.")]


def usable(device: str) -> None:
    """UsageError if a device that was named is absent, or none. Imports torch to find out."""
    if device not in ("auto", "cpu"):
        from specextend_cli.runtime.devices import device_of

        device_of(device)


def length(text: str | None) -> int | Length | None:
    """A number of words, or the name of a length, which `Request` checks."""
    return int(text) if text is not None and text.isdecimal() else cast("Length | None", text)


def template(path: Path | None) -> str | None:
    """The text of that file, up to a limit; UsageError if it cannot be read or is not UTF-8."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEMPLATE + 1).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the template {path}", why=cause(error)) from error
