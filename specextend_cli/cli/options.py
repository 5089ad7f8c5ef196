"""The options that several commands share, each declared once, and the groups of them that belong together."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_type_hints

import typer

from specextend_cli.cli.help import Command, Rare
from specextend_cli.engine.attention_backends import Attention
from specextend_cli.engine.config import Policy
from specextend_cli.engine.registry import DRAFTERS
from specextend_cli.errors import UsageError, cause
from specextend_cli.humanize import format_or
from specextend_cli.models.prompt_templates import Length, Mode, Style
from specextend_cli.runtime.options import GENERATING, EngineOptions

INPUT, STYLE, MODEL, SPEED, OUTPUT, DIAGNOSTICS = "Input", "Length & style", "Model", "Speed", "Output", "Diagnostics"
"""Panels of `--help`. An option without a panel is an everyday one: those come first, under "Options"."""
MAX_TEMPLATE = 1 << 17
"""Bytes of a template that are read. A longer file is refused for its length by `SummaryRequest`."""

AUTO = "auto"
"""What `--model` is where no model is named: the program chooses."""

Run = TypeVar("Run", bound=Callable[..., None])

if TYPE_CHECKING:
    Draft: TypeAlias = str
else:
    Draft = Literal[tuple(DRAFTERS)]
# Commands are declared without importing pydantic, which owns the original of this (`models/preset.py`).
Dtype: TypeAlias = Literal["auto", "float32", "bfloat16", "float16"]


def finite(value: float | None) -> float | None:
    """Refuse inf and nan, which pass every bound."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    return value


