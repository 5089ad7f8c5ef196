"""The options that several commands share, each declared once, and the checks of their values."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import typer

from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.errors import UsageError, cause
from specextend_cli.humanize import format_or
from specextend_cli.models.prompt_templates import Length, Mode, Style

MAX_TEMPLATE = 1 << 17
"""Bytes of a template that are read. A longer file is refused for its length by `SummaryRequest`."""
AUTO = "auto"
"""What `--model` is where no model is named: the program chooses."""

if TYPE_CHECKING:
    Draft: TypeAlias = str
else:
    Draft = Literal[tuple(DRAFTERS)]


def _not_empty(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("it is empty; perhaps a shell variable is not set")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", value):
        raise typer.BadParameter(f"there is no device {value!r}: it is auto, cpu, cuda, cuda:1 or mps")
    return value


def go_offline(offline: bool) -> bool:
    """Set HF_HUB_OFFLINE before transformers or huggingface_hub is imported: both read it once."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return offline


def preset_names(incomplete: str) -> list[str]:
    """Names of presets, for shell completion."""
    from specextend_cli.models.presets import preset_files

    return [name for name in (AUTO, *preset_files()) if name.startswith(incomplete)]


def option(names: str, help: str, metavar: str | None = None, **settings: Any) -> Any:
    """An option of a command."""
    return typer.Option(*names.split(), help=help, metavar=metavar, **settings)


_DOCUMENT = "PDF, Word, EPUB, HTML, email, transcripts, Markdown or text"
Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES", help=f"{_DOCUMENT}; directories, http(s) addresses, or - for stdin.", show_default=False
    ),
]
File: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="FILE", help=f"{_DOCUMENT}, or - for stdin.", show_default=False)
]
Preset: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Preset name, .toml or .gguf file, or ollama:NAME.", autocompletion=preset_names
    ),
]

# Documents
Pages: TypeAlias = Annotated[str | None, option("--pages", "Read only these pages (PDF, text).", "3-10,20")]
UseOcr: TypeAlias = Annotated[bool, option("--ocr", "Recognize scanned pages and images (needs tesseract).")]
OcrLanguages: TypeAlias = Annotated[
    str | None, option("--ocr-lang", "Languages of the scans: eng, deu, eng+fra. Implies --ocr.", "NAMES")
]

# Summary
LengthOption: TypeAlias = Annotated[
    str | None, option("--length", "Number of words, or short, medium (default) or long.", "WORDS")
]
StyleOption: TypeAlias = Annotated[
    Style | None, option("--style", f"{format_or(get_args(Style))}. Default: by the kind of text.", "NAME")
]
ModeOption: TypeAlias = Annotated[
    Mode | None,
    option("--mode", "extractive (no model), guided (document sentences, ranked with the model), abstractive.", "NAME"),
]
Temperature: TypeAlias = Annotated[
    float | None, option("--temperature", "Sampling temperature; 0 is greedy.", "T", min=0.0)
]
Seed: TypeAlias = Annotated[int | None, option("--seed", "Seed for sampling.", "N", min=0)]

# Model and speed
Model: TypeAlias = Annotated[
    str | None,
    option(
        "--model -m",
        "Preset, .toml or .gguf file, ollama:NAME, or auto.",
        "NAME",
        envvar="SPECEXTEND_MODEL",
        autocompletion=preset_names,
        show_default=False,
    ),
]
Device: TypeAlias = Annotated[
    str, option("--device", "auto, cpu, cuda, cuda:1 or mps.", "NAME", envvar="SPECEXTEND_DEVICE", callback=_device)
]
Offline: TypeAlias = Annotated[
    bool,
    option(
        "--offline",
        "Use only what is on disk.",
        envvar=["SPECEXTEND_OFFLINE", "HF_HUB_OFFLINE"],
        show_envvar=False,
        callback=go_offline,
    ),
]
DraftOption: TypeAlias = Annotated[Draft | None, option("--draft", f"{format_or(DRAFTERS)}.", "NAME")]
DraftHead: TypeAlias = Annotated[
    Path | None, option("--draft-head", "Draft with the head in this directory and n-grams.", "DIR", resolve_path=True)
]

# Output
OutputPath: TypeAlias = Annotated[
    str | None,
    option(
        "--output -o", "Write to this file, or into this directory: a file for each input.", "PATH", callback=_not_empty
    ),
]
Json: TypeAlias = Annotated[bool, option("--json", "Print JSON.")]
Force: TypeAlias = Annotated[bool, option("--force", "Overwrite existing results.")]
Quiet: TypeAlias = Annotated[bool, option("--quiet -q", "Show no progress and no statistics.")]


def usable(device: str) -> None:
    """UsageError if a device that was named is absent. Imports torch to find out."""
    if device not in ("auto", "cpu"):
        from specextend_cli.runtime.devices import device_of

        device_of(device)


def format_name(format: str | None, json: bool) -> str | None:
    """`--json` means `--format json`."""
    if json and format not in (None, "json"):
        raise UsageError(f"--json and --format {format} contradict each other", fix="leave one of them out")
    return "json" if json else format


def length(text: str | None) -> int | Length | None:
    """A number of words, or the name of a length."""
    if text is None:
        return None
    for name in get_args(Length):
        if text == name:
            return name  # type: ignore[no-any-return]
    try:
        return int(text)
    except ValueError:
        why = "it is neither a number of words nor short, medium or long"
        raise UsageError(f"--length {text[:40]} is not a length", why=why, fix="for example --length 150") from None


def template(path: Path | None) -> str | None:
    """The text of that file, up to a limit; UsageError if it cannot be read or is not UTF-8."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return file.read(MAX_TEMPLATE + 1).decode()
    except OSError as error:
        raise UsageError(f"cannot read the template {path}", why=cause(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the template {path} is not text", why="it is not UTF-8", fix="save it as UTF-8") from error
