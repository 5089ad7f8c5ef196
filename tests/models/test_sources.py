from __future__ import annotations

import base64
import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from specextend_cli.engine.private_files import sha256
from specextend_cli.errors import Exit, FitError, ModelError
from specextend_cli.models import pypi_source, sources, store
from specextend_cli.models.gguf import convert
from specextend_cli.models.presets import load_preset
from specextend_cli.models.source_kinds import LocalSource, WheelSource
from specextend_cli.models.sources import fetch, locate, remove, size_on_disk


def leftovers() -> list[str]:
    """Names under the cache that are neither results nor lock files."""
    return [path.name for path in store.cache_root().rglob("*") if path.name.endswith(".building")]


def run_fetch(source: WheelSource, home: Path, before: str = "", progress: str = "silent") -> subprocess.Popen[bytes]:
    """`fetch` in a process of its own, with the same cache."""
    code = f"""
    import os, signal, time
    import platformdirs
    platformdirs.user_cache_dir = lambda name: {str(home / "cache")!r} + "/" + name
    from specextend_cli.models.source_kinds import WheelSource
    from specextend_cli.models.store import silent
    from specextend_cli.models.sources import fetch
    {before}
    print(fetch(WheelSource.model_validate_json({source.model_dump_json()!r}), progress={progress}))
    """
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)


def test_an_installed_wheel_is_used_and_not_imported(source: WheelSource, installed: Path) -> None:
    steps = set()
    assert locate(source) is None
    directory = fetch(source, offline=True, progress=lambda step, done, total: steps.add(step))
    assert locate(source) == directory
    assert steps == {"converting"}
    assert (directory / "config.json").is_file()
    assert size_on_disk(source) == sum(file.stat().st_size for file in directory.iterdir())


def test_another_version_is_not_used(source: WheelSource, installed: Path) -> None:
    assert pypi_source.find_installed(source) == installed / source.file
    assert pypi_source.find_installed(source.model_copy(update={"version": "2.0"})) is None


def test_an_installed_file_with_another_hash_is_not_used(source: WheelSource, installed: Path) -> None:
    (installed / source.file).write_bytes(b"something else")
    with pytest.raises(ModelError, match="not on this machine"):
        fetch(source, offline=True)


