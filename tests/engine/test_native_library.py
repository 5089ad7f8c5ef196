"""Kernels are compiled once for a machine, for models that are worth it, and what speaks against it is said."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from specextend_cli.engine import native
from specextend_cli.engine.native import CannotCompileError, Library, shared_library
from specextend_cli.engine.private_files import publish
from specextend_cli.runtime import runners as runtime

CPU, LOAD = torch.device("cpu"), Library.load


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with as many bytes of weights as are worth a compiler's time."""
    monkeypatch.setattr(native, "is_loaded", lambda: False)
    monkeypatch.setattr(runtime, "cache_root", lambda: tmp_path / "cache")
    (tmp_path / "model").mkdir()
    weights = tmp_path / "model" / "model.safetensors"
    weights.touch()
    os.truncate(weights, 50_000_000)
    return tmp_path / "model"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done with a library that needs no compiler."""
    done: list[str] = []

    def make(self: Library) -> None:
        done.append("make")
        made = self.file.with_name("made")
        made.write_bytes(b"machine code")
        publish(made, self.file)

    monkeypatch.setattr(Library, "within", lambda directory: Library(directory / "kernels.so", ()))
    monkeypatch.setattr(Library, "make", make)
    monkeypatch.setattr(Library, "load", lambda self: done.append("load"))
    return done


def test_made_once_and_loaded_every_time(model: Path, library: list[str]) -> None:
    assert [stage.name for stage in runtime.load_library(model, CPU)] == [
        "compiling native code, once for this machine"
    ]
    assert not list(runtime.load_library(model, CPU))
    assert library == ["make", "load", "load"]


def test_one_that_was_cut_off_is_made_again(model: Path, library: list[str], tmp_path: Path) -> None:
    """Loading it ended the process with a bus error, in every run."""
    list(runtime.load_library(model, CPU))
    os.truncate(tmp_path / "cache" / "programs" / "kernels.so", 0)
    for _ in range(2):
        list(runtime.load_library(model, CPU))
    assert library == ["make", "load", "make", "load", "load"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_shared_cache_is_said_with_what_to_do(
    model: Path, library: list[str], is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is compiled into it, or run from there."""
    if is_there:
        list(runtime.load_library(model, CPU))
    monkeypatch.setattr(Library, "load", LOAD)
    monkeypatch.setattr(shared_library, "_loaded", None)
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache").chmod(0o777)
    *_, last = runtime.load_library(model, CPU)
    assert "can be written by other users" in last.name
    assert "XDG_CACHE_HOME" in last.name
    assert library == ["make", "load"] * is_there


def test_not_for_small_models_nor_for_gpus(model: Path, library: list[str]) -> None:
    assert not list(runtime.load_library(model, torch.device("cuda")))
    os.truncate(model / "model.safetensors", 30_000_000)
    assert not list(runtime.load_library(model, CPU))
    assert not library


@pytest.mark.parametrize(
    "error", [CannotCompileError("there is no C++ compiler (g++ or clang++)"), OSError(28, "No space left on device")]
)
def test_what_speaks_against_it_is_said(
    model: Path, library: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Library, "make", Mock(side_effect=error))
    *_, last = runtime.load_library(model, CPU)
    assert error.args[-1] in last.name
    assert not library
