"""`read`: a path, or "-" for stdin, to a `Document`. Start here.

document = read(Path("report.pdf"), pages=parse_pages("3-10"))
chunks = chunk(document, encode, size=4096)
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from specextend_cli.documents.clean import plain_characters, tidy
from specextend_cli.documents.detect import HEAD, UNREAD, detect, encoding, is_markdown
from specextend_cli.documents.document import Block, Document, Edit, Extraction, Page
from specextend_cli.documents.layout import Text, compose
from specextend_cli.documents.line import grid
from specextend_cli.documents.markdown import markdown_blocks
from specextend_cli.documents.names import STDIN, argument, printable
from specextend_cli.documents.pages import PageRange
from specextend_cli.errors import InputError

Progress = Callable[[int, int], None]

MAX_BYTES = 512 << 20
MAX_TEXT_BYTES = 64 << 20


def read(
    path: Path | Literal["-"],
    *,
    pages: PageRange | None = None,
    password: str | None = None,
    progress: Progress | None = None,
) -> Document:
    """Read a document; InputError says what is wrong with it and what helps.

    `progress(done, total)` is called as pages are read. `password` opens an encrypted PDF.
    """
    if path == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        return read_bytes("-", data, pages=pages, password=password, progress=progress)
    assert isinstance(path, Path)
    name = printable(path.name)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise InputError(f"{name} is a directory", fix=f"specextend summarize {argument(str(path))}/*")
        _check_size(name, status.st_size)
        with path.open("rb") as file:
            if not stat.S_ISREG(status.st_mode):  # a pipe, as in <(command): it can be read once and not sought
                data = file.read(MAX_BYTES + 1)
                return read_bytes(path.name, data, pages=pages, password=password, progress=progress)
            head = file.read(HEAD)
            if detect(head) == "pdf":
                return _pdf(path, name, pages, password, progress)
            is_zip = head.startswith(b"PK")
            if not is_zip:
                _check_size(name, status.st_size, MAX_TEXT_BYTES)
            data = head + file.read(MAX_TEXT_BYTES)
    except OSError as error:
        raise _unreadable(path, name, error) from error
    return read_bytes(path.name, data, pages=pages, progress=progress)


def read_bytes(
    name: str,
    data: bytes,
    *,
    pages: PageRange | None = None,
    password: str | None = None,
    progress: Progress | None = None,
) -> Document:
    """Read a document from memory; `name` is for messages, and "-" for stdin."""
    shown = STDIN if name == "-" else printable(name)
    _check_size(shown, len(data))
    kind = detect(data[:HEAD], data)
    if not data.strip():
        raise InputError(f"{shown} is empty", why=f"it has {len(data)} bytes" if data else "it has 0 bytes")
    if kind == "pdf":
        with tempfile.NamedTemporaryFile(suffix=".pdf") as file:  # the process that parses it wants a file
            file.write(data)
            file.flush()
            return _pdf(Path(file.name), shown, pages, password, progress)
    if kind != "text":
        raise _unread(shown, kind)
    _check_size(shown, len(data), MAX_TEXT_BYTES)
    document = _text(name, shown, data, pages)
    if progress:
        progress(document.extraction.pages, document.extraction.pages)
    return document


# -------------------------------------------------------------------------------------------------------- kinds


def _pdf(path: Path, name: str, pages: PageRange | None, password: str | None, progress: Progress | None) -> Document:
    from specextend_cli.documents.pdf import scan

    found = scan(path, name=name, pages=pages, password=password, progress=progress)
    cleaned, edits = tidy([found.pages[number] for number in sorted(found.pages)])
    asked = frozenset(found.asked)
    kept = [[line for line in page if line.page in asked] for page in cleaned]
    empty = tuple(number for number in found.asked if not found.pages.get(number) and number not in found.failed)
    if len(found.failed) == len(asked):
        reasons = "; ".join(sorted(set(found.failed.values())))
        raise InputError(f"{name}: none of {_count(len(asked), 'page')} could be read", why=reasons)
    if len(empty) + len(found.failed) == len(asked):
        raise _scanned(name, len(asked), found.images)
    warnings = []
    if found.cut_off:
        warnings.append(f"The end of {name} is missing: it looks cut off, and pages may be too.")
    if found.failed:
        warnings.append(f"{_pages(tuple(found.failed))} could not be read.")
    if found.second_reader:
        warnings.append(f"{_pages(found.second_reader)} needed the second reader: the layout there may be poor.")
    if found.images and len(empty) >= max(3, 0.1 * len(asked)):
        warnings.append(
            f"{_pages(empty)} of {name} hold images and no text: they look scanned (ocrmypdf --skip-text adds text)."
        )
    text = compose([page for page in kept if page], found.outline)
    if garbled := _garbled(text.text):
        warnings.append(f"{garbled:.0%} of the characters of {name} have no meaning: its fonts lack a text encoding.")
    edits = [edit for edit in edits if edit.page in asked]
    title = plain_characters(" ".join(found.title.split()), 0, [])
    return _document(name, "pdf", text, len(asked), edits, warnings, empty, tuple(found.failed), title)


def _text(name: str, shown: str, data: bytes, wanted: PageRange | None) -> Document:
    text, warnings = _decode(shown, data)
    kind = "markdown" if is_markdown(name, text) else "text"
    sheets = text.rstrip("\f\n").split("\f")
    numbers = wanted.numbers(len(sheets), shown) if wanted else tuple(range(1, len(sheets) + 1))
    if kind == "markdown":
        return _markdown(shown, [(number, sheets[number - 1]) for number in numbers], warnings)
    lines = [grid(sheet, number) for number, sheet in enumerate(sheets, 1)]
    cleaned, edits = tidy(lines)
    kept = [cleaned[number - 1] for number in numbers]
    empty = tuple(number for number in numbers if not lines[number - 1])
    edits = [edit for edit in edits if edit.page in set(numbers)]
    return _document(shown, kind, compose([page for page in kept if page]), len(numbers), edits, warnings, empty)


def _markdown(name: str, sheets: Sequence[tuple[int, str]], warnings: list[str]) -> Document:
    edits: list[Edit] = []
    text = Text()
    for number, sheet in sheets:
        lines = (_markdown_line(line, number, edits) for line in sheet.split("\n"))
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        if not body:
            continue
        joint = "\n\n" if text.text else ""
        if text.pages:
            last = text.pages[-1]
            text.pages[-1] = Page(last.number, last.start, last.end + len(joint))
        start = len(text.text) + len(joint)
        text.text += joint + body
        text.pages.append(Page(number, start, len(text.text)))
        text.blocks += [Block(block.kind, start + block.start, start + block.end) for block in markdown_blocks(body)]
    empty = tuple(number for number, _ in sheets if number not in {page.number for page in text.pages})
    return _document(name, "markdown", text, len(sheets), edits, warnings, empty)


def _markdown_line(line: str, page: int, edits: list[Edit]) -> str:
    """Indentation means something in Markdown; the rest of a line is repaired like any other."""
    body = line.lstrip(" \t")
    indent = line[: len(line) - len(body)].replace("\t", "    ")
    return (indent + plain_characters(body, page, edits)).rstrip()


def _document(
    name: str,
    kind: str,
    text: Text,
    pages: int,
    edits: Sequence[Edit],
    warnings: Sequence[str],
    empty: tuple[int, ...],
    failed: tuple[int, ...] = (),
    title: str = "",
) -> Document:
    if not text.text.strip():
        raise InputError(f"{name} holds no text", why="what it has is control characters or page furniture only")
    changes = Counter(edit.kind for edit in edits)
    if text.joined:
        changes["line joined"] = text.joined
    extraction = Extraction(pages, empty, failed, changes, tuple(warnings), tuple(edits))
    return Document(name, kind, text.text, tuple(text.pages), tuple(text.blocks), extraction, title)


def _decode(name: str, data: bytes) -> tuple[str, list[str]]:
    """Bytes as text with "\\n" line ends; a warning says when the encoding had to be guessed or bytes replaced."""
    warnings = []
    first = encoding(data[:HEAD]) or "utf-8"
    try:
        text = data.decode(first)
    except UnicodeDecodeError as error:
        replaced = data.decode(first, "replace")
        bad = replaced.count("\ufffd") - data.count("\ufffd".encode())
        # Few wrong bytes in much correct UTF-8 are damage; otherwise it is an 8-bit encoding of old.
        multibyte = sum(character > "\x7f" for character in replaced) - bad
        if first != "utf-8" or multibyte > bad:
            text = replaced
            warnings.append(f"{_count(bad, 'byte')} of {name} are not valid {first.upper()} and were replaced by �.")
        else:
            try:
                text = data.decode("cp1252")
                guess = "Windows-1252"
            except UnicodeDecodeError:
                text = data.decode("latin-1")
                guess = "Latin-1"
            high = sum(byte > 0x7F for byte in data)
            warnings.append(
                f"{name} is not UTF-8 (byte {error.start}): read as {guess}, {_count(high, 'byte')} beyond ASCII."
            )
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n"), warnings


# ------------------------------------------------------------------------------------------------------- errors


def _unreadable(path: Path, name: str, error: OSError) -> InputError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        close = _close_names(path)
        fix = f"did you mean {' or '.join(close)}?" if close else ""
        why = "" if path.parent.is_dir() else f"there is no directory {printable(str(path.parent))}"
        return InputError(f"{name} does not exist", why=why, fix=fix)
    if isinstance(error, PermissionError):
        fix = f"chmod u+r {argument(str(path))}"
        return InputError(f"{name} cannot be read", why="permission denied", fix=fix)
    if error.errno == errno.ENAMETOOLONG:
        return InputError("the name of the file is too long", fix="to give text itself, use a pipe")
    return InputError(f"{name} cannot be read", why=os.strerror(error.errno) if error.errno else str(error))


def _close_names(path: Path) -> list[str]:
    try:
        present = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []
    folded = {entry.casefold(): entry for entry in present}
    close = difflib.get_close_matches(path.name.casefold(), list(folded), n=2, cutoff=0.6)
    same_stem = [entry for entry in present if Path(entry).stem == path.stem]
    found = dict.fromkeys([*same_stem, *(folded[entry] for entry in close)])
    return [printable(str(path.with_name(entry))) for entry in list(found)[:2]]


def _unread(name: str, kind: str) -> InputError:
    form = UNREAD[kind]
    claim = Path(name).suffix.lower()
    what = f"{name} is {form.label}"
    if claim == ".pdf":
        what += ", not a PDF"
    elif claim in (".txt", ".md"):
        what += ", not a text"
    fix = form.fix.replace("FILE", argument(name))
    return InputError(what, why="this version reads PDF, text and Markdown", fix=fix)


def _scanned(name: str, pages: int, images: int) -> InputError:
    found = f"0 characters on {_count(pages, 'page')}, {_count(images, 'image')}"
    return InputError(
        f"{name} has no text layer ({found})",
        why="it looks scanned" if images else "its pages are blank or drawn",
        fix=f"ocrmypdf {argument(name)} - | specextend summarize -",
    )


def _check_size(name: str, size: int, limit: int = MAX_BYTES) -> None:
    if size > limit:
        raise InputError(
            f"{name} is larger than {limit >> 20} MB",
            why=f"it has {size / (1 << 20):,.0f} MB" if size > limit + 1 else "more than this is not read",
            fix="split it (qpdf --split-pages, split -C) and give the parts",
        )


def _garbled(text: str) -> float:
    """The share of characters without meaning, where it is large enough to matter; else 0."""
    strange = sum(1 for character in text if character == "\ufffd" or "\ue000" <= character <= "\uf8ff")
    share = strange / max(len(text), 1)
    return share if share > 0.05 else 0.0


def _pages(numbers: Sequence[int]) -> str:
    """`Page 3` or `Pages 3, 5-7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    spans = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
    return f"{'Page' if len(numbers) == 1 else 'Pages'} {spans}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