def _not_nan(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number of seconds")
    return value


def _not_empty(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("it is empty; perhaps a shell variable is not set")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", value):
        raise typer.BadParameter(f"there is no device {value!r}: it is auto, cpu, cuda, cuda:1 or mps")
    return value


def _absolute(value: Path | None) -> Path | None:
    return None if value is None else value.absolute()


def go_offline(offline: bool) -> bool:
    """Set HF_HUB_OFFLINE before transformers or huggingface_hub is imported: both read it once."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    return offline


def preset_names(incomplete: str) -> list[str]:
    """Names of presets, for shell completion."""
    from specextend_cli.models.presets import preset_files

    return [name for name in preset_files() if name.startswith(incomplete)]


def model_names(incomplete: str) -> list[str]:
    """The same where the choice may be left to the program."""
    return [*([AUTO] if AUTO.startswith(incomplete) else []), *preset_names(incomplete)]


def option(names: str, help: str, metavar: str | None = None, panel: str | None = None, **settings: Any) -> Any:
    """An option of a command. `panel` is its heading in `--help`; with `Rare(panel)`, only `--help-all` lists it."""
    return typer.Option(*names.split(), help=help, metavar=metavar, rich_help_panel=panel, **settings)


_DOCUMENT = "PDF, Word, EPUB, HTML, email, transcripts, Markdown or text"
Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILES…", help=f"{_DOCUMENT}, directories of them, or - for stdin.", show_default=False),
]
File: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="FILE", help=f"{_DOCUMENT}, or - for stdin.", show_default=False)
]

# Documents
FilesFrom: TypeAlias = Annotated[
    str | None, option("--files-from", "Also read the files listed in this file, one a line.", "PATH", Rare(INPUT))
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
MaxTokens: TypeAlias = Annotated[
    int | None,
    option("--max-tokens", "Limit on the tokens of each text (extractive: on words).", "N", Rare(STYLE), min=1),
]
Temperature: TypeAlias = Annotated[
    float | None,
    option("--temperature", "Sampling temperature; 0 is greedy.", "T", Rare(STYLE), min=0.0, callback=finite),
]
Seed: TypeAlias = Annotated[int | None, option("--seed", "Seed for sampling.", "N", Rare(STYLE), min=0)]

# Model and speed
Model: TypeAlias = Annotated[
    str | None,
    option(
        "--model -m",
        "Preset, .toml or .gguf file, ollama:NAME, or auto.",
        "PRESET",
        envvar="SPECEXTEND_MODEL",
        autocompletion=model_names,
        show_default=False,
    ),
]
Device: TypeAlias = Annotated[
    str,
    option("--device", "auto, cpu, cuda, cuda:1 or mps.", "NAME", MODEL, envvar="SPECEXTEND_DEVICE", callback=_device),
]
DtypeOption: TypeAlias = Annotated[
    Dtype,
    option("--dtype", f"Number format: {format_or(get_args(Dtype))}.", "NAME", Rare(MODEL), envvar="SPECEXTEND_DTYPE"),
]
Offline: TypeAlias = Annotated[
    bool,
    option(
        "--offline",
        "Use only what is on disk.",
        panel=MODEL,
        envvar=["SPECEXTEND_OFFLINE", "HF_HUB_OFFLINE"],
        show_envvar=False,
        callback=go_offline,
    ),
]
DraftOption: TypeAlias = Annotated[Draft | None, option("--draft", f"{format_or(DRAFTERS)}.", "NAME", SPEED)]
DraftHead: TypeAlias = Annotated[
    Path | None,
    option(
        "--draft-head",
        "Draft with this EAGLE, DFlash or DSpark head and n-grams.",
        "DIR",
        Rare(SPEED),
        callback=_absolute,
    ),
]
DraftAttention: TypeAlias = Annotated[
    Policy | None,
    option("--draft-attention", f"What the drafter attends to: {format_or(get_args(Policy))}.", "NAME", Rare(SPEED)),
]
Compile: TypeAlias = Annotated[
    bool,
    option(
        "--compile/--no-compile",
        "On CPUs, run native code, compiled once in ten seconds where no wheel brought it.",
        panel=Rare(SPEED),
        envvar="SPECEXTEND_COMPILE",
    ),
]
AttentionOption: TypeAlias = Annotated[
    Attention, option("--attention", f"Attention kernels: {format_or(get_args(Attention))}.", "NAME", Rare(SPEED))
]
Timeout: TypeAlias = Annotated[
    float | None,
    option("--timeout", "Stop after this time (exit code 124).", "SECONDS", SPEED, min=0.001, callback=_not_nan),
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
Debug: TypeAlias = Annotated[
    bool, option("--debug", "Show tracebacks instead of short errors.", panel=Rare(DIAGNOSTICS))
]


@dataclass(frozen=True)
class ReadOptions:
    """How documents are read; the same for every input of a command."""

    pages: Annotated[str | None, option("--pages", "Read only these pages (PDF, text).", "3-10,20", INPUT)] = None
    password_file: Annotated[
        Path | None,
        option(
            "--password-file",
            "File with the PDF's password in its first line. (or set SPECEXTEND_PDF_PASSWORD)",
            "PATH",
            Rare(INPUT),
        ),
    ] = None
    ocr: Annotated[bool, option("--ocr", "Recognize scanned pages and images (needs tesseract).", panel=INPUT)] = False
    ocr_lang: Annotated[
        str | None,
        option("--ocr-lang", "Languages of the scans: eng, deu, eng+fra. Implies --ocr.", "NAMES", Rare(INPUT)),
    ] = None
    full_page: Annotated[
        bool, option("--full-page", "Read a whole web page, not only its article.", panel=Rare(INPUT))
    ] = False
    allow_url: Annotated[bool, option("--allow-url", "Fetch documents given as http(s) addresses.", panel=INPUT)] = (
        False
    )

    @property
    def languages(self) -> str | None:
        """The languages for OCR, or None without it. `--ocr-lang` alone asks for OCR, too. UsageError: no language."""
        from specextend_cli.documents.ocr_engine import LANGUAGE, check_languages

        return check_languages(self.ocr_lang) if self.ocr_lang is not None else LANGUAGE if self.ocr else None


# The flags of `EngineOptions`, whose package knows no command line.
_FLAGS: Mapping[str, Any] = {
    "temperature": Temperature,
    "seed": Seed,
    "device": Device,
    "dtype": DtypeOption,
    "draft": DraftOption,
    "draft_head": DraftHead,
    "draft_attention": DraftAttention,
    "compile": Compile,
    "attention": AttentionOption,
}


def generating(engine: EngineOptions) -> list[str]:
    """The flags that were set and matter only where text is generated."""
    return [f"--{name.replace('_', '-')}" for name in GENERATING if getattr(engine, name) is not None]


def command(app: typer.Typer, name: str | None = None) -> Callable[[Run], Run]:
    """Add a function to `app` as a command, with --debug, which `main.run` finds; returns the function itself.

    A parameter that is a dataclass of options becomes one option per field.
    """

    def add(function: Run) -> Run:
        hints = {**get_type_hints(function, include_extras=True), "debug": Debug}
        groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
        found: list[Parameter] = []
        for one in signature(function).parameters.values():
            found += signature(groups[one.name]).parameters.values() if one.name in groups else [one]
        for group in groups.values():
            hints |= _FLAGS if group is EngineOptions else get_type_hints(group, include_extras=True)
        found.append(Parameter("debug", Parameter.KEYWORD_ONLY, default=False))
        parameters = [one.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[one.name]) for one in found]

        def call(debug: bool, **values: Any) -> None:
            for name, group in groups.items():
                values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
            function(**values)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        call.__dict__["__signature__"] = Signature(parameters)
        app.command(name, cls=Command)(call)
        return function

    return add


def usable(device: str) -> None:
    """UsageError if a device that was named is absent. Imports torch to find out."""
    if device not in ("auto", "cpu"):
        from specextend_cli.runtime.devices import device_of

        device_of(device)


def given(**values: Any) -> dict[str, Any]:
    """The options that were set; the others keep the library's defaults."""
    return {name: value for name, value in values.items() if value is not None}


def drafter(draft: Draft | None, no_spec: bool) -> Draft | None:
    """`--no-spec` means `--draft none`."""
    if no_spec and draft not in (None, "none"):
        raise UsageError(f"--no-spec and --draft {draft} contradict each other", fix="leave one of them out")
    return "none" if no_spec else draft


def named(model: str | None) -> str | None:
    """The model that was named, for commands that have the embedded one otherwise."""
    return None if model == AUTO else model


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


def files(*named: Path | str | int | None) -> list[Path | int]:
    """The paths and open descriptors among `named`: what a command reads, and must not write over."""
    return [one if isinstance(one, int) else Path(one).expanduser() for one in named if one not in (None, "-")]


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
