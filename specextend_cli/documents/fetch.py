"""A document from the web, fetched once: HTTP and HTTPS only, within bounds on time, size and where it may lead.

A redirect never leads to another scheme, from HTTPS to HTTP, or to an address of the local network that was not named
itself. Addresses are checked where they are connected to, so that a name cannot change its meaning in between.
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

from specextend_cli import __version__
from specextend_cli.documents.detect import HEAD, detect
from specextend_cli.documents.names import printable
from specextend_cli.documents.read_errors import MAX_BYTES
from specextend_cli.errors import InputError, UsageError

SECONDS = 300.0
SILENCE = 30.0
REDIRECTS = 5
_PART = 1 << 16
_MOVED = (301, 302, 303, 307, 308)
_SAFE = "/%:@!$&'()*+,;=~?-._"


def file_name(url: str) -> str:
    """What a document is called whose address has no better name: the end of the path, or the host."""
    parts = urlsplit(url)
    return printable(PurePosixPath(unquote(parts.path)).name or parts.hostname or "page")


def fetch(url: str, *, seconds: float = SECONDS, limit: int = MAX_BYTES) -> bytes:
    """The bytes at `url`, at most `limit` of them; UsageError for what is no web address, InputError when it fails."""
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
    except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: names that no host can have
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
    return str(error) or type(error).__name__


@contextmanager
def _response(parts: SplitResult, deadline: float, *, private: bool) -> Iterator[http.client.HTTPResponse]:
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    with ExitStack() as stack:
        connected = stack.enter_context(_connected(host, port, deadline, private=private))
        if secure:
            context = ssl.create_default_context()
            connected = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
            stack.enter_context(connected)
        # A server that sends a byte now and then would keep any single wait short: at the deadline all of it ends.
        watch = threading.Timer(max(deadline - time.monotonic(), 0), _hang_up, (connected,))
        watch.daemon = True
        watch.start()
        stack.callback(watch.cancel)
        if isinstance(connected, ssl.SSLSocket):
            connected.do_handshake()
        connection = http.client.HTTPConnection(host, port)
        connection.sock = connected
        stack.callback(connection.close)
        target = quote(parts.path or "/", safe=_SAFE) + (f"?{quote(parts.query, safe=_SAFE)}" if parts.query else "")
        connection.putrequest("GET", target, skip_host=True, skip_accept_encoding=True)
        shown = f"[{host}]" if ":" in host else host.encode("idna").decode("ascii")
        connection.putheader("Host", shown if parts.port is None else f"{shown}:{port}")
        connection.putheader("User-Agent", f"specextend/{__version__}")
        connection.putheader("Accept-Encoding", "identity")
        connection.putheader("Connection", "close")
        connection.endheaders()
        yield stack.enter_context(connection.getresponse())


@contextmanager
def _connected(host: str, port: int, deadline: float, *, private: bool) -> Iterator[socket.socket]:
    """A connection to the first address of `host` that answers; none of the local network unless `private`."""
    found = [place[0] for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    places = [str(address) for address in found if private or ipaddress.ip_address(str(address)).is_global]
    if not places:
        raise OSError(f"it leads to an address of the local network ({host})")
    for number, address in enumerate(places, 1):
        wait = min(SILENCE, max(deadline - time.monotonic(), 0.001))
        try:
            connected = socket.create_connection((address, port), wait)
            break
        except OSError:
            if number == len(places):
                raise
    with connected:
        yield connected


def _hang_up(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _moved(at: str, target: str, url: str) -> str:
    moved = urljoin(at, target)
    if urlsplit(moved).scheme not in ("http", "https"):
        raise _failed(url, f"it was redirected to {printable(moved)}, which is no web address")
    if urlsplit(at).scheme == "https" and urlsplit(moved).scheme != "https":
        raise _failed(url, "it was redirected from https to http")
    return moved


def _body(response: http.client.HTTPResponse, url: str, limit: int, deadline: float) -> bytes:
    promised = response.length
    data = bytearray()
    while (promised or 0) <= limit and len(data) <= limit:
        part = response.read1(_PART)
        if not part:
            break
        data += part
    else:
        raise _failed(url, f"it has more than {limit >> 20} MB")
    if time.monotonic() >= deadline:  # the end may be that of the time, not of the document
        raise TimeoutError
    if promised is not None and len(data) < promised:
        raise _failed(url, f"it ended after {len(data):,} of {promised:,} bytes")
    return bytes(data)


def _in_utf8(data: bytes, charset: str | None) -> bytes:
    """Text in an encoding that only the server named, so that the file says itself what it is."""
    if charset is None or detect(data[:HEAD]) not in ("html", "text"):
        return data
    try:
        if codecs.lookup(charset).name in ("utf-8", "ascii"):
            return data
        return codecs.BOM_UTF8 + data.decode(charset).encode()
    except (LookupError, UnicodeError):
        return data


def _failed(url: str, why: str) -> InputError:
    return InputError(f"{printable(url)} could not be fetched", why=why, fix="download it yourself and give the file")
