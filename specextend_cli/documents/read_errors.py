"""What is said of files that cannot be read: what they are, why, and what helps."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from specextend_cli.documents.detect import LABELS, UNREAD
from specextend_cli.documents.names import argument, count, places, printable
from specextend_cli.documents.ocr_engine import INSTALL, has_engine
from specextend_cli.errors import InputError, UsageError

MAX_BYTES = 512 << 20
MAX_TEXT_BYTES = 64 << 20
_PROMISES = {".pdf": "pdf", ".docx": "docx", ".epub": "epub", ".txt": "text", ".md": "text"}


def unreadable(path: Path, name: str, error: OSError) -> InputError:
    """For a path that the system does not open."""
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


def unread(name: str, kind: str) -> InputError:
    """For a kind of file that is known and not read."""
    fix = with_ocr(name) if kind == "image" else UNREAD[kind].replace("FILE", argument(name))
    why = "read are PDF, Word (DOCX), EPUB, HTML, email, Markdown and text"
    return InputError(f"{name} is {LABELS[kind]}{contradiction(name, kind)}", why=why, fix=fix)


def contradiction(name: str, kind: str) -> str:
    """ ", not a PDF": where the name of a file promises something else than it is; else ""."""
    promised = _PROMISES.get(Path(name).suffix.lower(), kind)
    return f", not {LABELS[promised]}" if promised != kind else ""


def no_pages(name: str, kind: str) -> UsageError:
    """For `--pages` with a kind that has sections instead."""
    fix = "leave --pages out, or convert it to PDF first"
    return UsageError(f"{name} has no pages to choose from", why=f"it is {LABELS[kind]}: it has sections", fix=fix)


def scanned(name: str, pages: int, images: int) -> InputError:
    """For a PDF of pictures."""
    found = f"0 characters on {count(pages, 'page')}, {count(images, 'image')}"
    return InputError(
        f"{name} has no text layer ({found})",
        why="it looks scanned" if images else "its pages are blank or drawn",
        fix=with_ocr(name),
    )


def with_ocr(name: str) -> str:
    """The command that reads a scan, after what must be installed for it where that is missing."""
    command = f"specextend summarize {argument(name)} --ocr"
    return command if has_engine() else f"{INSTALL}; then {command}"


def nothing_recognized(name: str, pages: int, failed: Mapping[int, str]) -> InputError:
    """For a scan on which OCR found nothing."""
    why = "; ".join(sorted(set(failed.values()))) or "its pages are blank, or pictures"
    return InputError(
        f"{name}: OCR found no text on {count(pages, 'page')}", why=why, fix="--ocr-lang names its language"
    )


def gibberish(name: str, pages: Mapping[int, float]) -> str:
    """A sentence about pages whose text cannot be read, with the share of each that has no meaning."""
    share = sum(pages.values()) / len(pages)
    return (
        f"{places(tuple(pages))} of {name} cannot be read: {share:.0%} of the characters have no meaning, as the fonts"
        f" lack a text encoding; --ocr reads them."
    )


def unmapped(name: str) -> InputError:
    """For a PDF whose characters are all without meaning."""
    why = "its fonts lack a text encoding: its characters have no meaning"
    return InputError(f"{name} holds no text", why=why, fix=with_ocr(name))


def check_size(name: str, size: int, limit: int = MAX_BYTES) -> None:
    """InputError for more than `limit` bytes."""
    if size > limit:
        raise InputError(
            f"{name} is larger than {limit >> 20} MB",
            why=f"it has {size / (1 << 20):,.0f} MB" if size > limit + 1 else "more than this is not read",
            fix="split it (qpdf --split-pages, split -C) and give the parts",
        )
