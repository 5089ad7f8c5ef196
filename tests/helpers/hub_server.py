"""A stand-in for the Hugging Face Hub on the loopback interface, with the answers and headers that its client needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
_BLOCK = 1 << 16


@dataclass
class Repository:
    """Files by name, and how they are served."""

    files: dict[str, bytes]
    gated: bool = False
    commit: str = COMMIT
    broken_after: int | None = None  # bytes of every answer, after which the connection ends
    busy_after: int | None = None  # GETs of files, after which the answer is 503
    wrong_bytes: bool = False  # other contents than the headers say, of the same length
    bytes_per_second: int | None = None
    fetched: list[tuple[str, int]] = field(default_factory=list)  # (file, first byte) of each GET


class StandInHub:
    """Repositories by name; `url` is the HF_ENDPOINT."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[str] = []
        hub = self

        class Handler(_Handler):
            stand_in = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def publish(self, name: str, files: dict[str, bytes], **settings: Any) -> Repository:
        """Add a repository, or replace it."""
        self.repositories[name] = Repository(files, **settings)
        return self.repositories[name]

    def publish_folder(self, name: str, folder: Path, **settings: Any) -> Repository:
        """The files of a folder as a repository."""
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return self.publish(name, files, **settings)

    def environment(self, home: Path) -> dict[str, str]:
        """Variables for a process that shall use this Hub, and a cache and no account in `home`."""
        places = {"HF_HUB_CACHE": home / "hub", "HF_TOKEN_PATH": home / "token", "HF_HOME": home}
        return {"HF_ENDPOINT": self.url, **{name: str(place) for name, place in places.items()}}

    def use(self, patch: Any, home: Path) -> None:
        """The same for this process, by pytest's monkeypatch."""
        template = self.url + "/{repo_id}/resolve/{revision}/{filename}"
        values = {"ENDPOINT": self.url, "HUGGINGFACE_CO_URL_TEMPLATE": template, "HF_TOKEN_PATH": str(home / "token")}
        for name, value in {**values, "HF_HUB_CACHE": str(home / "hub")}.items():
            patch.setattr(f"huggingface_hub.constants.{name}", value)

    def __enter__(self) -> StandInHub:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stand_in: StandInHub

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        self.stand_in.requests.append(f"{self.command} {self.path}")
        path = unquote(urlsplit(self.path).path)
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/.*)?", path):
            self._describe(match[1], match[2] or "")
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._send_file(match[1], match[2], match[3], body)
        else:
            self._refuse(404, "EntryNotFound", "Not Found")

    def _repository(self, name: str, revision: str, *, contents: bool) -> Repository | None:
        """The repository; None after a refusal was sent. Descriptions of gated ones are public, their files are not."""
        repository = self.stand_in.repositories.get(name)
        if repository is None:
            self._refuse(401, None, "Invalid username or password.")  # as the Hub says of repositories that are absent
        elif repository.gated and contents:
            self._refuse(401, "GatedRepo", f"Access to model {name} is restricted. You must have access to it.")
        elif revision not in ("main", repository.commit):
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        else:
            return repository
        return None

    def _describe(self, name: str, rest: str) -> None:
        parts = rest.strip("/").split("/")
        repository = self._repository(name, parts[1] if len(parts) > 1 else "main", contents=False)
        if repository is None:
            return
        if parts[0] == "tree":
            entries: list[dict[str, Any]] = [
                {"type": "file", "path": file, "size": len(data), "oid": _sha256(data)[:40], **_lfs(data)}
                for file, data in repository.files.items()
            ]
            self._send_json(entries)
        else:
            siblings = [
                {"rfilename": file, "size": len(data), "blobId": "0" * 40} for file, data in repository.files.items()
            ]
            gated = "manual" if repository.gated else False
            self._send_json({"id": name, "sha": repository.commit, "gated": gated, "siblings": siblings})

    def _send_file(self, name: str, revision: str, file: str, body: bool) -> None:
        repository = self._repository(name, revision, contents=True)
        if repository is None:
            return
        if file not in repository.files:
            self._refuse(404, "EntryNotFound", "Entry not found")
            return
        data = repository.files[file]
        first = 0
        if body:
            if found := re.match(r"bytes=(\d+)-", self.headers.get("Range") or ""):
                first = int(found[1])
            repository.fetched.append((file, first))
            if repository.busy_after is not None and len(repository.fetched) > repository.busy_after:
                self._refuse(503, None, "Service Unavailable")
                return
        etag = _sha256(data)
        self.send_response(206 if first else 200)
        self.send_header("X-Repo-Commit", repository.commit)
        self.send_header("ETag", f'"{etag}"')
        self.send_header("X-Linked-Etag", f'"{etag}"')
        self.send_header("X-Linked-Size", str(len(data)))
        self.send_header("Accept-Ranges", "bytes")
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        if body:
            self._send_body(repository, data[first:])

    def _send_body(self, repository: Repository, data: bytes) -> None:
        if repository.wrong_bytes:
            data = bytes(len(data))
        end = len(data) if repository.broken_after is None else min(repository.broken_after, len(data))
        block = min(_BLOCK, repository.bytes_per_second or _BLOCK)
        try:
            for at in range(0, end, block):
                self.wfile.write(data[at : min(at + block, end)])
                if repository.bytes_per_second:
                    time.sleep(block / repository.bytes_per_second)
        except OSError:  # the client went away
            self.close_connection = True
        if end < len(data):
            self.close_connection = True

    def _send_json(self, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str | None, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", message)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _lfs(data: bytes) -> dict[str, Any]:
    return {"lfs": {"oid": _sha256(data), "size": len(data), "pointerSize": 130}}
