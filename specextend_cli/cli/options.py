"""The flags that several commands share, each declared once."""

from __future__ import annotations

import math
import os
import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from specextend_cli.errors import UsageError

INPUT, STYLE, MODEL, SPEED, OUTPUT, DIAGNOSTICS = (
    "Input",
    "Length & style",
    "Model",
    "Speed",
    "Output",
    "Diagnostics",
)


MOST_TEMPLATE = 1 << 17
"""Bytes; what is longer is refused for its length by those who use it."""


class Format(str, Enum):
    """What a result looks like."""

    text = "text"
    md = "md"
    json = "json"
    jsonl = "jsonl"


class Style(str, Enum):
    """What a summary looks like."""

    paragraph = "paragraph"
    bullets = "bullets"
    abstract = "abstract"
    tldr = "tldr"
    outline = "outline"


class Sentences(str, Enum):
    """Whose sentences a summary has."""

    quoted = "quoted"
    written = "written"


class Draft(str, Enum):
    """What proposes tokens."""

    none = "none"
    ngram = "ngram"
    lm = "lm"
    eagle = "eagle"
    self = "self"
    blend = "blend"


class Policy(str, Enum):
    """Which positions a drafter sees."""

    full = "full"
    streaming = "streaming"
    retrieval = "retrieval"


class Dtype(str, Enum):
    """What the model computes in."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


def finite(value: float | None) -> float | None:
    """The value of an option, if it is a number: inf and nan pass every bound."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to reckon with")
    return value


