"""The `[ranker]` of a preset: whatever its file holds, the run ends with an error of the model, exit code 4."""

from __future__ import annotations

import numpy as np
import pytest

from specextend_cli.errors import Exit
from tests.summarize.tiny_preset import text

GOOD = {"weights": np.zeros(64, np.float32), "scalars": np.array([0.0, 1.0, 2.0])}
BAD = {
    "object": {"weights": np.array([{}], object)},
    "two dimensions": {"weights": np.zeros((64, 1), np.float32)},
    "another hidden size": {"weights": np.zeros(63, np.float32)},
    "not finite": {"weights": np.full(64, np.nan, np.float32)},
    "bias not finite": {"scalars": np.array([np.nan, 1.0, 2.0])},
    "layer not finite": {"scalars": np.array([0.0, 1.0, np.nan])},
    "negative layer": {"scalars": np.array([0.0, 1.0, -1.0])},
    "no layer": {"scalars": np.array([0.0, 1.0, 0.0])},
    "more layers than there are": {"scalars": np.array([0.0, 1.0, 4.0])},
    "strings": {"weights": np.array(["a"] * 64)},
}


@pytest.fixture
def guided(presets, tmp_path):
    """A preset with a ranker."""
    path = tmp_path / "guided.toml"
    preset = presets["one"].read_text().replace('path = "', f'path = "{presets["one"].parent}/')
    path.write_text(f'mode = "guided"\n{preset}\n[ranker]\npath = "ranker"\nchunk = 128\n')
    (tmp_path / "ranker").mkdir()
    (tmp_path / "a.txt").write_text(text(30))
    return path


def summarized(cli, guided):
    return cli("summarize", guided.parent / "a.txt", "-m", guided, "--length", 30)


def test_a_good_one_is_used(cli, guided):
    np.savez(guided.parent / "ranker" / "states.npz", **GOOD)
    assert summarized(cli, guided).returncode == Exit.OK


@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_arrays_that_are_no_linear_function(cli, guided, change):
    np.savez(guided.parent / "ranker" / "states.npz", allow_pickle=True, **{**GOOD, **change})
    done = summarized(cli, guided)
    assert (done.returncode, done.stdout) == (Exit.MODEL, ""), done.stderr


def test_a_small_file_that_unpacks_to_much(cli, guided):
    np.savez_compressed(
        guided.parent / "ranker" / "states.npz", **{**GOOD, "weights": np.zeros(50_000_000, np.float32)}
    )
    done = summarized(cli, guided)
    assert (done.returncode, done.stdout) == (Exit.MODEL, ""), done.stderr


@pytest.mark.parametrize("data", [b"", b"PK", b"no", b"\x93NUMPY"])
def test_files_that_are_no_archives(cli, guided, data):
    (guided.parent / "ranker" / "states.npz").write_bytes(data)
    done = summarized(cli, guided)
    assert (done.returncode, done.stdout) == (Exit.MODEL, ""), done.stderr


def test_an_absent_file(cli, guided):
    assert summarized(cli, guided).returncode == Exit.MODEL
