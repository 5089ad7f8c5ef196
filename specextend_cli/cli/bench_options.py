"""The options that only `specextend bench` has, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

from specextend_cli.cli import options
from specextend_cli.cli.help import Rare
from specextend_cli.cli.options import option
from specextend_cli.errors import UsageError

INSTEAD, WORKLOAD = "Instead of a comparison", "Workload"
"""Panels of `--help`. An option without a panel is an everyday one: those come first, under "Options"."""

Format: TypeAlias = Literal["md", "csv", "json", "jsonl"]
DecodingName: TypeAlias = Literal["greedy", "preset", "sample"]
WorkloadName: TypeAlias = Literal["summary", "reasoning"]


Lengths: TypeAlias = Annotated[str, option("--len", "Prompt lengths in target tokens; k is 1,024.", "512,1k,16k")]
Docs: TypeAlias = Annotated[int, option("--docs", "Documents of each length.", "N", min=1)]
Inputs: TypeAlias = Annotated[
    list[Path] | None, option("--input", "Measure on this document; may be repeated.", "FILE")
]
Dataset: TypeAlias = Annotated[
    str | None,
    option("--dataset", "A file of JSON lines, or govreport, pg19, booksum. Default: Python's manual.", "FILE|NAME"),
]
Methods: TypeAlias = Annotated[
    str | None, option("--methods", "Methods besides plain; --list describes them.", "A,B,…")
]
List: TypeAlias = Annotated[bool, option("--list", "Describe the methods and exit.")]
Report: TypeAlias = Annotated[
    Path | None, option("--report", "Write an HTML page and its plots into this directory.", "DIR")
]
Compare: TypeAlias = Annotated[
    Path | None,
    option("--compare", "Exit with 1 if anything is worse than in this earlier result.", "OLD.json"),
]
OutputPath: TypeAlias = Annotated[Path | None, option("--output -o", "Write the result to this file.", "PATH")]
FormatOption: TypeAlias = Annotated[
    Format | None,
    option("--format -f", "md, csv, json, jsonl. Default: a table, or by the output's name.", "NAME"),
]
Json: TypeAlias = Annotated[bool, option("--json", "Print the whole result as one line of JSON.")]
Experiments: TypeAlias = Annotated[
    str | None,
    option(
        "--experiment",
        "lengths, ablation, overhead, parameters, policies, gate, recall, needle, costs",
        "A,…",
        panel=INSTEAD,
    ),
]
Profile: TypeAlias = Annotated[
    bool, option("--profile", "Time of a step by operation; traces with --report.", panel=INSTEAD)
]
Suite: TypeAlias = Annotated[
    Literal["gpu", "quality"] | None,
    option(
        "--suite",
        "gpu: kernels to steps, in a few minutes, offline; quality: summaries against references and baselines.",
        "gpu|quality",
        panel=INSTEAD,
    ),
]
Words: TypeAlias = Annotated[
    Literal["document", "reference"] | None,
    option(
        "--words",
        "With --suite quality: a third of the document's, or the reference's. Default: by the latter.",
        "document|reference",
        panel=Rare(INSTEAD),
    ),
]
Tune: TypeAlias = Annotated[
    Path | None,
    option("--tune", "Look for better settings; write them as a preset.", "NAME.toml", INSTEAD),
]
Explain: TypeAlias = Annotated[bool, option("--explain", "With --tune: what each change gains.", panel=Rare(INSTEAD))]
Repeats: TypeAlias = Annotated[
    int, option("--repeats", "Runs of each method on each prompt.", "R", panel=WORKLOAD, min=1)
]
Tokens: TypeAlias = Annotated[
    int | None,
    option("--tokens", "Limit on new tokens: 256, or 2,048 for reasoning.", "N", panel=WORKLOAD, min=2),
]
Decoding: TypeAlias = Annotated[
    DecodingName,
    option("--decoding", "preset, greedy (without penalties) or sample.", "NAME", panel=WORKLOAD),
]
Workload: TypeAlias = Annotated[
    WorkloadName,
    option("--workload", "summary, or reasoning: short problems with long answers.", "NAME", panel=WORKLOAD),
]
Fresh: TypeAlias = Annotated[
    bool, option("--fresh", "Do not continue an interrupted run.", panel=Rare(options.DIAGNOSTICS))
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
