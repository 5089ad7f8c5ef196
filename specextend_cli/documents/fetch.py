"""Fetch a document over HTTP or HTTPS, with limits on time, size and redirects.

A redirect to another scheme, from HTTPS to HTTP, or to an address of the local network that the user did not name is
refused. Addresses are checked when connecting, so that a name cannot resolve to another one after the check.
"""

from __future__ import annotations

import codecs
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import PurePosixPath
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from specextend_cli.documents.decode import HEAD, codec
from specextend_cli.documents.errors import MAX_BYTES
from specextend_cli.documents.formats import detect
from specextend_cli.errors import InputError, UsageError, cause
from specextend_cli.humanize import printable

SECONDS = 300.0
SILENCE = 30.0
REDIRECTS = 5
_MOVED = (301, 302, 303, 307, 308)
_SAFE = "/%:@!$&'()*+,;=~?-._"


def file_name(url: str) -> str:
    """A name for the document at `url`: the end of the path, or the host."""
    parts = urlsplit(url)
    return printable(PurePosixPath(unquote(parts.path)).name or parts.hostname or "page")


def fetch(url: str, *, seconds: float = SECONDS, limit: int = MAX_BYTES) -> bytes:
    """The bytes at `url`, at most `limit` of them; UsageError for another scheme, InputError when it fails."""
    deadline = time.monotonic() + seconds
    named = _parsed(url).hostname
    at = url
    try:
        for _ in range(REDIRECTS + 1):
            parts = _parsed(at)
            with _response(parts, deadline, private=parts.hostname == named) as response:
                if response.status in _MOVED and (target := response.getheader("Location")):
                    at = _moved(at, target, url)
                    continue
                if response.status != http.client.OK:
                    raise _failed(url, f"the server said {response.status} {printable(response.reason)}".rstrip())
                return _in_utf8(_body(response, url, limit, deadline), response.headers.get_content_charset())
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: invalid host names
        raise _failed(url, _reason(error, seconds, late=time.monotonic() >= deadline)) from None
    raise _failed(url, f"it was redirected more than {REDIRECTS} times")


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{printable(url)} is no web address that can be fetched", why="only http and https are")
    if parts.username is not None:
        raise UsageError("an address with a name and password in it is not fetched", why="others could see them")
    return parts


def _reason(error: Exception, seconds: float, *, late: bool) -> str:
    if late:
        return f"it took more than {seconds:.0f} seconds"
    if isinstance(error, TimeoutError):
        return f"nothing came for {SILENCE:.0f} seconds"
    if isinstance(error, ssl.SSLError):
        return f"its certificate or encryption is not accepted ({error.reason or error})"
    return cause(error)


@contextmanager
def _response(parts: SplitResult, deadline: float, *, private: bool) -> Iterator[http.client.HTTPResponse]:
    host = parts.hostname or ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    with ExitStack() as stack:
        connected = stack.enter_context(_connected(host, parts.port or kind.default_port, deadline, private=private))
        # Single waits stay short if a server sends a byte now and then, so the connection is closed at the deadline.
        watch = threading.Timer(max(deadline - time.monotonic(), 0), _shut, (stack.enter_context(connected.dup()),))
        watch.daemon = True
        watch.start()
        stack.callback(watch.cancel)
        connection = kind(host, parts.port)
        connection._create_connection = lambda *_: connected  # type: ignore[attr-defined]
        stack.callback(connection.close)
        target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        connection.request("GET", target, headers={"User-Agent": "specextend", "Connection": "close"})
        yield stack.enter_context(connection.getresponse())


def _connected(host: str, port: int, deadline: float, *, private: bool) -> socket.socket:
    """A connection to the first address of `host` that answers; none of the local network unless `private`."""
    found = [str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    failure = OSError(f"it leads to an address of the local network ({host})")
    for address in found:
        if private or ipaddress.ip_address(address).is_global:
            wait = min(SILENCE, max(deadline - time.monotonic(), 0.001))
            try:
                return socket.create_connection((address, port), wait)
            except OSError as error:
                failure = error
    raise failure


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _moved(at: str, target: str, url: str) -> str:
    moved = urljoin(at, target)
    if urlsplit(moved).scheme not in (urlsplit(at).scheme, "https"):
        raise _failed(url, f"it was redirected to {printable(moved)}, which is less safe or no web address")
    return moved


def _body(response: http.client.HTTPResponse, url: str, limit: int, deadline: float) -> bytes:
    promised = response.length
    data = response.read(limit + 1) if (promised or 0) <= limit else b""
    if max(len(data), promised or 0) > limit:
        raise _failed(url, f"it has more than {limit >> 20} MB")
    if time.monotonic() >= deadline:  # the connection may have been closed by the timer
        raise TimeoutError
    if promised is not None and len(data) < promised:
        raise _failed(url, f"it ended after {len(data):,} of {promised:,} bytes")
    return data


def _in_utf8(data: bytes, charset: str | None) -> bytes:
    """Text in UTF-8 where the header of the response declares its encoding, which the file may not name."""
    declared = codec(charset or "utf-8")
    if declared not in (None, "utf-8") and detect(data[:HEAD]) in ("html", "text"):
        with suppress(UnicodeError):
            return codecs.BOM_UTF8 + data.decode(declared).encode()
    return data


def _failed(url: str, why: str) -> InputError:
    return InputError(f"{printable(url)} could not be fetched", why=why, fix="download it yourself and give the file")
