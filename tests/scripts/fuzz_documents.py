"""Damaged documents by the thousand: each is read or refused, in time, within its memory, and nothing else happens.

python -m tests.scripts.fuzz_documents --from 0 --count 5000

Document n is the same for every run: an awkward document of the tests (or a report, a book, a page, a message) with a
few bytes changed, or parts of it changed before they are packed. Prints what became of them, and every defect with its
number; `--keep DIR` writes the documents with defects there. Exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from specextend_cli.documents.read import MEMORY, read_bytes
from specextend_cli.errors import InputError
from tests.documents.edge_case_files import FILES
from tests.documents.edge_case_pdfs import PDFS
from tests.documents.made_files import docx, epub, item, message, p, page, table, zipped
from tests.documents.made_pdfs import report_bytes
from tests.documents.shared_worker import SharedWorker

SEED = "specextend"
LARGE = 300_000  # bytes: what is larger is not damaged again and again
ROUND = 100  # documents a worker reads before the next one takes over
LIMIT = 20.0  # seconds for a document: more than any of these may take, and less than the program allows
KINDS = ("pdf", "docx", "epub", "html", "email")
PDF_PIECES = (
    *(b"obj", b"endobj", b"stream", b"endstream", b" R ", b"<<", b">>", b"[", b"]", b"(", b"/Kids", b"/Parent 2 0 R"),
    *(b"/Length 99999999", b"/Filter /FlateDecode", b"/Filter /LZWDecode", b"-1", b"4294967296", b"1e99", b"BT"),
)

BODY = (
    "<nav>go</nav><h1>One</h1><p>Text &amp; &eacute;<sup>1</sup><br/>more</p><ul><li>a<ol><li>b</li></ol></li></ul>"
    "<table><tr><td>x</td><td><table><tr><th>y</th></tr></table></td></tr></table>"
    "<pre>c  d</pre><div hidden='x'>h</div>"
)
WORD = p("Head", "Heading1") + p("text") + item("a", 1) + table(("x", "y"), (table(("in",)), "z"))
_PIECES = (b"<", b">", b"&", b"\0", b"\xff", b"<table>", b"</td>", b"</li>", b"<!--", b"]]>", b"\x1b[2J", b"<w:p>")


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
                changed[at:at] = chance.choice(_PIECES) * chance.choice((1, 3, 300))
            case 3:
                changed[at:at] = changed[max(at - 60, 0) : at] * 2
            case _:
                del changed[max(at, 8) :]
    return bytes(changed)


@cache
def bases() -> dict[str, list[bytes]]:
    """Whole documents by kind."""
    found: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
    for case in (*PDFS, *FILES):
        data = b"" if case.is_large else case.make()
        kind = {"eml": "email"}.get(case.name.rpartition(".")[2], case.name.rpartition(".")[2])
        if kind in found and 0 < len(data) < LARGE:
            found[kind].append(data)
    found["pdf"].append(report_bytes(3))
    for kind in ("docx", "epub", "html", "email"):
        found[kind] += [MADE[kind](lambda data: data)] * 3
    return found


def made(number: int) -> tuple[str, bytes]:
    """Document `number`, and its kind."""
    chance = random.Random(f"{SEED} {number}")
    kind = KINDS[number % len(KINDS)]
    data = chance.choice(bases()[kind])
    change = damaged_pdf if kind == "pdf" else mutated
    if kind in ("docx", "epub") and chance.random() < 0.7:
        return kind, repacked(data, lambda part: change(chance, part), chance)
    if kind == "pdf" and chance.random() < 0.4:
        data = unpacked(data)
    return kind, change(chance, data)


def damaged_pdf(chance: random.Random, data: bytes) -> bytes:
    """Words of the format in wrong places, numbers changed, or what `mutated` does to any file."""
    if chance.random() < 0.5:
        return mutated(chance, data)
    changed = bytearray(data)
    for _ in range(chance.choice((1, 2, 5, 15))):
        at = chance.randrange(len(changed) + 1)
        if chance.random() < 0.5:
            changed[at:at] = b" " + chance.choice(PDF_PIECES) + b" "
        else:
            digits = [place for place in range(at, min(at + 400, len(changed))) if changed[place] in b"0123456789"]
            if digits:
                changed[digits[0]] = ord(chance.choice("0123456789"))
    return bytes(changed)


def unpacked(data: bytes) -> bytes:
    """A PDF whose first packed stream is plain, so that damage reaches the commands in it (offsets become wrong)."""
    start = data.find(b"stream\n")
    end = data.find(b"endstream", start)
    try:
        return data[: start + 7] + zlib.decompress(data[start + 7 : end]) + b"\n" + data[end:] if start > 0 else data
    except zlib.error:
        return data


def repacked(data: bytes, change: Callable[[bytes], bytes], chance: random.Random) -> bytes:
    """A ZIP with one or two of its parts changed."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, NotImplementedError):
        return change(data)
    for name in chance.sample(sorted(parts), min(len(parts), chance.choice((1, 1, 2)))):
        parts[name] = change(parts[name])
    return zipped(parts)


