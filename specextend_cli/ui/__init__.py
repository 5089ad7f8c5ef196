"""Everything written to a terminal, a pipe or a file: consumers of the pipeline's events."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

Format: TypeAlias = Literal["text", "md", "json", "jsonl"]
"""The formats of a result: the one list of them. Each is its file's suffix, but for text; `results` has its writer."""


def suffix_of(format: Format) -> str:
    """The suffix of a file in that format."""
    return ".txt" if format == "text" else f".{format}"


FORMATS: Mapping[str, Format] = {suffix_of(format): format for format in get_args(Format)}
"""The formats by the suffix of their files."""
