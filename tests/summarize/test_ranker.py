"""What the sentence ranker predicts, and which files of weights it refuses."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from specextend_cli.summarize.ranking.ranker import Trees

from specextend_cli.errors import ModelError
from specextend_cli.models.presets import sentence_ranker

# Feature 1 at most 0.5: 10; else feature 0 at most 2: 20, else 30. The second tree is a leaf.
TREES: dict[str, Any] = {
    "first": np.array([0, 5], np.int32),
    "feature": np.array([1, -1, 0, -1, -1, -1], np.int32),
    "threshold": np.array([0.5, 0, 2.0, 0, 0, 0], np.float64),
    "left": np.array([1, 0, 3, 0, 0, 0], np.int32),
    "right": np.array([2, 0, 4, 0, 0, 0], np.int32),
    "value": np.array([0, 10, 0, 20, 30, 0.5], np.float32),
}


class Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.npz"


def saved(path: Path, arrays: dict[str, Any], **other: Any) -> Path:
    np.savez(path, **{name: array for name, array in (arrays | other).items() if array is not None})
    return path


def test_trees_are_walked_to_their_leaves(path: Path) -> None:
    trees = Trees.load(saved(path, TREES))
    rows = np.array([[9, 0.5], [2, 0.6], [2.1, 0.6], [0, -1]], np.float32)
    assert trees.predict(rows).tolist() == [10.5, 20.5, 30.5, 10.5]
    assert trees.features == 2
    assert trees.predict(np.zeros((0, 2), np.float32)).shape == (0,)


def test_trees_for_other_features_are_refused(path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be used") as refused:
        Trees.load(saved(path, TREES)).predict(np.zeros((3, 1), np.float32))
    assert "2 features" in refused.value.why


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("left", np.array([1, 0, 0, 0, 0, 0], np.int32)),  # a cycle
        ("right", np.array([2, 0, 2, 0, 0, 0], np.int32)),  # its own child
        ("left", np.array([1, 0, 6, 0, 0, 0], np.int32)),  # beyond the last node
        ("left", np.array([1, 0, -1, 0, 0, 0], np.int32)),
        ("left", np.array([1, 0, 3], np.int32)),
        ("left", np.array([1, 0, 3 + 2**32, 0, 0, 0], np.int64)),
        ("left", TREES["left"].astype(np.float64)),
        ("first", np.array([0, 6], np.int32)),
        ("first", np.array([[0], [5]], np.int32)),
        ("first", np.array(0, np.int32)),
        ("feature", TREES["feature"].astype(str)),
        ("value", np.array([0, 10, 0, np.nan, 30, 0.5], np.float32)),
        ("value", TREES["value"] > 0),
        ("value", TREES["value"].astype(complex)),
        ("threshold", TREES["threshold"][:5]),
        ("threshold", np.full(6, np.inf)),
        ("threshold", None),
    ],
)
def test_trees_that_are_none_are_refused(path: Path, name: str, array: Any) -> None:
    with pytest.raises(ModelError, match=r"weights\.npz cannot be used"):
        Trees.load(saved(path, TREES, **{name: array}))


def test_nothing_in_a_file_is_executed(path: Path, tmp_path: Path) -> None:
    trap = np.array([Evil(tmp_path / "sprung")], object)
    files = [saved(path, TREES, first=trap), tmp_path / "plain.npz"]
    files[1].write_bytes(pickle.dumps(Evil(tmp_path / "sprung")))
    for file in files:
        with pytest.raises(ModelError):
            Trees.load(file)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + b"x" * 99, b"\x93NUMPY", b"{}", b"x" * 9999])
def test_what_is_no_file_of_arrays(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for file in (path, path.with_name("nowhere.npz")):
        with pytest.raises(ModelError):
            Trees.load(file)


def test_a_file_with_damaged_bytes(path: Path) -> None:
    np.savez_compressed(path, **TREES)
    whole = path.read_bytes()
    refused = 0
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            Trees.load(path)
        except ModelError:
            refused += 1
    assert refused > 10


def test_a_small_file_with_huge_arrays(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr("first.npy", b"\0" * 100_000_000)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(ModelError) as refused:
        Trees.load(path)
    assert "bytes" in refused.value.why


def test_an_array_that_says_it_is_huge(path: Path) -> None:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387,), }".ljust(117) + b"\n"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 8
    with zipfile.ZipFile(path, "w") as members:
        for name in TREES:
            members.writestr(f"{name}.npy", array)
    with pytest.raises(ModelError):
        Trees.load(path)


def test_what_is_shipped_can_be_loaded() -> None:
    assert Trees.load(sentence_ranker()).features > 10
