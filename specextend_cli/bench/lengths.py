"""`512,1k,16k`: prompt lengths as people write them, a k being 1,024 tokens."""

from __future__ import annotations

import re

from specextend_cli.errors import UsageError

_LENGTH = re.compile(r"(\d+)\s*([kK]?)")


def parse_lengths(text: str) -> tuple[int, ...]:
    """Ascending distinct token counts. UsageError where one of them is none, or too small to hold a prompt."""
    lengths = []
    for part in text.split(","):
        found = _LENGTH.fullmatch(part.strip())
        if found is None:
            raise UsageError(f"--len: {part.strip()!r} is no length", fix="for example --len 512,1k,16k")
        length = int(found[1]) * (1024 if found[2] else 1)
        if not 16 <= length <= 1 << 24:
            raise UsageError(f"--len: {part.strip()} tokens are too {'few' if length < 16 else 'many'} for a prompt")
        lengths.append(length)
    return tuple(sorted(set(lengths)))


def format_length(length: int) -> str:
    """`16K`, or the number itself where it is no multiple of 1,024."""
    return f"{length // 1024}K" if length and length % 1024 == 0 else str(length)