def outcome(kind: str, data: bytes) -> str:
    """What became of a document: "read", or what it was refused for; anything else is a defect and raises."""
    try:
        document = read_bytes(f"file.{kind}", data)
    except InputError as error:
        return " ".join(error.what.removeprefix(f"file.{kind}").split()[:5])
    text = document.text
    assert text.strip(), "read without text"
    assert not any(character in text for character in "\x00\x02\x1b\x7f\x9b"), "controls in the text"
    assert document.pages[0].start == 0, "text before the first page"
    assert document.pages[-1].end == len(text), "text after the last page"
    assert all(a.end == b.start for a, b in zip(document.pages, document.pages[1:], strict=False)), "gaps"
    assert all(0 <= block.start < block.end <= len(text) for block in document.blocks), "blocks beyond the text"
    return "read in part" if document.extraction.failed else "read"


class Worker(SharedWorker):
    """Ends a process after `ROUND` jobs; `peak`: bytes of memory that one needed at most."""

    def __init__(self) -> None:
        super().__init__()
        self._jobs, self.peak = 0, 0

    def used(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status")
        if status.exists():
            lines = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
            self.peak = max(self.peak, *(int(line.split()[1]) << 10 for line in lines), 0)
        self._jobs += 1
        if self._jobs % ROUND == 0:
            self.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="where documents with defects go")
    options = parser.parse_args()
    worker, outcomes, times = Worker(), Counter[tuple[str, str]](), list[tuple[float, int]]()
    defects = 0
    with pytest.MonkeyPatch.context() as patch:
        worker.install(patch)
        for number in range(options.first, options.first + options.count):
            kind, data = made(number)
            began = time.monotonic()
            try:
                outcomes[kind, outcome(kind, data)] += 1
                assert time.monotonic() - began < LIMIT, "too slow"
            except Exception as error:
                defects += 1
                print(f"DEFECT in {number} ({kind}): {type(error).__name__}: {error}", flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    (options.keep / f"{number}.{kind}").write_bytes(data)
            times.append((time.monotonic() - began, number))
        worker.close()
    for (kind, what), count in sorted(outcomes.items(), key=lambda found: (found[0][0], -found[1])):
        print(f"{count:6,}  {kind:6} {what}")
    slowest = ", ".join(f"{number}: {seconds:.2f} s" for seconds, number in sorted(times, reverse=True)[:5])
    print(f"documents {options.first:,} to {options.first + options.count - 1:,}: {defects} defects")
    print(f"{sum(seconds for seconds, _ in times):.0f} s, slowest {slowest}")
    print(f"peak memory of a worker {worker.peak >> 20} MB (limit {MEMORY >> 20} MB)")
    print(f"workers that had to be stopped: {worker.stopped}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
