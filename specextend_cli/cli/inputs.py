"""From arguments to documents: files, directories, patterns, addresses, lists of files, stdin; and shares of them."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, get_args

from specextend_cli.cli.options import ReadOptions
from specextend_cli.cli.source import STDIN, STDOUT_DESCRIPTOR, Source, find_password, is_url
from specextend_cli.errors import InputError, UsageError, cause
from specextend_cli.humanize import printable

MAX_LIST = 64 << 20  # bytes of a list of files
_SHOWN = 3


class Shard(NamedTuple):
    """Share `number` of `of` equal shares, counted from 1."""

    number: int
    of: int

    def take(self, inputs: Sequence[Source]) -> list[Source]:
        """The inputs of this share. Shares are disjoint in any order of arguments; sizes differ by one at most."""
        if any(source.path == STDIN for source in inputs):
            raise UsageError("--shard takes files, not stdin", why="every share would read all of it")
        return sorted(inputs, key=lambda source: source.path)[self.number - 1 :: self.of]


def parse_shard(text: str | None) -> Shard | None:
    """ "3/8", from 1/8 to 8/8."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UsageError(
            f"--shard {text[:40]} is not a share", why="it is i/N, from 1/N to N/N", fix="for example --shard 3/8"
        )
    return Shard(int(found[1]), int(found[2]))


def sources(
    files: Sequence[str] | None,
    options: ReadOptions,
    *,
    example: str,
    listed: str | None = None,
    offline: bool = False,
    results: Path | None = None,
) -> list[Source]:
    """What to read: `files` and those in the list `listed` (`-`: stdin), with the documents in directories.

    stdin is read only with `-`, or with no file at all and something piped into it. Results of earlier runs in
    `results` are left out. UsageError if stdout is redirected into an input, or an option cannot be met.
    """
    from specextend_cli.documents.request import parse_pages
    from specextend_cli.ui.destination import refuse_inputs

    files = _named(files, listed, example)
    if options.pages is not None:
        parse_pages(options.pages)
    if options.password_file is not None:
        find_password(options.password_file)
    _ = options.languages
    found: dict[str, str] = {}
    for url in filter(is_url, files):
        _check_url(url, example, allowed=options.allow_url, offline=offline)
    for file in files:
        for path, within in _paths(file):
            found.setdefault(path, within)
    for path in _earlier_results(found, set(files), results):
        del found[path]
    if not found:
        raise InputError("there is no document", why="every file found is named as a result of an earlier run")
    inputs = _with_distinct_names([Source(path, within, options) for path, within in found.items()])
    refuse_inputs([STDOUT_DESCRIPTOR], [source.file for source in inputs if source.file is not None])
    return inputs


def one_source(file: str | None, options: ReadOptions, *, example: str, offline: bool = False) -> Source:
    """The same for a command that takes one document."""
    found = sources(None if file is None else [file], options, example=example, offline=offline)
    if len(found) > 1:
        fix = f"name one: {example}"
        raise UsageError(f"{file} are {len(found):,} documents", why=_some([source.path for source in found]), fix=fix)
    return found[0]


def _named(files: Sequence[str] | None, listed: str | None, example: str) -> Sequence[str]:
    """The arguments and the lines of the list; stdin if there are neither."""
    if listed is not None:
        if listed == STDIN and STDIN in (files or ()):
            raise UsageError("stdin can be read only once", why="it is the list of files", fix="leave out -")
        files = [*(files or ()), *_lines(listed)]
        if not files:
            raise InputError(f"{'the list' if listed == STDIN else listed} names no file")
    if not files:
        if sys.stdin is None or sys.stdin.isatty():
            fix = f"{example}, or: {_command(example)} -h"
            raise UsageError("no document is named", why="nothing is piped into stdin, either", fix=fix)
        return [STDIN]
    if "" in files:
        raise UsageError("the name of a file is empty", why="perhaps a shell variable is not set", fix=example)
    if list(files).count(STDIN) > 1:
        raise UsageError("stdin can be read only once", fix="give - once")
    return files


