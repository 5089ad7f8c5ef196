"""Which documents a command is about: those named, those in lists of files; and one share of them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from specextend_cli.cli.reading import STDIN, Source, sources
from specextend_cli.errors import InputError, UsageError

MOST_LIST = 64 << 20
"""Bytes of a list of files."""


class Shard(NamedTuple):
    """Share `number` of `of` equal ones, from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def take(self, inputs: Sequence[Source]) -> list[Source]:
        """Every input is in exactly one share, whatever order they are given in; none has two more than another."""
        if any(source.path == STDIN for source in inputs):
            raise UsageError("--shard takes files, not stdin", why="every share would need all of it")
        return sorted(inputs, key=lambda source: source.path)[self.number - 1 :: self.of]


def parse_shard(text: str | None) -> Shard | None:
    """ "3/8", from 1/8 to 8/8."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(
            f"--shard {text[:40]} is no share", why="it is i/N, from 1/N to N/N", fix="for example --shard 3/8"
        )
    return Shard(int(found[1]), int(found[2]))


def all_inputs(
    files: Sequence[str] | None,
    *,
    example: str,
    listed: str | None = None,
    pages: str | None = None,
    password_file: Path | None = None,
    allow_url: bool = False,
    offline: bool = False,
    ocr: str | None = None,
    full_page: bool = False,
    results: Path | None = None,
) -> list[Source]:
    """What to read: `sources` of the files, and of those in the list `listed` (`-`: stdin)."""
    if listed is not None:
        if listed == STDIN and STDIN in (files or ()):
            raise UsageError("stdin can be read only once", why="it is the list of files", fix="leave out -")
        files = [*(files or ()), *_lines(listed)]
        if not files:
            raise InputError(f"{'the list' if listed == STDIN else listed} names no file")
    return sources(
        files,
        example=example,
        pages=pages,
        password_file=password_file,
        allow_url=allow_url,
        offline=offline,
        ocr=ocr,
        full_page=full_page,
        results=results,
    )


def _lines(listed: str) -> list[str]:
    try:
        if listed == STDIN:
            data = sys.stdin.buffer.read(MOST_LIST + 1)
        else:
            with Path(listed).open("rb") as file:
                data = file.read(MOST_LIST + 1)
    except OSError as error:
        raise InputError(f"cannot read the list {listed}", why=error.strerror or str(error)) from error
    if len(data) > MOST_LIST:
        raise InputError(f"the list {listed} is too long", why=f"it has more than {MOST_LIST >> 20} MiB")
    return [line for line in os.fsdecode(data).splitlines() if line.strip()]
