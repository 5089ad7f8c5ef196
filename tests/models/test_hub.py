from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from specextend_cli.errors import Exit, ModelError
from specextend_cli.models import hub
from specextend_cli.models.checkpoint import weight_files
from specextend_cli.models.source_kinds import HubSource
from specextend_cli.models.sources import fetch, locate, remove, size_on_disk

SOURCE = HubSource(kind="hub", repo="owner/model")
COMMIT = "a" * 40
FILES = {"config.json": "{}", "tokenizer.json": "{}", "model.safetensors": "weights"}


def snapshot(home: Path, files: dict[str, str], commit: str = COMMIT) -> Path:
    """A repository in the layout of the Hub cache: blobs, a reference, links."""
    folder = home / "hub" / "models--owner--model"
    directory = folder / "snapshots" / commit
    directory.mkdir(parents=True)
    (folder / "blobs").mkdir(exist_ok=True)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    for name, content in files.items():
        blob = folder / "blobs" / f"blob-{name}"
        blob.write_text(content)
        (directory / name).symlink_to(blob)
    return directory


def fail(error: BaseException) -> Any:
    def raise_it(*args: object, **kwargs: object) -> None:
        raise error

    return raise_it


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fail(AssertionError("asked the network")))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail(AssertionError("asked the network")))


def publish(monkeypatch: pytest.MonkeyPatch, **sizes: int) -> None:
    """A repository with files of these sizes."""
    siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in sizes.items()]
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: SimpleNamespace(siblings=siblings))


def serve(monkeypatch: pytest.MonkeyPatch, home: Path, files: dict[str, str]) -> None:
    """Let these files be downloaded; the cache is filled with the first."""

    def download(repo: str, file: str, *, revision: str | None) -> str:
        folder = home / "hub" / "models--owner--model" / "snapshots" / COMMIT
        directory = folder if folder.is_dir() else snapshot(home, files)
        return str(directory / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)


def response(status: int) -> Any:
    return SimpleNamespace(status_code=status, headers={}, request=None)


def test_a_cached_snapshot_costs_no_network_call(home: Path) -> None:
    assert locate(SOURCE) is None
    directory = snapshot(home, FILES)
    assert fetch(SOURCE) == fetch(SOURCE, offline=True) == locate(SOURCE) == directory
    assert size_on_disk(SOURCE) == sum(map(len, FILES.values()))
    assert remove(SOURCE) == sum(map(len, FILES.values()))
    assert locate(SOURCE) is None


def test_a_pinned_revision_is_not_another_one(home: Path) -> None:
    directory = snapshot(home, FILES)
    assert locate(HubSource(kind="hub", repo="owner/model", revision=COMMIT)) == directory
    assert locate(HubSource(kind="hub", repo="owner/model", revision="b" * 40)) is None


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_an_incomplete_snapshot_is_not_cached(home: Path, missing: str) -> None:
    snapshot(home, {name: text for name, text in FILES.items() if name != missing})
    assert locate(SOURCE) is None


def test_shards_must_all_be_there(home: Path) -> None:
    shards = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    files = {"config.json": "{}", "tokenizer.json": "{}", "model.safetensors.index.json": json.dumps(shards)}
    directory = snapshot(home, files | {"model-1.safetensors": "x"})
    assert locate(SOURCE) is None
    (directory / "model-2.safetensors").write_text("y")
    assert locate(SOURCE) == directory
    assert [file.name for file in weight_files(directory)] == ["model-1.safetensors", "model-2.safetensors"]
    (directory / "model.safetensors.index.json").write_text("{")
    assert locate(SOURCE) is None


def test_safetensors_are_preferred_and_code_is_never_wanted() -> None:
    small = ["config.json", "tokenizer.json", "tokenizer.model", "chat_template.jinja"]
    others = ["modeling_evil.py", "README.md", "original/params.json", "consolidated.safetensors", "training_args.bin"]
    weights, pickles = ["model-1.safetensors", "model-2.safetensors"], ["pytorch_model.bin"]
    assert hub.wanted([*small, *others, *weights, *pickles]) == [*small, *weights]
    assert hub.wanted([*small, *others, *pickles]) == [*small, *pickles]


def test_download(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {**FILES, "evil.py": "boom"}
    publish(monkeypatch, **{name: len(text) for name, text in sizes.items()})

    serve(monkeypatch, home, FILES)
    seen: list[tuple[str, int, int]] = []
    directory = fetch(SOURCE, progress=lambda *event: seen.append(event))
    total = sum(map(len, FILES.values()))
    assert sorted(path.name for path in directory.iterdir()) == sorted(FILES)
    assert seen[-1] == ("downloading owner/model", total, total)


def test_offline_and_absent_says_which_command() -> None:
    with pytest.raises(ModelError, match="not on this machine") as caught:
        fetch(SOURCE, name="big", offline=True)
    assert caught.value.fix == "specextend models pull big"
    assert "HF_HUB_OFFLINE" in caught.value.why  # or the command would fail, too
    assert caught.value.exit == Exit.MODEL


@pytest.mark.parametrize(
    ("error", "what", "fix"),
    [
        (GatedRepoError("403", response=response(403)), "is gated", "hf auth login && specextend models pull big"),
        (RepositoryNotFoundError("401", response=response(401)), "does not exist", "check its name"),
        (RevisionNotFoundError("404", response=response(404)), "there is no owner/model", "revision"),
        (HfHubHTTPError("401", response=response(401)), "does not exist", "hf auth login"),
        (HfHubHTTPError("503 busy", response=response(503)), "cannot fetch", "specextend models pull big"),
        (HfHubHTTPError.__bases__[0]("no route"), "cannot fetch", "check the network"),
        (LocalEntryNotFoundError("no connection"), "cannot fetch", "check the network"),
        (ConnectionError("reset"), "cannot fetch", "check the network"),
    ],
)
def test_errors_of_the_hub_say_what_to_do(
    error: BaseException, what: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fail(error))
    with pytest.raises(ModelError, match=what) as caught:
        fetch(SOURCE, name="big")
    assert "owner/model" in caught.value.what
    assert fix in caught.value.fix
