"""Everything written to a terminal, a pipe or a file: consumers of the pipeline's events."""

from typing import Literal, TypeAlias, get_args

Format: TypeAlias = Literal["text", "md", "json", "jsonl"]
"""The formats of a result: the one list of them. Each is its file's suffix, but for text; `results` has its writer."""


def suffix_of(format: Format) -> str:
    """The suffix of a file in that format."""
    return ".txt" if format == "text" else f".{format}"


def format_by_suffix(suffix: str) -> Format:
    """The format of a file with that suffix; text for any other."""
    formats: tuple[Format, ...] = get_args(Format)
    return next((format for format in formats if suffix_of(format) == suffix), "text")
