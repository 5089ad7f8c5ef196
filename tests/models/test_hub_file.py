"""One GGUF file of the Hub, from a stand-in on the loopback interface: fetched, resumed, checked, removed."""

from __future__ import annotations

import errno
import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import huggingface_hub
import pytest

from specextend_cli.errors import FitError, ModelError
from specextend_cli.models import hub
from specextend_cli.models.checkpoint import named_gguf
from specextend_cli.models.source_kinds import HubFileSource
from specextend_cli.models.sources import fetch, locate, remove, settings_directory, size_on_disk
from tests.helpers.hub_server import COMMIT, Repository, StandInHub

FILE = "Tiny-Q4_1.gguf"
BLOCK = 1024  # bytes that are written at once, instead of ten million


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[StandInHub]:
    with StandInHub() as found:
        found.use(monkeypatch, home)
        monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", BLOCK)
        monkeypatch.setattr("huggingface_hub.file_download.time", SimpleNamespace(sleep=lambda seconds: None))
        yield found


@pytest.fixture
def published(stand_in: StandInHub, tiny_gguf: Path) -> Repository:
    """The repository, with a file beside that nobody asks for."""
    return stand_in.publish("owner/tiny", {FILE: tiny_gguf.read_bytes(), "README.md": b"read me"})


@pytest.fixture
def source(tiny_gguf: Path) -> HubFileSource:
    data = tiny_gguf.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return HubFileSource(kind="hub-file", repo="owner/tiny", file=FILE, file_bytes=len(data), sha256=digest)


def pinned(source: HubFileSource, **changes: Any) -> HubFileSource:
    return source.model_copy(update=changes)


def part(source: HubFileSource) -> Path:
    return hub.repository_folder(source) / "blobs" / f"{source.sha256}.incomplete"


def test_it_is_fetched_once_and_removed(
    published: Repository, source: HubFileSource, stand_in: StandInHub, home: Path
) -> None:
    assert locate(source) is None
    assert size_on_disk(source) == 0
    seen: list[tuple[str, int, int]] = []
    directory = fetch(source, progress=lambda *event: seen.append(event))
    assert directory == locate(source) == settings_directory(source)
    assert (directory / "tokenizer.json").is_file()
    assert [file for file, _ in published.fetched] == [FILE]
    assert ("downloading owner/tiny", source.file_bytes, source.file_bytes) in seen
    assert {"checking", f"reading {FILE.rpartition('/')[2]}"} <= {step for step, _, _ in seen}
    # In the standard cache, as other programs find it there.
    found = huggingface_hub.try_to_load_from_cache("owner/tiny", FILE)
    assert isinstance(found, str)
    assert hub.cached_file(source) == named_gguf(directory) == Path(found)
    asked = len(stand_in.requests)
    assert fetch(source, offline=True) == fetch(source, verify=True) == directory
    assert len(stand_in.requests) == asked
    assert remove(source) > source.file_bytes
    assert locate(source) is None
    assert size_on_disk(source) == 0
    assert not Path(found).is_symlink()


def test_a_pinned_revision_is_asked_for(published: Repository, source: HubFileSource, stand_in: StandInHub) -> None:
    fetch(pinned(source, revision=COMMIT))
    assert all(COMMIT in request for request in stand_in.requests)
    with pytest.raises(ModelError, match="there is no owner/tiny"):
        hub.obtain_file(pinned(source, revision="b" * 40, sha256="0" * 64), name="tiny")


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


def test_a_part_that_was_damaged_is_not_used(published: Repository, source: HubFileSource) -> None:
    part(source).parent.mkdir(parents=True)
    part(source).write_bytes(b"x" * 1000)
    with pytest.raises(ModelError, match="not the file it should be; it was deleted"):
        fetch(source)
    assert not part(source).exists()
    assert fetch(source) == locate(source)


def test_a_damaged_file_in_the_cache_is_refused(published: Repository, source: HubFileSource) -> None:
    Path(huggingface_hub.hf_hub_download("owner/tiny", FILE)).resolve().write_bytes(b"damaged")
    with pytest.raises(ModelError, match="it was deleted") as caught:
        fetch(source)
    assert source.sha256 in caught.value.why
    assert fetch(source) == locate(source)


def test_files_of_the_hub_that_are_refused(
    published: Repository, source: HubFileSource, stand_in: StandInHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelError, match="not on this machine"):
        fetch(source, offline=True)
    with pytest.raises(ModelError, match=r"no owner/tiny/absent\.gguf on the Hugging Face Hub"):
        fetch(pinned(source, file="absent.gguf"))
    with pytest.raises(ModelError, match="does not exist"):
        fetch(pinned(source, repo="owner/absent"))
    published.gated = True
    with pytest.raises(ModelError, match="is gated") as caught:
        fetch(source, name="tiny")
    assert "hf auth login && specextend models pull tiny" in caught.value.fix
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}"
    )
    with pytest.raises(ModelError, match="cannot fetch"):
        fetch(source)
    assert size_on_disk(source) == 0


def test_a_full_disk(published: Repository, source: HubFileSource, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known before, or in the middle: what was fetched is kept, and the next call goes on."""
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=source.file_bytes - 1))
        with pytest.raises(FitError, match="disk is too full"):
            hub.obtain_file(source, name="tiny")
    assert not published.fetched

    def fill_up(url: str, out: BinaryIO, **settings: Any) -> None:
        out.write(published.files[FILE][:4096])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("huggingface_hub.file_download.http_get", fill_up)
        with pytest.raises(FitError, match="disk is too full") as caught:
            hub.obtain_file(source, name="tiny")
    assert "HF_HUB_CACHE" in caught.value.fix
    assert part(source).stat().st_size == 4096
    published.fetched.clear()
    fetch(source)
    assert published.fetched == [(FILE, 4096)]


def test_a_second_process_waits(published: Repository, source: HubFileSource) -> None:
    published.bytes_per_second = 4 * source.file_bytes
    said: list[str] = []
    paths: list[Path] = []

    def obtain() -> None:
        paths.append(hub.obtain_file(source, name="tiny", progress=lambda step, *_: said.append(step)))

    threads = [threading.Thread(target=obtain) for _ in range(2)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    for thread in threads:
        thread.join()
    assert "waiting for another process" in said
    assert len(published.fetched) == 1
    assert len(paths) == 2
