"""Damaged files of every structured kind: each is read or refused, and nothing else happens."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from specextend_cli.documents.cleaning import clean
from specextend_cli.documents.decode import HEAD
from specextend_cli.documents.formats import detect
from specextend_cli.documents.paged import Paged, Typed
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source
from specextend_cli.documents.worker import parse
from specextend_cli.errors import InputError
from tests.documents.made_files import docx, epub, item, message, p, page, table

BODY = (
    "<nav>go</nav><h1>One</h1><p>Text &amp; &eacute;<sup>1</sup><br/>more</p><ul><li>a<ol><li>b</li></ol></li></ul>"
    "<table><tr><td>x</td><td><table><tr><th>y</th></tr></table></td></tr></table>"
    "<pre>c  d</pre><div hidden='x'>h</div>"
)
WORD = p("Head", "Heading1") + p("text") + item("a", 1) + table(("x", "y"), (table(("in",)), "z"))
PIECES = (b"<", b">", b"&", b"\0", b"\xff", b"<table>", b"</td>", b"</li>", b"<!--", b"]]>", b"\x1b[2J", b"<w:p>")


def packed(mutate: Callable[[bytes], bytes]) -> bytes:
    """A book whose parts are damaged before they are packed."""
    return epub({"a.xhtml": mutate(page(BODY).encode()), "b.xhtml": mutate(page("<p>b</p>").encode())})


MADE: dict[str, Callable[[Callable[[bytes], bytes]], bytes]] = {
    "html": lambda mutate: b"<!doctype html>" + mutate(page(BODY).encode()),
    "docx": lambda mutate: mutate(docx(WORD)),
    "docx part": lambda mutate: docx(mutate(WORD.encode()).decode("latin-1")),
    "epub": lambda mutate: mutate(packed(lambda data: data)),
    "epub part": packed,
    "email": lambda mutate: b"Received: x\n" + mutate(bytes(message("text\n" * 9, page(BODY), a_pdf=b"x" * 99))),
}


def mutated(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at, length = chance.randrange(len(changed) + 1), chance.choice((1, 1, 4, 40))
        match chance.randrange(5):
            case 0:
                changed[at : at + length] = b""
            case 1:
                changed[at : at + length] = chance.randbytes(length)
            case 2:
                changed[at:at] = chance.choice(PIECES) * chance.choice((1, 3, 300))
            case 3:
                changed[at:at] = changed[max(at - 60, 0) : at] * 2
            case _:
                del changed[max(at, 8) :]
    return bytes(changed)


@pytest.mark.parametrize("rounds", [50, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", MADE)
def test_mutated_files_are_read_or_refused(kind: str, rounds: int, tmp_path: Path) -> None:
    chance = random.Random(f"a seed for {kind}")
    path, read = tmp_path / "file", 0
    for _ in range(rounds):
        data = MADE[kind](lambda part: mutated(chance, part))
        path.write_bytes(data)
        kind_found = detect(data[:HEAD])
        if kind_found not in ("html", "email"):
            kind_found = "zip"
        parsed: Parsed | Paged | Typed | None = None
        with suppress(InputError):
            parsed = parse(Source("file", kind_found, path))
        if parsed is not None:
            text = clean(parsed).text
            assert not any(character in text.text for character in "\x00\x1b\x7f")
            assert all(a.end == b.start for a, b in zip(text.pages, text.pages[1:], strict=False))
            assert all(0 <= block.start < block.end <= len(text.text) for block in text.blocks)
            read += bool(text.text)
    assert read
