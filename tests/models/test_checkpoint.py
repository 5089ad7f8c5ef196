"""Indexes and configurations that say nonsense are told apart from those that do not, without a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.head_config import PublishedHead


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


SIZES = {"hidden_size": 4, "intermediate_size": 4, "num_attention_heads": 1, "vocab_size": 8}


def settings(directory: Path, content: dict[str, Any]) -> PublishedHead:
    (directory / "config.json").write_text(json.dumps(content))
    return PublishedHead.read(directory)


def test_tables_of_a_heads_settings_are_joined(tmp_path: Path) -> None:
    layer = {**SIZES, "hidden_size": 1, "head_dim": 2}
    eagle = {"norm_output": True, "norm_before_fc": False, "vocab_size": 9}
    read = settings(
        tmp_path,
        {
            "transformer_layer_config": layer,
            "head_dim": 3,
            "eagle_config": eagle,
            "norm_before_fc": True,
            "fc_norm": None,
        },
    )
    assert (read.hidden_size, read.head_dim, read.norm_output, read.norm_before_fc) == (1, 3, True, True)
    assert (read.vocab_size, read.fc_norm) == (8, None)
    assert settings(tmp_path, {**SIZES, "transformer_layer_config": None, "eagle_config": None}).norm_output is None
