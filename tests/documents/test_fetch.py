"""Fetching, from a server on this machine: nothing here leaves it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from specextend_cli.documents import fetch as module
from specextend_cli.documents.fetch import fetch, file_name
from specextend_cli.errors import InputError, UsageError

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server(ThreadingHTTPServer):
    """Answers every path as it was told to."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Answer] = {}
        self.seen: list[dict[str, str]] = []

    def url(self, path: str, answer: Answer) -> str:
        self.answers[path.split("?")[0]] = answer
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.seen.append({"path": self.path, **self.headers})
        self.server.answers[self.path.split("?")[0]](self)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def says(data: bytes, status: int = 200, *, length: int | None = None, **headers: str) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data) if length is None else length), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(data)

    return answer


def moves(to: str) -> Answer:
    return says(b"", 302, Location=to)


def refusal(url: str, **bounds: float) -> InputError:
    with pytest.raises(InputError) as caught:
        fetch(url, **bounds)  # type: ignore[arg-type]
    return caught.value


def test_a_document_is_fetched_and_named(server: Server) -> None:
    url = server.url("/reports/a%20b.txt?x=1", says(b"The river."))
    assert fetch(url) == b"The river."
    assert file_name(url) == "a b.txt"
    assert server.seen[0]["path"] == "/reports/a%20b.txt?x=1"
    assert server.seen[0]["Accept-Encoding"] == "identity"
    assert (file_name("https://example.org"), file_name("https://example.org/x/")) == ("example.org", "x")
    assert "\x1b" not in file_name("http://x/%1b[2J")


def test_the_encoding_that_only_the_server_names(server: Server) -> None:
    page = "<html><p>Größe: Река".encode("cp1251", "replace")
    assert "Река" in fetch(server.url("/page", says(page, Content_Type="text/html; charset=windows-1251"))).decode()
    assert fetch(server.url("/odd", says(b"words", Content_Type="text/plain; charset=none-such"))) == b"words"


def test_redirects(server: Server) -> None:
    server.url("/c", says(b"found"))
    server.url("/b", moves("/c"))
    assert fetch(server.url("/a", moves("b"))) == b"found"
    error = refusal(server.url("/loop", moves("/loop")))
    assert error.why == "it was redirected more than 5 times"
    for target, why in (
        ("file:///etc/passwd", "or no web address"),
        ("gopher://127.0.0.1/", "or no web address"),
        (f"http://localhost:{server.server_port}/c", "an address of the local network (localhost)"),
        ("http://169.254.169.254/latest/meta-data", "an address of the local network"),
        ("http://[::1]/", "an address of the local network"),
        ("http://[::ffff:127.0.0.1]/", "an address of the local network"),
    ):
        assert why in refusal(server.url("/away", moves(target))).why
    assert len(server.seen) == 3 + 6 + 6


def test_https_is_not_left() -> None:
    with pytest.raises(InputError) as caught:
        module._moved("https://example.org/a", "http://example.org/b", "https://example.org/a")
    assert "less safe" in caught.value.why


def test_what_servers_refuse(server: Server) -> None:
    assert refusal(server.url("/none", says(b"", 404))).why == "the server said 404 Not Found"
    assert "ended after 4 of 9 bytes" in refusal(server.url("/cut", says(b"half", length=9))).why
    assert "127.0.0.1" in refusal("http://127.0.0.1:9/none").what
    assert refusal(f"http://{'a' * 70}.example/").why
    assert refusal("http://a..b/").why
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for scheme in ("http", "https"):
            error = refusal(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.2)
            assert error.why == "it took more than 0 seconds"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        assert refusal(f"http://127.0.0.1:{taken.getsockname()[1]}/").why == "Connection refused"


def repeats(start: bytes, part: bytes, pause: float = 0) -> Answer:
    """An answer without an end."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        with suppress(OSError):
            request.wfile.write(start)
            while True:
                request.wfile.write(part)
                time.sleep(pause)
        request.close_connection = True

    return answer


def test_bounds(server: Server) -> None:
    head = b"HTTP/1.1 200 OK\r\n"
    for answer in (says(b"x" * 2_000_001), repeats(head + b"\r\n", b"x" * 65536)):
        assert refusal(server.url("/large", answer), limit=1 << 20).why == "it has more than 1 MB"
    for start in (b"", head + b"\r\n", head + b"Content-Length: 9999\r\n\r\n"):
        error = refusal(server.url("/drip", repeats(start, b"H", 0.02)), seconds=0.3)
        assert error.why == "it took more than 0 seconds"


ADDRESSES = ("file:///etc/passwd", "ftp://x/y", "http://", "http://x:99999/", "http://x:0/", "//x")


@pytest.mark.parametrize("url", [*ADDRESSES, "http://ann:secret@127.0.0.1/"])
def test_what_is_no_web_address(url: str) -> None:
    with pytest.raises(UsageError, match="name and password" if "@" in url else "is no web address"):
        fetch(url)


def test_encryption_that_is_not_accepted(server: Server) -> None:
    plain = server.url("/", says(b"words"))
    assert "certificate or encryption" in refusal(plain.replace("http", "https", 1)).why
