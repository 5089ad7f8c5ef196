"""Where results go: stdout, one file, or a directory with one file per document; whole files or none.

An input is never overwritten, and an existing file only with `--force`; both are checked before any work.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from shlex import quote

from specextend_cli.documents.formats import kind_by_suffix
from specextend_cli.errors import UsageError, cause
from specextend_cli.ui import FORMATS, Format, suffix_of
from specextend_cli.ui.results import WRITERS, Write, Writer


@dataclass(frozen=True)
class Destination:
    """`paths` has the file of each document, by its name; a document without one goes to stdout.

    `in_directory`: results of earlier runs are kept. `array`: several documents go to stdout as one JSON array.
    """

    format: Format
    paths: Mapping[str, Path] = field(default_factory=dict)
    in_directory: bool = False
    force: bool = False
    cite: bool = False
    array: list[str] | None = None

    def keeps(self, name: str) -> bool:
        """True if the result of an earlier run for the document `name` is kept."""
        return self.in_directory and not self.force and self.paths[name].exists()

    def check(self, inputs: Sequence[Path | int]) -> None:
        """UsageError if a result would overwrite an input or a file, or cannot be written."""
        refuse_inputs(self.paths.values(), inputs)
        if not self.in_directory:
            refuse_existing(self.paths.values(), force=self.force)
        elif (new := next((path for name, path in self.paths.items() if not self.keeps(name)), None)) is not None:
            check_writable(new)

    @contextmanager
    def open(self, write: Write, name: str, *, heading: str = "") -> Iterator[Writer]:
        """A writer for the document `name`: to its file, or through `write` to stdout, below a `heading`."""
        with self.target(write, name) as put:
            yield WRITERS[self.format](put, self.cite, name, "" if name in self.paths else heading)

    @contextmanager
    def target(self, write: Write, name: str) -> Iterator[Write]:
        """What writes the result of `name`, of one piece if it goes into an array."""
        if name in self.paths:
            with atomic(self.paths[name], force=self.force) as put:
                yield put
        else:
            yield write if self.array is None else self.array.append

    @contextmanager
    def all(self, write: Write) -> Iterator[None]:
        """Write the array of results, if there is one, at the end of the body; after an error, of those there are."""
        try:
            yield
        finally:
            if self.array is not None:
                write(f"[{','.join(self.array).rstrip()}]\n")


def destination(
    output: str | None,
    format: Format,
    documents: Sequence[tuple[str, Path | int | None]],
    *,
    many: bool,
    force: bool = False,
    cite: bool = False,
) -> Destination:
    """The destination of `--output` for `documents`, each with its name and its file (None: it has none).

    A directory if it is one, ends in / or there are many inputs; stdout for -. UsageError where a directory is needed
    and a file is named (`-o all.md` means one file).
    """
    if output is None or output == "-":
        return Destination(format, cite=cite, array=[] if many and format == "json" else None)
    path = Path(output)
    if not (many or path.is_dir() or output.endswith("/")):
        if kind_by_suffix(path.suffix) not in (None, "text", "markdown"):
            raise UsageError(f"--output {output} names a format that is only read", fix=f"--output {path.stem}.txt")
        return Destination(format, {name: path for name, _ in documents}, force=force, cite=cite)
    is_file = path.suffix in FORMATS and not output.endswith("/")
    if not path.is_dir() and (path.exists() or is_file):
        fix = f"--output {quote(str(path.with_suffix('')))}/"
        raise UsageError(f"--output {output} names a file, and a directory is needed", fix=fix)
    return Destination(format, _in_directory(path, documents, suffix_of(format)), True, force, cite)


def _in_directory(
    directory: Path, documents: Sequence[tuple[str, Path | int | None]], suffix: str
) -> Mapping[str, Path]:
    """flood-warning.md for flood-warning.pdf; flood-warning.pdf.md if another document would get the same name.

    So it is, too, if the document itself is in the directory, where flood-warning.md may be no result. UsageError where
    two documents have one name, as two addresses may: the second result would be taken for an earlier run's.
    """
    if twice := [name for name, count in Counter(name for name, _ in documents).items() if count > 1]:
        why, fix = f"both would be written into {directory}", "summarize them into different directories"
        raise UsageError(f"two of the inputs are named {twice[0]}", why=why, fix=fix)
    suffixes = {name: Path(name).suffix for name, _ in documents if kind_by_suffix(Path(name).suffix) is not None}
    short = {name: name.removesuffix(suffixes.get(name, "")) for name, _ in documents}
    counts = Counter(short.values())
    paths = {}
    for name, file in documents:
        path = directory / name
        beside = isinstance(file, Path) and file.resolve().parent == path.resolve().parent
        unique = counts[short[name]] == 1 and (short[name] == name or short[name] not in short)
        paths[name] = directory / f"{short[name] if unique and not beside else name}{suffix}"
    return paths


@contextmanager
def atomic(path: Path, *, force: bool = False) -> Iterator[Write]:
    """Write a file completely or not at all: the body gets a function that writes, and leaving it renames the file.

    Links are followed; pipes and devices are written to directly. UsageError if it cannot be written, or exists by now.
    """
    temporary, descriptor = _temporary_for(path)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file.write
        if temporary is not None:
            refuse_existing([path], force=force)
            temporary.replace(path.resolve())
    except BaseException:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """UsageError if no file can be created next to `path`, before the content is computed."""
    temporary, descriptor = _temporary_for(path)
    os.close(descriptor)
    if temporary is not None:
        temporary.unlink()


def _temporary_for(path: Path) -> tuple[Path | None, int]:
    """A temporary file next to `path` and its descriptor; for a pipe or device, None and a descriptor of `path`."""
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            return None, os.open(path, os.O_WRONLY)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{token_hex(4)}.part")
        return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise UsageError(f"cannot write {path}", why=cause(error), fix="name another output") from error


def refuse_inputs(outputs: Iterable[Path | int], inputs: Iterable[Path | int]) -> None:
    """UsageError, even with `--force`, if one of `outputs` is one of `inputs`; an int is an open descriptor."""
    reading = set(map(_identity, inputs)) - {None}
    for output in outputs:
        if _identity(output) in reading:
            name = output if isinstance(output, Path) else ("stdin", "stdout", "stderr")[output]
            why, fix = "the result would be written into its own input", "name another output"
            raise UsageError(f"the output {name} is read by this command", why=why, fix=fix)


def refuse_existing(outputs: Iterable[Path], *, force: bool = False) -> None:
    """UsageError if one of `outputs` exists, unless overwriting is forced."""
    for output in outputs:
        if not force and output.is_file():  # devices and pipes are written to, not replaced
            fix = "--force writes it again; or name another"
            raise UsageError(f"{output} exists already", why="existing files are not overwritten", fix=fix)


def _identity(one: Path | int) -> tuple[int, int] | None:
    """Device and inode of a file or directory; None for pipes, devices and what does not exist."""
    try:
        status = os.fstat(one) if isinstance(one, int) else one.stat()
    except (OSError, ValueError):
        return None
    kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if kept else None
