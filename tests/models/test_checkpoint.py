"""Indexes that say nonsense are told apart from those that do not, without a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specextend_cli.models.checkpoint import weight_files


def index(directory: Path, content: object) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "model.safetensors.index.json").write_text(json.dumps(content))
    return directory


def test_an_index_names_files_beside_it(tmp_path: Path) -> None:
    directory = index(tmp_path / "model", {"weight_map": {"a": "x.safetensors", "b": "x.safetensors"}})
    assert weight_files(directory) == []
    (directory / "x.safetensors").touch()
    assert weight_files(directory) == [directory / "x.safetensors"]


@pytest.mark.parametrize("name", ["../x.safetensors", "sub/x.safetensors", "x.txt", "x.bin", "", "..", 3, None, ["x"]])
def test_an_index_leads_nowhere_else(tmp_path: Path, name: object) -> None:
    directory = index(tmp_path / "model", {"weight_map": {"a": name, "b": "y.safetensors"}})
    (directory / "sub").mkdir()
    for file in ("../x.safetensors", "sub/x.safetensors", "x.txt", "x.bin", "y.safetensors"):
        (directory / file).touch()
    assert weight_files(directory) == []
    whole = str(tmp_path / "x.safetensors")
    assert weight_files(index(directory, {"weight_map": {"a": whole}})) == []


@pytest.mark.parametrize("content", [None, 3, "x", [], {}, {"weight_map": []}, {"weight_map": "x"}, {"weight_map": {}}])
def test_a_broken_index_has_no_files(tmp_path: Path, content: object) -> None:
    assert weight_files(index(tmp_path, content)) == []
