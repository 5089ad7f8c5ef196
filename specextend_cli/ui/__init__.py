"""Everything written to a terminal, a pipe or a file: consumers of the pipeline's events."""

from typing import Literal, TypeAlias

Format: TypeAlias = Literal["text", "md", "json", "jsonl"]  # formats of a result
