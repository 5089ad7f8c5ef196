"""The options of `specextend bench` that no other command has, and what they may not say together."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from specextend_cli.cli import options
from specextend_cli.errors import UsageError

WORKLOAD = "Workload"


class Format(str, Enum):
    """What the result looks like; without one, a table for people."""

    md = "md"
    csv = "csv"
    json = "json"
    jsonl = "jsonl"


class DecodingName(str, Enum):
    """How the target's tokens are chosen."""

    greedy = "greedy"
    preset = "preset"
    sample = "sample"


class SuiteName(str, Enum):
    """A fixed set of measurements."""

    gpu = "gpu"


class WorkloadName(str, Enum):
    """What is written."""

    summary = "summary"
    reasoning = "reasoning"


Lengths: TypeAlias = Annotated[
    str,
    typer.Option("--len", metavar="512,1k,16k", help="Prompt lengths in target tokens.", rich_help_panel=WORKLOAD),
]
Docs: TypeAlias = Annotated[
    int, typer.Option("--docs", metavar="N", min=1, help="Documents a length.", rich_help_panel=WORKLOAD)
]
Repeats: TypeAlias = Annotated[
    int, typer.Option("--repeats", metavar="R", min=1, help="Runs of each.", rich_help_panel=WORKLOAD)
]
Tokens: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--tokens",
        metavar="N",
        min=2,
        help="Most new tokens: 256, or 2,048 for reasoning.",
        rich_help_panel=WORKLOAD,
    ),
]
Decoding: TypeAlias = Annotated[
    DecodingName,
    typer.Option(
        "--decoding",
        metavar="|".join(DecodingName.__members__),
        help="The preset's own, greedy without penalties, or sampled.",
        rich_help_panel=WORKLOAD,
    ),
]
Workload: TypeAlias = Annotated[
    WorkloadName,
    typer.Option(
        "--workload",
        metavar="|".join(WorkloadName.__members__),
        help="Long prompts, or short problems with long answers.",
        rich_help_panel=WORKLOAD,
    ),
]
Inputs: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("--input", metavar="FILE", help="A document; may be repeated.", rich_help_panel=options.INPUT),
]
Dataset: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="FILE|NAME",
        help="A JSONL file of documents, or govreport, pg19, booksum from the Hub. "
        "Default: the Python language reference, which every interpreter carries.",
        rich_help_panel=options.INPUT,
    ),
]
Methods: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--methods",
        metavar="A,B,…",
        help="Which, plain always among them; --list names all.",
        rich_help_panel=options.SPEED,
    ),
]
List: TypeAlias = Annotated[
    bool, typer.Option("--list", help="List the methods and end.", rich_help_panel=options.SPEED)
]
Experiments: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--experiment",
        metavar="A,B,…",
        help="Instead of a comparison: lengths, ablation, overhead, parameters, policies, positions, triggers, gate, "
        "layers, recall, needle, divergence, costs.",
        rich_help_panel=WORKLOAD,
    ),
]
Profile: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--profile",
        help="Instead of a comparison: where the time of a step goes; with --report, a trace of it, too.",
        rich_help_panel=WORKLOAD,
    ),
]
Suite: TypeAlias = Annotated[
    SuiteName | None,
    typer.Option(
        "--suite",
        metavar="|".join(SuiteName.__members__),
        help="Instead of a comparison: everything about a GPU in a few minutes, kernels to steps, without a network.",
        rich_help_panel=WORKLOAD,
    ),
]
Tune: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--tune",
        metavar="NAME.toml",
        help="Look for better settings; write them there as a preset, where they are.",
        rich_help_panel=WORKLOAD,
    ),
]
Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="With --tune: what each change brought.", rich_help_panel=WORKLOAD)
]
Report: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="DIR", help="Write an HTML page and its pictures there.", rich_help_panel=options.OUTPUT
    ),
]
Compare: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--compare",
        metavar="OLD.json",
        help="Fail where something is worse than in an earlier result.",
        rich_help_panel=options.OUTPUT,
    ),
]
OutputPath: TypeAlias = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="PATH", help="Write the result there.", rich_help_panel=options.OUTPUT),
]
FormatOption: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        metavar="|".join(Format.__members__),
        help="Default: a table, or what the output's name says.",
        rich_help_panel=options.OUTPUT,
    ),
]
Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="The whole result as one line of JSON.", rich_help_panel=options.OUTPUT)
]
Fresh: TypeAlias = Annotated[
    bool,
    typer.Option("--fresh", help="Do not continue an interrupted run.", rich_help_panel=options.DIAGNOSTICS),
]


def format_name(format: Format | None, json: bool, output: Path | None) -> str | None:
    """`--format`, else what the output's name says; None is the table."""
    if (name := options.format_name(format, json)) is not None or output is None:
        return name
    suffix = output.suffix.removeprefix(".")
    if suffix not in Format.__members__:
        raise UsageError(
            f"--output {output}: its name does not say which format it is", fix="add -f md, csv, json or jsonl"
        )
    return suffix


def refuse_together(ones: Mapping[str, object], others: Mapping[str, object]) -> None:
    """UsageError for options that ask for different things: two of the first, or one of each."""
    given = [name for name, value in ones.items() if value]
    given += [name for name, value in others.items() if value and given]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} contradict each other", fix="leave one of them out")
