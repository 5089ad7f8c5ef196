"""Where results go: stdout, one file, or a directory with one file per document; whole files or none.

An input is never overwritten, and an existing file only with `--force`; both are checked before any work.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import cast, get_args

from specextend_cli.documents.formats import FORMATS, kind_by_suffix
from specextend_cli.errors import UsageError, cause
from specextend_cli.humanize import format_or
from specextend_cli.ui import Format, suffix_of
from specextend_cli.ui.annotations import Annotations
from specextend_cli.ui.streams import sanitize
from specextend_cli.ui.writers import NO_MARKS, WRITERS, JsonArray, Write, Writer

_EACH = "every input gets a file of its own"


@dataclass(frozen=True)
class Destination:
    """A `file`, a `directory`, or neither: stdout, where JSON of several documents is an `array`."""

    format: Format
    file: Path | None = None
    directory: Path | None = None
    force: bool = False
    marks: Annotations = NO_MARKS
    array: JsonArray | None = None

    @property
    def is_stdout(self) -> bool:
        """True if results go to stdout."""
        return self.file is None and self.directory is None

    @property
    def is_prose(self) -> bool:
        """See `Writer`."""
        return WRITERS[self.format].is_prose

    def path(self, name: str) -> Path | None:
        """The file for the document `name`, which may contain directories; None for stdout."""
        if self.directory is not None:
            return self.directory / f"{name}{suffix_of(self.format)}"
        return self.file

    def keeps(self, path: Path) -> bool:
        """True if the result of an earlier run at `path` is kept."""
        return self.directory is not None and not self.force and path.exists()

    def check(self, names: Sequence[str], inputs: Sequence[Path | int]) -> None:
        """UsageError if the result of a document in `names` would overwrite an input, a file, or another result.

        Also if a directory cannot be written to, which concerns all of them.
        """
        twice = [name for name, count in Counter(names).items() if count > 1]
        if self.directory is not None and twice:
            why, fix = f"both would be written to {self.path(twice[0])}", "summarize them into different directories"
            raise UsageError(f"two of the inputs are named {twice[0]}", why=why, fix=fix)
        paths = [path for name in names if (path := self.path(name)) is not None]
        refuse_inputs(paths, inputs)
        if self.file is not None:
            refuse_existing([self.file], force=self.force)
        elif (new := next((path for path in paths if not self.keeps(path)), None)) is not None:
            check_writable(new)

    @contextmanager
    def open(self, write: Write, path: Path | None, *, name: str = "", heading: str = "") -> Iterator[Writer]:
        """A writer for the document `name`: to `path`, or through `write` to stdout, below a `heading`."""
        with self._target(write, path, heading) as put:
            yield WRITERS[self.format](put, self.marks, name)

    def put(self, write: Write, text: str, path: Path | None, *, heading: str = "") -> None:
        """Write a result that is complete already."""
        with self._target(write, path, heading) as put:
            put(text)

    @contextmanager
    def all(self, write: Write) -> Iterator[None]:
        """Close the array of results at the end of the body, also after an error."""
        if self.array is None:
            yield
            return
        try:
            yield
        except BaseException:
            self.array.close(write, empty=False)
            raise
        self.array.close(write)

    @contextmanager
    def _target(self, write: Write, path: Path | None, heading: str) -> Iterator[Write]:
        if path is None and self.array is not None:
            yield self.array.item(write)
            return
        if path is None:
            yield with_heading(heading, write) if heading and self.is_prose else write
            return
        with atomic(path, force=self.force) as put:
            yield put


def destination(
    output: str | None, format: str, *, many: bool, force: bool = False, marks: Annotations = NO_MARKS
) -> Destination:
    """The destination of `--output`: a directory if it is one, ends in / or there are many inputs; stdout for -.

    UsageError where a directory is needed and a file is named (`-o all.md` means one file), or a file of a format that
    is only read, as a PDF.
    """
    kind = cast(Format, format)
    if output is None or output == "-":
        return Destination(kind, marks=marks, array=JsonArray() if many and kind == "json" else None)
    path = Path(output)
    if path.is_dir() or many or output.endswith("/"):
        if path.exists() and not path.is_dir():
            raise UsageError(
                f"--output {output} is a file, and a directory is needed", why=_EACH, fix="name a directory"
            )
        if not path.is_dir() and not output.endswith("/") and _is_of_a_file(path.suffix):
            form = "" if kind == "text" else f"--format {kind} "
            one = quote(str(path.with_suffix(suffix_of(kind))))
            fix = f"--output {quote(str(path.with_suffix('')))}/; or, for one file, {form}> {one}"
            raise UsageError(f"--output {output} names a file, and a directory is needed", why=_EACH, fix=fix)
        return Destination(kind, directory=path, force=force, marks=marks)
    if (named := kind_by_suffix(path.suffix)) not in (None, "text", "markdown"):
        why = f"results are {format_or(get_args(Format))}"
        fix = f"--output {quote(str(path.with_suffix(suffix_of(kind))))}"
        raise UsageError(f"--output {output} is named as {FORMATS[named].label}", why=why, fix=fix)
    return Destination(kind, file=path, force=force, marks=marks)


def _is_of_a_file(suffix: str) -> bool:
    return suffix in map(suffix_of, get_args(Format)) or kind_by_suffix(suffix) is not None


def with_heading(heading: str, write: Write) -> Write:
    """`write`, preceded by a heading before the first text: a document that fails gets none."""
    waiting = [f"==> {sanitize(heading)} <==\n\n"]

    def headed(text: str) -> None:
        write((waiting.pop() if waiting else "") + text)

    return headed


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
            mask = os.umask(0)  # it can be read only by setting it
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            _rename(temporary, path.resolve(), force=force)
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
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            return None, os.open(path, os.O_WRONLY)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise UsageError(f"cannot write {path}", why=cause(error)) from error
    return Path(name), descriptor


def _rename(temporary: Path, path: Path, *, force: bool) -> None:
    """Rename. Without `force`, keep a file created meanwhile, atomically if the file system has hard links."""
    if force:
        temporary.replace(path)
        return
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise exists_already(path) from None
    except OSError:  # a file system without links
        if path.exists():
            raise exists_already(path) from None
        temporary.replace(path)
    else:
        temporary.unlink()


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[Path | int]) -> None:
    """UsageError, even with `--force`, if one of `outputs` is one of `inputs`; an int is an open descriptor."""
    reading = {identity: _name(one) for one in inputs if (identity := _identity(one)) is not None}
    for output in outputs:
        if (identity := _identity(output)) and (name := reading.get(identity)):
            also = "" if name == str(output) else f" as {name}"
            why = "the result would replace its own input"
            raise UsageError(f"the output {output} is read by this command{also}", why=why, fix="name another output")


def refuse_redirection(inputs: Iterable[Path | int], stdout: int) -> None:
    """UsageError if the descriptor `stdout` is redirected into a file that is read, as by `>> report.txt`."""
    found = _identity(stdout)
    for source in inputs if found is not None else ():
        if _identity(source) == found:
            empty = "; the shell has emptied it already" if not os.fstat(stdout).st_size else ""
            why, fix = f"the result would be written into what is read{empty}", "redirect it into another file"
            raise UsageError(f"stdout is redirected into the input, {_name(source)}", why=why, fix=fix)


def refuse_existing(outputs: Iterable[Path], *, force: bool) -> None:
    """UsageError if one of `outputs` exists, unless overwriting is forced."""
    for output in outputs:
        if not force and output.is_file():  # devices and pipes are written to, not replaced
            raise exists_already(output)


def exists_already(path: Path) -> UsageError:
    """The error for a result that would overwrite a file."""
    fix = "--force writes it again; or name another"
    return UsageError(f"{path} exists already", why="existing files are not overwritten", fix=fix)


def _name(one: Path | int) -> str:
    return "stdin" if isinstance(one, int) else str(one)


def _identity(one: Path | int) -> tuple[int, int] | None:
    """Device and inode of a file or directory; None for pipes, devices and what does not exist."""
    try:
        status = os.fstat(one) if isinstance(one, int) else one.stat()
    except (OSError, ValueError):
        return None
    kept = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return (status.st_dev, status.st_ino) if kept else None
