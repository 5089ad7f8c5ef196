"""The options that only `specextend bench` has, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import typer

from specextend_cli.cli import options
from specextend_cli.cli.help import Rare
from specextend_cli.errors import UsageError

INSTEAD, WORKLOAD = "Instead of a comparison", "Workload"
"""Panels of `--help`. An option without a panel is an everyday one: those come first, under "Options"."""

Format: TypeAlias = Literal["md", "csv", "json", "jsonl"]
DecodingName: TypeAlias = Literal["greedy", "preset", "sample"]
WorkloadName: TypeAlias = Literal["summary", "reasoning"]


def _option(*names: str, help: str, panel: str | None = None, **settings: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


Lengths: TypeAlias = Annotated[
    str, _option("--len", help="Prompt lengths in target tokens; k is 1,024.", metavar="512,1k,16k")
]
Docs: TypeAlias = Annotated[int, _option("--docs", help="Documents of each length.", metavar="N", min=1)]
Inputs: TypeAlias = Annotated[
    list[Path] | None, _option("--input", help="Measure on this document; may be repeated.", metavar="FILE")
]
Dataset: TypeAlias = Annotated[
    str | None,
    _option(
        "--dataset",
        help="A file of JSON lines, or govreport, pg19, booksum. Default: Python's manual.",
        metavar="FILE|NAME",
    ),
]
Methods: TypeAlias = Annotated[
    str | None, _option("--methods", help="Methods besides plain; --list describes them.", metavar="A,B,…")
]
List: TypeAlias = Annotated[bool, _option("--list", help="Describe the methods and exit.")]
Report: TypeAlias = Annotated[
    Path | None, _option("--report", help="Write an HTML page and its plots into this directory.", metavar="DIR")
]
Compare: TypeAlias = Annotated[
    Path | None,
    _option("--compare", help="Exit with 1 if anything is worse than in this earlier result.", metavar="OLD.json"),
]
OutputPath: TypeAlias = Annotated[
    Path | None, _option("--output", "-o", help="Write the result to this file.", metavar="PATH")
]
FormatOption: TypeAlias = Annotated[
    Format | None,
    _option("--format", "-f", help="md, csv, json, jsonl. Default: a table, or by the output's name.", metavar="NAME"),
]
Json: TypeAlias = Annotated[bool, _option("--json", help="Print the whole result as one line of JSON.")]
Experiments: TypeAlias = Annotated[
    str | None,
    _option(
        "--experiment",
        help="lengths, ablation, overhead, parameters, policies, gate, recall, needle, costs",
        metavar="A,…",
        panel=INSTEAD,
    ),
]
Profile: TypeAlias = Annotated[
    bool, _option("--profile", help="Time of a step by operation; traces with --report.", panel=INSTEAD)
]
Suite: TypeAlias = Annotated[
    Literal["gpu", "quality"] | None,
    _option(
        "--suite",
        help="gpu: kernels to steps, in a few minutes, offline; quality: summaries against references and baselines.",
        metavar="gpu|quality",
        panel=INSTEAD,
    ),
]
Words: TypeAlias = Annotated[
    Literal["document", "reference"] | None,
    _option(
        "--words",
        help="With --suite quality: a third of the document's, or the reference's. Default: by the latter.",
        metavar="document|reference",
        panel=Rare(INSTEAD),
    ),
]
Tune: TypeAlias = Annotated[
    Path | None,
    _option("--tune", help="Look for better settings; write them as a preset.", metavar="NAME.toml", panel=INSTEAD),
]
Explain: TypeAlias = Annotated[
    bool, _option("--explain", help="With --tune: what each change gains.", panel=Rare(INSTEAD))
]
Repeats: TypeAlias = Annotated[
    int, _option("--repeats", help="Runs of each method on each prompt.", metavar="R", min=1, panel=WORKLOAD)
]
Tokens: TypeAlias = Annotated[
    int | None,
    _option("--tokens", help="Limit on new tokens: 256, or 2,048 for reasoning.", metavar="N", min=2, panel=WORKLOAD),
]
Decoding: TypeAlias = Annotated[
    DecodingName,
    _option(
        "--decoding",
        help="preset, greedy (without penalties) or sample.",
        metavar="NAME",
        panel=WORKLOAD,
    ),
]
Workload: TypeAlias = Annotated[
    WorkloadName,
    _option(
        "--workload",
        help="summary, or reasoning: short problems with long answers.",
        metavar="NAME",
        panel=WORKLOAD,
    ),
]
Fresh: TypeAlias = Annotated[
    bool, _option("--fresh", help="Do not continue an interrupted run.", panel=Rare(options.DIAGNOSTICS))
]


def format_name(format: Format | None, json: bool, output: Path | None) -> str | None:
    """The format: `--format`, else by the output's name; None is the table."""
    if json and format is not None and format != "json":
        raise UsageError("--json and --format contradict each other", fix="leave one of them out")
    if json or format is not None or output is None:
        return "json" if json else format
    suffix = output.suffix.removeprefix(".")
    if suffix not in get_args(Format):
        raise UsageError(
            f"--output {output}: its name does not say which format it is", fix="add -f md, csv, json or jsonl"
        )
    return suffix


def refuse_together(ones: Mapping[str, object], others: Mapping[str, object]) -> None:
    """UsageError for options that ask for different things: two of `ones`, or one of each."""
    given = [name for name, value in ones.items() if value]
    given += [name for name, value in others.items() if value and given]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} contradict each other", fix="leave one of them out")
