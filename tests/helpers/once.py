"""What is compiled once for all tests, and kept for the next run of the same sources."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock

from specextend_cli.engine.private_files import UntrustedError, make_private
from tests import ROOT


@contextmanager
def compiled_files(config: pytest.Config, factory: pytest.TempPathFactory, kind: str) -> Iterator[Path]:
    """The directory for compiled files. One process of the run at a time is in the context for a `kind` of them."""
    directory = _directory(config, factory)
    with FileLock(directory / f"{kind}.lock"):
        yield directory


def _directory(config: pytest.Config, factory: pytest.TempPathFactory) -> Path:
    stored = getattr(config, "cache", None)
    if stored is not None:
        kept: Path = stored.mkdir("compiled")
        try:
            make_private(kept / _sources())
        except UntrustedError:  # others can write the checkout: nothing is loaded from there
            pass
        else:
            for old in kept.iterdir():
                if old.name != _sources():
                    shutil.rmtree(old, ignore_errors=True)
            return kept / _sources()
    base = factory.getbasetemp()
    if hasattr(config, "workerinput"):  # a worker of pytest-xdist: its own directory is in the run's
        base = base.parent
    make_private(base / "compiled")
    return base / "compiled"


@cache
def _sources() -> str:
    """A digest of the engine, whatever of it a compiled file depends on."""
    digest = hashlib.sha256()
    for file in sorted((ROOT / "specextend_cli" / "engine").rglob("*.*")):
        if file.suffix in (".py", ".h", ".cpp"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