def _lines(listed: str) -> list[str]:
    try:
        if listed == STDIN:
            data = sys.stdin.buffer.read(MAX_LIST + 1)
        else:
            with Path(listed).open("rb") as file:
                data = file.read(MAX_LIST + 1)
    except OSError as error:
        raise InputError(f"cannot read the list {listed}", why=cause(error)) from error
    if len(data) > MAX_LIST:
        raise InputError(f"the list {listed} is too long", why=f"it has more than {MAX_LIST >> 20} MiB")
    return [line for line in os.fsdecode(data).splitlines() if line.strip()]


def _earlier_results(paths: Iterable[str], named: Collection[str], results: Path | None) -> list[str]:
    """Those of `paths`, except the `named` ones, whose name is that of a result for another: a.pdf.txt for a.pdf.

    In the directory `results` below another, all that are named as results are.
    """
    from specextend_cli.ui import Format, suffix_of
    from specextend_cli.ui.output import Output

    suffixes = set(map(suffix_of, get_args(Format)))
    others = {f"{Path(path).name}{suffix}" for path in paths for suffix in suffixes}
    folders = [Path(name).resolve() for name in named if results is not None and Path(name).is_dir()]
    below = results is not None and results.resolve() not in folders

    def is_result(path: Path) -> bool:
        if path.name in others:
            return True
        return path.suffix in suffixes and below and results is not None and results.resolve() in path.resolve().parents

    found = [path for path in paths if path not in named and is_result(Path(path))]
    if found:
        names = _some([printable(Path(path).name) for path in found])
        Output().note(f"left out, named as results of an earlier run: {names}")
    return found


def _with_distinct_names(found: Sequence[Source]) -> list[Source]:
    """Files with the same name are named by their paths below their innermost common directory."""
    folders: dict[str, list[Path]] = {}
    for source in found:
        if source.path != STDIN and not is_url(source.path):
            folders.setdefault(source.name, []).append(Path(source.path).parent.resolve())
    shared = {name: os.path.commonpath(parents) for name, parents in folders.items() if len(parents) > 1}

    def below(path: Path, folder: str) -> str:
        return (path.parent.resolve().relative_to(folder) / path.name).as_posix()

    return [
        replace(source, within=below(Path(source.path), shared[source.name])) if source.name in shared else source
        for source in found
    ]


def _check_url(url: str, example: str, *, allowed: bool, offline: bool) -> None:
    from specextend_cli.documents.read_errors import argument

    if not url.lower().startswith(("http://", "https://")):
        raise UsageError(f"{printable(url)} cannot be fetched", why="only http and https are")
    if offline:
        raise UsageError(f"{printable(url)} cannot be fetched offline", fix="leave --offline out, or give a file")
    if not allowed:
        fix = f"{_command(example)} --allow-url {argument(url)}"
        raise UsageError(f"{printable(url)} is a web address", why="nothing is fetched unless you allow it", fix=fix)


def _command(example: str) -> str:
    """ "specextend plan" of "specextend plan FILES…"."""
    return " ".join(example.split()[:2])


def _some(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _paths(file: str) -> Iterator[tuple[str, str]]:
    """The documents of a file, directory or quoted pattern, each with its path below a named directory, or ""."""
    path = Path(file)
    if file == STDIN or is_url(file):
        yield file, ""
    elif path.is_dir():
        yield from _in_directory(path)
    elif glob.has_magic(file) and not path.exists():
        matches = sorted(glob.glob(file, recursive=True))  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise InputError(f"nothing matches {file}", fix="another pattern: ** matches any number of directories")
        for match in map(Path, matches):
            if not match.is_dir():
                yield str(match), ""
            elif "**" not in file:  # with ** its files match, too
                yield from _in_directory(match)
    else:
        yield file, ""


def _in_directory(folder: Path) -> Iterator[tuple[str, str]]:
    from specextend_cli.documents.find import find
    from specextend_cli.ui.output import Output

    found = find(folder)
    if not found.documents:
        why = f"skipped: {found.account}" if found.account else "it is empty"
        raise InputError(f"there is no document in {folder}", why=why, fix="name a file, or a directory with documents")
    if found.account:
        Output().note(f"{folder}: {found}")
    for path in found.documents:
        yield str(path), path.relative_to(folder).as_posix()