def _not_nan(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number of seconds")
    return value


def _not_empty(value: str | None) -> str | None:
    if value == "":
        raise typer.BadParameter("it is empty; perhaps a shell variable is not set")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", value):
        raise typer.BadParameter(f"there is no device {value!r}: it is auto, cpu, cuda, cuda:1 or mps")
    return value


def preset_names(incomplete: str) -> list[str]:
    """For shell completion."""
    from specextend_cli.models.presets import preset_files

    return [name for name in preset_files() if name.startswith(incomplete)]


Files: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES…",
        help="PDF, Word, EPUB, HTML, email, Markdown or text, or directories of them; - or a pipe: stdin.",
        show_default=False,
    ),
]
File: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE", help="PDF, Word, EPUB, HTML, email, Markdown or text; - or a pipe: stdin.", show_default=False
    ),
]
Pages: TypeAlias = Annotated[
    str | None,
    typer.Option("--pages", metavar="3-10,20", help="Only these pages, 1-based (PDF, text).", rich_help_panel=INPUT),
]
AllowUrl: TypeAlias = Annotated[
    bool,
    typer.Option("--allow-url", help="Fetch documents given as http(s) addresses.", rich_help_panel=INPUT),
]
PasswordFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="PATH",
        help="First line: the PDF's password. Or set SPECEXTEND_PDF_PASSWORD.",
        rich_help_panel=INPUT,
    ),
]
OcrOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--ocr", help="Recognize pages that are pictures, and images (needs tesseract).", rich_help_panel=INPUT
    ),
]
OcrLanguages: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ocr-lang", metavar="NAMES", help="What they are in: eng, deu, eng+fra. Means --ocr.", rich_help_panel=INPUT
    ),
]
FullPage: TypeAlias = Annotated[
    bool,
    typer.Option("--full-page", help="All of a web page, not only its article.", rich_help_panel=INPUT),
]
FilesFrom: TypeAlias = Annotated[
    str | None,
    typer.Option("--files-from", metavar="PATH", help="Also what this list names, a line each.", rich_help_panel=INPUT),
]
ShardOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--shard", metavar="i/N", help="Only this share of the inputs, 1/N to N/N.", rich_help_panel=INPUT),
]
Length: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--length",
        metavar="WORDS",
        help="How many words, or short, medium, long. Default: medium, about 300 words, a third of a shorter text.",
        rich_help_panel=STYLE,
    ),
]
StyleOption: TypeAlias = Annotated[
    Style,
    typer.Option(
        "--style", metavar="NAME", help="paragraph, bullets, abstract, tldr or outline.", rich_help_panel=STYLE
    ),
]
Focus: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--focus",
        metavar="QUESTION",
        help="Attend above all to what answers it (with a larger preset).",
        rich_help_panel=STYLE,
    ),
]
Language: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="NAME",
        help="Write in French, say (with a larger preset). Default: as the text.",
        rich_help_panel=STYLE,
    ),
]
Template: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--template",
        "-t",
        metavar="FILE",
        help="A prompt of your own for the summary; {document} is where the text goes.",
        rich_help_panel=STYLE,
    ),
]
SentencesOption: TypeAlias = Annotated[
    Sentences | None,
    typer.Option(
        "--sentences",
        metavar="NAME",
        help="quoted: the document's own, which the model chooses; written: the model's. Default: the preset's.",
        rich_help_panel=STYLE,
    ),
]
MaxTokens: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="N", min=1, help="Never more tokens than this.", rich_help_panel=STYLE),
]
Temperature: TypeAlias = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", min=0.0, callback=finite, help="0 is greedy.", rich_help_panel=STYLE),
]
Seed: TypeAlias = Annotated[
    int | None, typer.Option("--seed", metavar="N", min=0, help="For sampling.", rich_help_panel=STYLE)
]
Model: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="PRESET",
        envvar="SPECEXTEND_MODEL",
        help="A preset's name, or a .toml file. See: specextend presets list",
        autocompletion=preset_names,
        rich_help_panel=MODEL,
        show_default=False,
    ),
]
Device: TypeAlias = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="NAME",
        envvar="SPECEXTEND_DEVICE",
        callback=_device,
        help="auto, cpu, cuda, cuda:1.",
        rich_help_panel=MODEL,
    ),
]
DtypeOption: TypeAlias = Annotated[
    Dtype,
    typer.Option(
        "--dtype",
        metavar="|".join(Dtype.__members__),
        envvar="SPECEXTEND_DTYPE",
        help="Number format.",
        rich_help_panel=MODEL,
    ),
]
Offline: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--offline",
        envvar=["SPECEXTEND_OFFLINE", "HF_HUB_OFFLINE"],
        help="Use only what is on disk.",
        rich_help_panel=MODEL,
        show_envvar=False,
    ),
]
DraftOption: TypeAlias = Annotated[
    Draft | None,
    typer.Option("--draft", metavar="|".join(Draft.__members__), help="What proposes tokens.", rich_help_panel=SPEED),
]
HeadOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--head",
        metavar="DIR",
        help="Draft with this EAGLE head and n-grams, not the preset's draft.",
        rich_help_panel=SPEED,
    ),
]
PolicyOption: TypeAlias = Annotated[
    Policy | None,
    typer.Option(
        "--policy", metavar="|".join(Policy.__members__), help="Which positions a drafter sees.", rich_help_panel=SPEED
    ),
]
NoSpec: TypeAlias = Annotated[
    bool, typer.Option("--no-spec", help="Plain decoding, without a drafter.", rich_help_panel=SPEED)
]
Compile: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--compile/--no-compile",
        envvar="SPECEXTEND_COMPILE",
        help="On processors, read and decode with kernels and layers compiled here, once, in a minute or two.",
        rich_help_panel=SPEED,
    ),
]
Batch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        help="Notes on parts written at once, without drafts; 1: one by one, drafted for.",
        rich_help_panel=SPEED,
    ),
]
Strict: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--strict", help="Fail where a page cannot be read; pages without text are only listed.", rich_help_panel=INPUT
    ),
]
Timeout: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.001,
        callback=_not_nan,
        help="Stop after this long (exit 124).",
        rich_help_panel=SPEED,
    ),
]
RayOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Over the workers of this Ray cluster; local: one on this machine.",
        rich_help_panel=SPEED,
    ),
]
Workers: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--workers", metavar="N", min=1, help="With --ray. Default: one a GPU, or four cores.", rich_help_panel=SPEED
    ),
]
NoCache: TypeAlias = Annotated[
    bool,
    typer.Option("--no-cache", help="Neither reuse nor store the notes of earlier runs.", rich_help_panel=SPEED),
]
Cite: TypeAlias = Annotated[
    bool,
    typer.Option("--cite", help="Say after each sentence where it is from: [p. 3, 7].", rich_help_panel=OUTPUT),
]
Check: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--check", help="Mark numbers, dates and names that are not in the source: [?].", rich_help_panel=OUTPUT
    ),
]
OutputPath: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        callback=_not_empty,
        help="A file; or a directory, for several inputs or where it ends in /. Written whole or not at all; what "
        "exists stays.",
        rich_help_panel=OUTPUT,
    ),
]
FormatOption: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        metavar="|".join(Format.__members__),
        help="Default: text, or what the output's name says. json of several documents is an array.",
        rich_help_panel=OUTPUT,
    ),
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
Force: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Overwrite results that exist.", rich_help_panel=OUTPUT)
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", "-n", help="Show the plan, load no model.", rich_help_panel=DIAGNOSTICS)
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no statistics.", rich_help_panel=DIAGNOSTICS)
]
Verbose: TypeAlias = Annotated[
    bool, typer.Option("--verbose", "-v", help="More figures at the end.", rich_help_panel=DIAGNOSTICS)
]
Debug: TypeAlias = Annotated[
    bool, typer.Option("--debug", help="Tracebacks instead of short errors.", rich_help_panel=DIAGNOSTICS)
]


