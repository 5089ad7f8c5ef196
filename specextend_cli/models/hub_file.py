"""One GGUF file of a Hugging Face Hub repository in the standard Hub cache, pinned by its size and hash.

`hf_hub_download` resumes within a call, and starts again in the next one. Here what was fetched stays in the cache, as
`blobs/….incomplete`, and the next call continues it; a file is checked before it gets the name that is searched for.
"""

from __future__ import annotations

import glob
import re
from pathlib import Path

from specextend_cli.engine.private_files import sha256
from specextend_cli.errors import ModelError
from specextend_cli.models import hub, store
from specextend_cli.models.source_kinds import HubFileSource
from specextend_cli.models.store import Progress, silent


def cached(source: HubFileSource) -> Path | None:
    """The file in the Hub cache, whatever its contents; None where it is not there. Never uses the network."""
    from huggingface_hub import try_to_load_from_cache

    blob = _blob(source, source.sha256)
    named = try_to_load_from_cache(source.repo, source.file, revision=source.revision)
    if isinstance(named, str) and (not blob.is_file() or Path(named).resolve() == blob.resolve()):
        return Path(named)
    return blob if blob.is_file() else None


def obtain(source: HubFileSource, *, name: str, offline: bool = False, progress: Progress = silent) -> Path:
    """The file, its size and hash checked, fetched unless it is in the cache.

    A second process waits for the first. `name` is what the user calls the preset. ModelError: offline, gated, no such
    file, no network, or other contents (then it is deleted). FitError: the disk is too full.
    """
    if (file := cached(source)) is not None:
        _check(source, file, progress)
        return file
    if offline:
        raise hub.offline_error(source, name)
    with hub.explained(source, name):
        return _download(source, progress)


def remove(source: HubFileSource) -> int:
    """Delete the file from the Hub cache, and what was fetched of it; returns the bytes freed."""
    freed = size_on_disk(source)
    for file in _files(source):
        if file.is_symlink():
            file.resolve().unlink(missing_ok=True)
        file.unlink(missing_ok=True)
    return freed


def size_on_disk(source: HubFileSource) -> int:
    """Bytes of the file in the Hub cache, or of the part of it that was fetched."""
    return sum({file.resolve(): file.stat().st_size for file in _files(source)}.values())


def _files(source: HubFileSource) -> list[Path]:
    """The file's names in the cache: snapshots' links first, then the blob, and a part of it."""
    folder = hub.repository_folder(source)
    links = sorted((folder / "snapshots").glob(f"*/{glob.escape(source.file)}"))
    blobs = [_blob(source, source.sha256), _part(source)]
    return [file for file in (*links, *blobs) if file.exists()]


def _blob(source: HubFileSource, etag: str) -> Path:
    return hub.repository_folder(source) / "blobs" / etag


def _part(source: HubFileSource) -> Path:
    return _blob(source, f"{source.sha256}.incomplete")


def _download(source: HubFileSource, progress: Progress) -> Path:
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

    url = hf_hub_url(source.repo, source.file, revision=source.revision)
    published = get_hf_file_metadata(url)
    etag = published.etag or ""
    _check_published(source, published.size, etag)
    blob, part = _blob(source, etag), _part(source)
    blob.parent.mkdir(parents=True, exist_ok=True)
    # The lock of huggingface_hub for this file: other programs wait, too.
    locks = hub.repository_folder(source).parent / ".locks" / hub.repository_folder(source).name
    locks.mkdir(parents=True, exist_ok=True)
    with store.lock(locks / f"{etag}.lock", progress):
        if not blob.is_file():
            _fetch(source, url, part, progress)
            _check(source, part, progress)
            part.replace(blob)
    return Path(hf_hub_download(source.repo, source.file, revision=source.revision))


def _fetch(source: HubFileSource, url: str, part: Path, progress: Progress) -> None:
    """Append what is missing to the part of the file."""
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    def fetched() -> int:
        return part.stat().st_size if part.is_file() else 0

    done = fetched()
    if done >= source.file_bytes:
        return
    store.check_space(hub.repository_folder(source), source.file_bytes - done, variable="HF_HUB_CACHE")
    with store.watched(f"downloading {source.repo}", fetched, source.file_bytes, progress), part.open("ab") as out:
        headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
        http_get(url, out, resume_size=done, headers=headers, expected_size=source.file_bytes)


def _check_published(source: HubFileSource, size: int | None, etag: str) -> None:
    """ModelError where the Hub itself says that its file is another one, before a byte of it is fetched."""
    if not re.fullmatch(r"[\w.-]+", etag):
        raise ModelError(f"the Hugging Face Hub does not say which file {source} is", why="its answer has no ETag")
    is_another = re.fullmatch(r"[0-9a-f]{64}", etag) and etag != source.sha256
    if size in (None, source.file_bytes) and not is_another:
        return
    raise ModelError(
        f"{source} is not the file that the preset names; nothing was fetched",
        why=f"it has {size} bytes and the ETag {etag}; {source.file_bytes} and {source.sha256} are expected",
        fix="if its publisher replaced it on purpose: correct file_bytes and sha256 in a copy of the preset",
    )


def _check(source: HubFileSource, file: Path, progress: Progress) -> None:
    """ModelError where the contents differ; the file is deleted then."""
    progress("checking", 0, source.file_bytes)
    size, found = file.stat().st_size, sha256(file)
    if (size, found) == (source.file_bytes, source.sha256):
        return
    remove(source)
    file.unlink(missing_ok=True)
    raise ModelError(
        f"{source} is not the file it should be; it was deleted",
        why=f"it has {size} bytes and the sum {found}; {source.file_bytes} and {source.sha256} are expected",
        fix="try again; if it stays so, a proxy or a mirror serves another file",
    )