def test_download_by_pip_with_progress_then_nothing_twice(source: WheelSource, index: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    directory = fetch(source, progress=lambda *event: seen.append(event))
    assert {"downloading", "extracting", "converting"} <= {step for step, _, _ in seen}
    assert all(0 <= done <= total for _, done, total in seen)
    assert ("downloading", source.wheel_bytes, source.wheel_bytes) in seen
    assert not pypi_source.download_directory(source).exists()
    assert leftovers() == []
    seen.clear()
    assert fetch(source, offline=True, progress=lambda *event: seen.append(event)) == directory
    assert seen == []
    assert remove(source) > 0
    assert locate(source) is None
    assert size_on_disk(source) == 0


def test_offline_and_absent_says_which_command(source: WheelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="not on this machine") as caught:
        fetch(source, name="tiny")
    assert caught.value.fix == "specextend models pull tiny"
    assert "HF_HUB_OFFLINE" in caught.value.why  # or the command would fail, too
    assert caught.value.exit == Exit.MODEL


def test_no_network(source: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match="could not fetch tiny-parcel") as caught:
        fetch(source)
    assert "No matching distribution" in caught.value.why
    assert "pip download" in caught.value.fix
    assert leftovers() == []


def test_without_pip_its_installation_is_named(source: WheelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi_source, "_PIP", pypi_source._PIP.replace('"pip"', '"pip_that_is_absent"'))
    with pytest.raises(ModelError, match="could not fetch tiny-parcel") as caught:
        fetch(source)
    assert "No module named pip" in caught.value.why
    assert caught.value.fix == f"install pip: uv pip install --python {sys.executable} pip"
    assert leftovers() == []


def test_pips_index_is_asked_with_its_login(source: WheelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of pip that a user exports; the login is in no message."""
    asked: list[tuple[str, str | None]] = []

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.send_error(404)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX", "PIP_FIND_LINKS"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://me:cret@127.0.0.1:{server.server_port}/simple")
        with pytest.raises(ModelError, match="could not fetch") as caught:
            fetch(source)
        server.shutdown()
    assert asked == [("/simple/tiny-parcel/", f"Basic {base64.b64encode(b'me:cret').decode()}")]
    assert "cret" not in f"{caught.value.what}{caught.value.why}{caught.value.fix}"


def test_interrupt_stops_pip_and_leaves_nothing(source: WheelSource, home: Path) -> None:
    """An index that never answers, and a signal that pip itself does not get."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(50)
        environment = {
            "PIP_INDEX_URL": f"http://127.0.0.1:{server.getsockname()[1]}/simple",
            "PIP_CONFIG_FILE": os.devnull,
        }
        before = f"os.environ.update({environment!r}); signal.signal(2, signal.default_int_handler)"
        process = run_fetch(source, home, before)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(50)
            while b"\r\n\r\n" not in connection.recv(1 << 16):
                pass
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=50)
            assert process.returncode
            assert connection.recv(1) == b""  # nobody holds its other end
    assert leftovers() == []


def test_no_more_than_the_wheel_is_written(source: WheelSource, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an index sends, the disk is not filled with it."""
    monkeypatch.setattr(pypi_source, "_MORE", 0)
    with pytest.raises(ModelError, match="could not fetch tiny-parcel") as caught:
        fetch(source.model_copy(update={"wheel_bytes": 1000}))
    assert caught.value.why == "pip: the index sends more than the 1,000 bytes that it has"
    assert leftovers() == []


def test_a_disk_that_fills_up_while_pip_writes(source: WheelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(pypi_source, "_PIP", f"print({said!r}); raise SystemExit(1)")
    with pytest.raises(FitError, match="disk is too full to fetch tiny-parcel") as caught:
        fetch(source)
    assert "No space left on device" in caught.value.why
    assert leftovers() == []


@pytest.mark.parametrize("pin", ["wheel_sha256", "sha256"])
def test_a_hash_mismatch_is_said_and_deleted(source: WheelSource, fetched: Path, pin: str) -> None:
    wrong = source.model_copy(update={pin: "0" * 64})
    with pytest.raises(ModelError, match="not the file it should be; it was deleted") as caught:
        fetch(wrong)
    assert "0" * 64 in caught.value.why
    assert leftovers() == []
    assert locate(wrong) is None
    assert size_on_disk(wrong) == 0


def test_a_member_larger_than_pinned(source: WheelSource, fetched: Path) -> None:
    with pytest.raises(ModelError, match="larger than"):
        fetch(source.model_copy(update={"file_bytes": 1000}))


def test_a_member_that_is_not_there(source: WheelSource, fetched: Path) -> None:
    with pytest.raises(ModelError, match="cannot take"):
        fetch(source.model_copy(update={"file": "tiny_parcel/other.gguf"}))


def test_two_processes_at_once_build_once(source: WheelSource, index: Path, home: Path) -> None:
    slow = "lambda step, done, total: time.sleep(0.05)"
    first, second = run_fetch(source, home, progress=slow), run_fetch(source, home, progress=slow)
    paths = {process.communicate(timeout=50)[0] for process in (first, second)}
    assert (first.returncode, second.returncode) == (0, 0)
    assert paths == {f"{locate(source)}\n".encode()}
    assert leftovers() == []


def test_killed_during_conversion_then_resumed_without_downloading_again(
    source: WheelSource, index: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = "lambda step, done, total: step == 'converting' and os.kill(os.getpid(), signal.SIGKILL)"
    process = run_fetch(source, home, progress=kill)
    process.communicate(timeout=50)
    assert process.returncode == -signal.SIGKILL
    assert locate(source) is None
    assert len(leftovers()) == 1
    assert locate(source) is None
    directory = fetch(source, offline=True)
    assert locate(source) == directory
    assert leftovers() == []


def change_contents(directory: Path) -> None:
    with (directory / "model.safetensors").open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\xff" * 100)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "size": lambda directory: os.truncate(directory / "model.safetensors", 1000),
    "manifest": lambda directory: (directory / store.MANIFEST).write_text("{"),
    "tokenizer": lambda directory: (directory / "tokenizer.json").unlink(),
    "contents": change_contents,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_seen_and_rebuilt(source: WheelSource, installed: Path, damage: str) -> None:
    directory = fetch(source)
    good = sha256(directory / "model.safetensors")
    DAMAGES[damage](directory)
    unseen = damage == "contents"
    assert (locate(source) is None) != unseen
    steps: list[str] = []
    fetch(source, verify=unseen, progress=lambda step, done, total: steps.append(step))
    assert steps[0].startswith("rebuilding the converted model: ")
    assert store.problem(directory, verify=True) is None
    assert sha256(directory / "model.safetensors") == good


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up(
    source: WheelSource, installed: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(number, "no space")

    monkeypatch.setattr(convert, "TensorFile", full)
    with pytest.raises(FitError, match="disk is too full") as caught:
        fetch(source)
    assert caught.value.exit == Exit.FIT
    assert leftovers() == []
    assert size_on_disk(source) == 0


def test_a_disk_too_small_is_said_before_anything_is_written(
    source: WheelSource, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(FitError, match="disk is too full"):
        fetch(source)
    assert size_on_disk(source) == 0


def test_pip_out_of_space(source: WheelSource, monkeypatch: pytest.MonkeyPatch) -> None:
    said = b"ERROR: Could not install: [Errno 28] No space left on device\n"
    monkeypatch.setattr(subprocess, "run", lambda *command, **options: SimpleNamespace(returncode=1, stdout=said))
    with pytest.raises(FitError, match="disk is too full"):
        fetch(source)


def test_a_cache_that_cannot_be_written(source: WheelSource, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(convert, "TensorFile", refuse)
    with pytest.raises(ModelError, match="cannot write the model cache") as caught:
        fetch(source)
    assert "XDG_CACHE_HOME" in caught.value.fix


def test_a_cache_that_cannot_be_made(source: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")
    for directory in (tmp_path / "file", tmp_path / "link"):
        monkeypatch.setattr("specextend_cli.models.store.cache_root", lambda below=directory: below / "cache")
        with pytest.raises(ModelError, match="cannot write the model cache") as caught:
            fetch(source)
        assert "Errno" not in caught.value.why


def test_local_models(tmp_path: Path, source: WheelSource, installed: Path) -> None:
    local = LocalSource(kind="local", path=tmp_path / "model")
    with pytest.raises(ModelError, match="no model directory"):
        fetch(local)
    local.path.mkdir()
    with pytest.raises(ModelError, match="not a complete model"):
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


@pytest.mark.pair
def test_the_embedded_pair_speaks_english(kernels: str) -> None:
    """In float32: in bfloat16 "L'Étoile" is one rounding step from being as likely an answer as "The capital"."""
    torch = pytest.importorskip("torch")
    from specextend_cli.models.chat_template import render_chat
    from specextend_cli.models.load import load_model
    from specextend_cli.models.tokens import TextEncoder

    directory = sources.fetch_pair(load_preset("smollm2-135m")).target
    encoder, model = TextEncoder.of(directory), load_model(directory, dtype="float32")
    assert encoder.fast
    prompt = render_chat(directory, [{"role": "user", "content": "What is the capital of France?"}])
    ids = torch.tensor([encoder.encode_prompt(prompt)])
    written = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
    assert "The capital of France is Paris" in encoder.decode(written[0, ids.shape[1] :].tolist())