def go_offline(offline: bool) -> None:
    """Say it in the environment too, before transformers or huggingface_hub is imported: both read it once."""
    if offline:
        os.environ["HF_HUB_OFFLINE"] = "1"


def usable(device: str) -> None:
    """UsageError where a device that was named is not there, before anything is read. Imports torch to know."""
    if device not in ("auto", "cpu"):
        from specextend_cli.runtime.devices import device_of

        device_of(device)


def given(**values: Any) -> dict[str, Any]:
    """The options that were set, enumerations as their values; the rest keep the library's defaults."""
    return {
        name: value.value if isinstance(value, Enum) else value for name, value in values.items() if value is not None
    }


def drafter(draft: Draft | None, no_spec: bool) -> str | None:
    """`--no-spec` is `--draft none`."""
    if no_spec and draft not in (None, Draft.none):
        raise UsageError(f"--no-spec and --draft {draft.value} contradict each other", fix="leave one of them out")
    return "none" if no_spec else draft.value if draft else None


def format_name(format: Enum | None, json: bool) -> str | None:
    """`--json` is `--format json`."""
    if json and format is not None and format.value != "json":
        raise UsageError(f"--json and --format {format.value} contradict each other", fix="leave one of them out")
    return "json" if json else None if format is None else str(format.value)


def ocr(wanted: bool, languages: str | None) -> str | None:
    """The languages that OCR is to read, where it is wanted; `--ocr-lang` alone says so too."""
    from specextend_cli.documents.ocr_engine import LANGUAGE, check_languages

    return check_languages(languages) if languages is not None else LANGUAGE if wanted else None


def length(text: str | None) -> int | str | None:
    """A number of words, or the name of a length."""
    if text is None or text in ("short", "medium", "long"):
        return text
    try:
        return int(text)
    except ValueError:
        why = "it is neither a number of words nor short, medium or long"
        raise UsageError(f"--length {text[:40]} is no length", why=why, fix="for example --length 150") from None


def files(*named: Path | str | int | None) -> list[Path | int]:
    """Those that may be files, or open descriptors: what a command reads, and must not write over."""
    return [one if isinstance(one, int) else Path(one).expanduser() for one in named if one not in (None, "-")]


def template(path: Path | None) -> str | None:
    """The text of that file; UsageError where there is none, or far too much."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return file.read(MOST_TEMPLATE + 1).decode()
    except OSError as error:
        raise UsageError(f"cannot read the template {path}", why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the template {path} is not text", why="it is not UTF-8", fix="save it as UTF-8") from error
