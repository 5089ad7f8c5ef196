"""Indexes and configurations that say nonsense are told apart from those that do not, without a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specextend_cli.errors import ModelError
from specextend_cli.models.head_settings import nested, read_settings
from specextend_cli.models.weights import weight_files


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


def settings(directory: Path, content: dict[str, Any]) -> dict[str, Any]:
    (directory / "config.json").write_text(json.dumps(content))
    return read_settings(directory)


def test_settings_are_flat(tmp_path: Path) -> None:
    read = settings(tmp_path, {"transformer_layer_config": {"a": 1, "b": 2}, "b": 3, "eagle_config": {"c": 4}})
    assert (read["a"], read["b"], nested(read, "c", 0), nested(read, "d", 5)) == (1, 3, 4, 5)
    read = settings(tmp_path, {"transformer_layer_config": None, "eagle_config": None})
    assert nested(read, "c", 0) == 0


@pytest.mark.parametrize("key", ["transformer_layer_config", "eagle_config"])
@pytest.mark.parametrize("table", [[], "x", 3, False])
def test_tables_are_tables(tmp_path: Path, key: str, table: object) -> None:
    with pytest.raises(ModelError, match=r"config\.json") as caught:
        settings(tmp_path, {key: table})
    assert key in caught.value.why
    assert nested({"eagle_config": table}, "c", 7) == 7
