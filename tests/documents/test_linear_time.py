"""Reading takes time in proportion to the length of a text, whatever is in it.

Each of these took minutes or hours where work grew with the square of its length. They are read by workers, which are
stopped after a minute.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from specextend_cli.documents import read
from specextend_cli.documents.encoded import without_encoded
from specextend_cli.documents.mail import MAX_HEADER
from specextend_cli.documents.read import read_bytes
from tests.documents import faulty_workers
from tests.documents.edge_cases import refusal
from tests.documents.raw_pdf import ASCII, raw_pdf, show

CHANCE = random.Random(20)
WORDS = ["a", "ab-", "it’", "洪水", "\xe9", "e\u0301", "a¹", "\ue000", "\ufffd", "A. ", "Mr. ", "River ", "<!-- -->"]
SIGNS = ["(", "[", '"', "”", ".", ",", "-", "_", "…", "`", "\t", " ", ". ", ".”", " .", "0", "123,", "1.", "1 ", "..1"]
CONTROLS = ["a\x08", "\x1b[", "\x1b]", "\x9b0", "\x90", "\u200d", "a\xad", "\xa0"]
LINES = ["x\n", "-\n", "ab-\n", "1-\n", "\n", "- a\n", "1. a\n", "xvi\n", "12\n\n", "# a\n\n", "line\n    and on\n"]
sizes = pytest.mark.parametrize("size", [5_000, pytest.param(25_000, marks=pytest.mark.full)])


def shapes(size: int) -> list[str]:
    random_lines = ("".join(CHANCE.choice(letters) for _ in range(size)) for letters in ("ACGT", "aBc0+/"))
    return [*((repeated * size)[:size] for repeated in (*WORDS, *SIGNS, *CONTROLS, *LINES)), *random_lines]


@sizes
def test_texts_of_any_shape(size: int) -> None:
    made = shapes(size)
    document = read_bytes("a.txt", "\f".join(f"River\n{shape}\nBridge" for shape in made).encode())
    assert document.extraction.pages == len(made)
    assert document.text.endswith("Bridge")
    text = "\n\n".join(["# River", *made, "Bridge"])
    assert read_bytes("a.md", text.encode()).text.endswith("Bridge")


TIMES = "00:00:01.000 --> 00:00:02.000"
CAPTIONS = f"WEBVTT\n\n{TIMES}\nA: The river rises.\n{{}}\n\n{TIMES}\nBridge."
CHAT = "".join(f"10:0{n} {'AB'[n % 2]}: The river rises.\n" for n in range(8)) + "10:10 A: {}\n10:20 B: Bridge."
ORIGINAL = "-- Original Message --\n"
MAIL = f"Message-ID: <a@b>\nFrom: a@b.c\n\nRiver\n{{0}}x\n{ORIGINAL}{{0}}\nOn 1\n{{0}}\n\nBridge."
PARTS = {
    CAPTIONS: ["<v A>a</v>", "<v ", "1\n", "NOTE\n\n", f"{TIMES}\n", f"{TIMES} ", f"1\n{TIMES}\n\n"],
    CHAT: ["[", "1:00 ", "A: ", "a to ", "[1/2/25, 10:00] ", "10:00 A" + " " * 60, "\n10:00 x"],
    MAIL: [
        *("> ", " ", "-", "> \n", "*", "From: a\n", "> To: a\n", "On 1 ", "wrote: ", "schrieb ", "On 1 wrote: x\n"),
        *(ORIGINAL, f"{ORIGINAL}\n\n\n", "From: a\nSubject: b\nTo: c\n\nd\n", "> a\nb\n"),
    ],
    "<html><body>{}<p>Bridge.": ["<h1>a</h1>"],
}
NAMES = dict(zip(("a.vtt", "a.txt", "a.eml", "a.html"), PARTS, strict=True))


@sizes
@pytest.mark.parametrize(("name", "form"), NAMES.items(), ids=NAMES)
def test_other_formats_of_any_shape(name: str, form: str, size: int) -> None:
    for part in PARTS[form]:
        text = read_bytes(name, form.format(part * (size // 5)).encode()).text
        assert text.endswith("Bridge."), part


@sizes
@pytest.mark.parametrize("page", ["x\f", "12\f"])
def test_many_form_feeds(page: str, size: int) -> None:
    document = read_bytes("a.txt", (page * size + "The river rises.").encode())
    assert document.extraction.pages == document.pages[-1].number == size + 1


@pytest.mark.parametrize("text", ["-----BEGIN A-----\n" * 20_000, "begin 644 x\n" * 20_000, "Ab1+" * 50_000 + "!"])
def test_encoded_data_without_an_end(text: str) -> None:
    assert isinstance(without_encoded(text), tuple)


def copies(count: int) -> str:
    """A line drawn again and again at one place."""
    return "".join(show(72 + at % 7 / 10, 700, "The river rises.") for at in range(count))


def marks(count: int) -> str:
    """Small figures above a line."""
    return show(72, 700, "river " * 80, 2) + "".join(show(72 + at % 400, 700.5, str(at % 10), 1) for at in range(count))


def jumps(count: int) -> str:
    """Two places between which the text goes to and fro."""
    return "".join(show(72 + 300 * (at % 2), 700 - at % 3, "The river rises here", 8) for at in range(count))


def controls(count: int) -> str:
    """Characters without a meaning in words."""
    return "".join(show(72, 780 - at / 20, f"r{chr(161 + at % 90)}ver of{at}l", 8) for at in range(count))


@sizes
@pytest.mark.parametrize("draw", [copies, marks, jumps, controls])
def test_pages_of_any_drawing(draw: Callable[[int], str], size: int) -> None:
    unicode = ASCII | {chr(161 + at): chr(0xE000 + at) for at in range(90)}
    document = read_bytes("a.pdf", raw_pdf([draw(size // 10)], unicode))
    assert document.extraction.failed == ()


def test_long_headers_of_a_mail_are_cut_and_said() -> None:
    data = b"Message-ID: <a@b>\nFrom: a@b.c\nSubject: " + b"a " * (1 << 20) + b"\n\nThe river rises.\n"
    document = read_bytes("a.eml", data)
    assert document.text.endswith("The river rises.")
    assert len(document.title) <= MAX_HEADER
    assert "were cut there" in document.extraction.warnings[0]


@pytest.mark.usefixtures("own_processes")
def test_cleaning_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "WORKER", f"{faulty_workers.__name__}:slow_order")
    monkeypatch.setattr(read, "SECONDS", 4.0)
    error = refusal(lambda: read_bytes("a.txt", b"The river rises.\n" * 1_000))
    assert error.what == "a.txt could not be read"
    assert "split it" in error.fix
    assert read_bytes("a.txt", b"The river rises.").text  # a small text needs no other process
