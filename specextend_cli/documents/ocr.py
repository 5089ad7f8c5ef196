"""OCR of scanned pages and images by the program ocrmypdf. Results are kept by what was read."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import platformdirs

from specextend_cli.documents.source import Progress, Source
from specextend_cli.errors import InputError, UsageError

LANGUAGE = "eng"
INSTALL = "pip install 'specextend-cli[ocr]', and tesseract: apt install tesseract-ocr, brew install tesseract"
SECONDS_A_PAGE = 120.0
MEMORY = 8 << 30
_SECONDS = 60.0  # to open the file and to write it again
_LANGUAGES = re.compile(r"[A-Za-z][A-Za-z0-9_/-]{1,40}(?:\+[A-Za-z][A-Za-z0-9_/-]{1,40}){0,9}")
_DPI = 300  # of a picture that does not say
_LONGEST = 200  # characters of a message


def check_languages(languages: str) -> str:
    """The argument; UsageError where it is no list of languages as tesseract names them."""
    if not _LANGUAGES.fullmatch(languages):
        raise UsageError(
            f"--ocr-lang {languages[:40]} names no languages",
            why="they are tesseract's, with + between: eng, deu, chi_sim, eng+fra",
            fix="tesseract --list-langs shows those that are installed",
        )
    return languages


def program() -> list[str] | None:
    """The command that runs ocrmypdf; None where it or tesseract is not installed."""
    found = shutil.which("ocrmypdf")
    command = [sys.executable, "-m", "ocrmypdf"] if find_spec("ocrmypdf") else [found] if found else None
    return command if shutil.which("tesseract") else None


def recognized(source: Source, pages: Sequence[int], languages: str, progress: Progress | None) -> Path:
    """A PDF in which these pages (1-based; all of an image) have text; InputError where OCR fails."""
    digest = hashlib.sha256(f"{languages} {list(pages)} ".encode())
    with source.path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    kept = Path(platformdirs.user_cache_dir("specextend"), "ocr", f"{digest.hexdigest()}.pdf")
    if not kept.exists():
        command = program()
        if command is None:
            what = f"{source.name} needs OCR, and there is no program for it"
            raise InputError(what, why="ocrmypdf or tesseract is not installed", fix=INSTALL)
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(prefix="work-", dir=kept.parent) as folder:
            made = Path(folder, "made.pdf")
            options = ["--pages", ",".join(map(str, pages)), "--force-ocr"] if pages else ["--image-dpi", str(_DPI)]
            options += ["--output-type", "pdf", "--optimize", "0", "--tesseract-timeout", str(SECONDS_A_PAGE)]
            run = [*command, "--quiet", "--jobs", str(os.cpu_count() or 1), "-l", languages, "--rotate-pages", *options]
            _run([*run, "--", str(source.path.resolve()), str(made)], source.name, len(pages) or 1, progress)
            made.replace(kept)
    return kept


def _run(command: Sequence[str], name: str, pages: int, progress: Progress | None) -> None:
    """Run ocrmypdf within its limits; `progress` counts the pages by their files in its folder."""
    folder = Path(command[-1]).parent
    with (folder / "log").open("w+b") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "TMPDIR": str(folder), "OMP_THREAD_LIMIT": "1"},
            start_new_session=True,
        )
        if sys.platform == "linux":
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        try:
            deadline = time.monotonic() + _SECONDS + SECONDS_A_PAGE * pages
            while process.poll() is None and time.monotonic() < deadline:
                if progress:
                    progress(min(len({file.name[:6] for file in folder.glob("*/*_ocr_*.txt")}), pages), pages)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
        if code:
            log.seek(0)
            said = log.read().decode("utf-8", "replace").strip().rpartition("\n")[2][:_LONGEST]
            raise InputError(f"{name} cannot be read by OCR", why=said or "it took too long, or too much memory")
