"""The OCR program of this machine, tesseract or else ocrmypdf, and the options of OCR."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specextend_cli.errors import InputError, UsageError

LANGUAGE = "eng"
INSTALL = "apt install tesseract-ocr (Debian, Ubuntu), dnf install tesseract (Fedora) or brew install tesseract (macOS)"
_LANGUAGES = re.compile(r"[A-Za-z][A-Za-z0-9_/-]{1,40}(?:\+[A-Za-z][A-Za-z0-9_/-]{1,40}){0,9}")
_SECONDS = 20.0
SECONDS_A_PAGE = 120.0


@dataclass(frozen=True, slots=True)
class Ocr:
    """Options of OCR: `languages` are tesseract's names, with + between them.

    `progress(done, total)` counts the pages without text. `seconds` is the limit for one page.
    """

    languages: str = LANGUAGE
    progress: Callable[[int, int], None] | None = None
    seconds: float = SECONDS_A_PAGE


@dataclass(frozen=True, slots=True)
class OcrEngine:
    """A program, its path, the languages to read, and whether it detects the orientation of pages (`turns`)."""

    name: Literal["tesseract", "ocrmypdf"]
    path: str
    languages: str
    turns: bool = False


def check_languages(languages: str) -> str:
    """The argument; UsageError where it is no list of languages as tesseract names them."""
    if not _LANGUAGES.fullmatch(languages):
        raise UsageError(
            f"--ocr-lang {languages[:40]} names no languages",
            why="they are tesseract's, with + between: eng, deu, chi_sim, eng+fra",
            fix="tesseract --list-langs shows those that are installed",
        )
    return languages


def has_engine() -> bool:
    """True if an OCR program is installed."""
    return bool(_program("tesseract") or _program("ocrmypdf"))


def find_engine(languages: str, document: str) -> OcrEngine:
    """The installed program; InputError, with what to install, where there is none or not for these languages."""
    check_languages(languages)
    if path := _program("tesseract"):
        installed = _installed(path)
        missing = [language for language in languages.split("+") if language not in installed]
        if installed and missing:
            packages = " ".join(f"tesseract-ocr-{language.replace('_', '-').lower()}" for language in missing)
            raise InputError(
                f"{document} cannot be read by OCR in {languages}",
                why=f"tesseract has no data for {', '.join(missing)}; it has {', '.join(sorted(installed))}",
                fix=f"apt install {packages}, or --ocr-lang with one that it has",
            )
        return OcrEngine("tesseract", path, languages, "osd" in installed)
    if path := _program("ocrmypdf"):
        return OcrEngine("ocrmypdf", path, languages)
    what, why = f"{document} needs OCR, and there is no program for it", "neither tesseract nor ocrmypdf is installed"
    raise InputError(what, why=why, fix=INSTALL)


def _program(name: str) -> str | None:
    path = shutil.which(name)
    return None if path is None else str(Path(path).absolute())


def _installed(path: str) -> frozenset[str]:
    """The languages that tesseract lists; none where that fails."""
    command = [path, "--list-langs"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return frozenset(line.strip() for line in lines if _LANGUAGES.fullmatch(line.strip()))
