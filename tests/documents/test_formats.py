"""The registry of formats: an entry is all that detection, reading, directories and messages need; directories."""

from __future__ import annotations

import os
from json import loads
from pathlib import Path

import pytest

from specextend_cli.documents import read as reader
from specextend_cli.documents.find import find
from specextend_cli.documents.formats import FORMATS, Format, detect, format_names
from specextend_cli.documents.read import read, read_bytes
from specextend_cli.documents.sandbox import as_json
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source, parse_pages
from specextend_cli.documents.worker import document_of, parse
from specextend_cli.errors import UsageError
from tests.documents.edge_cases import refusal
from tests.documents.made_files import epub, page, zipped
from tests.documents.made_pdfs import report_bytes

TOY = b"TOY1\n= Rivers\nThe river rises.\n= Bridges\nThe bridge holds.\n"


def parse_toy(source: Source) -> Parsed:
    """Lines that begin with "= " are headings."""
    parsed = Parsed("toy")
    for line in source.path.read_text().splitlines()[1:]:
        parsed.add("heading" if line.startswith("= ") else "paragraph", line.removeprefix("= "))
    return parsed


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = f"{__name__}:{parse_toy.__name__}"
    entry = Format("toy", "a toy text", "toy", (".toy",), (b"TOY1\n",), parser=parser, empty="toys are often empty")
    monkeypatch.setitem(FORMATS, "toy", entry)
    # The process in the sandbox has a registry of its own.
    in_process = lambda source, _: {"document": loads(as_json(document_of(source, parse(source))))}  # noqa: E731
    monkeypatch.setattr(reader, "_response", in_process)


@pytest.mark.usefixtures("toy")
def test_a_format_added_to_the_registry_is_read_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "a.toy"
    path.write_bytes(TOY)
    (tmp_path / "empty.toy").write_bytes(b"TOY1\n")
    assert detect(TOY) == "toy"
    assert [found.name for found in find(tmp_path).documents] == ["a.toy", "empty.toy"]
    document = read(path)
    assert (document.kind, document.unit) == ("toy", "section")
    assert document.text == "Rivers\n\nThe river rises.\n\nBridges\n\nThe bridge holds."
    assert [page.title for page in document.pages] == ["Rivers", "Bridges"]
    assert read_bytes("a.pdf", TOY).extraction.warnings == ("a.pdf is a toy text, not a PDF.",)
    assert refusal(lambda: read(tmp_path / "empty.toy")).why == "toys are often empty"
    with pytest.raises(UsageError) as no_pages:
        read(path, pages=parse_pages("1"))
    assert no_pages.value.why == "it is a toy text: it has sections"
    assert refusal(lambda: read_bytes("a.rtf", b"{\\rtf1")).why.endswith("and toy")


def test_the_order_of_formats_in_messages() -> None:
    assert format_names() == ["PDF", "Word (DOCX)", "EPUB", "HTML", "email", "transcripts", "Markdown", "text"]


# ------------------------------------------------------------------------------------------------------- directories

PNG = b"\x89PNG\r\n\x1a\n" + bytes(99)


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_documents_are_found_by_what_they_hold(tmp_path: Path) -> None:
    files = {"b.dat": report_bytes(1), "a.txt": b"words"}
    files |= {"sub/book.epub": epub({"a.xhtml": page("<p>a</p>")}), "sub/photo.jpeg": PNG, "sub/z.pdf": PNG}
    files |= {"sub/empty.log": b"", "sheet.xlsx": zipped({"xl/workbook.xml": "<x/>"})}
    fill(tmp_path, files | {".hidden.txt": b"words", ".git/config": b"words"})
    found = find(tmp_path)
    # z.pdf is promised: reading it says what is wrong.
    names = ["a.txt", "b.dat", "sub/book.epub", "sub/z.pdf"]
    assert [str(path.relative_to(tmp_path)) for path in found.documents] == names
    assert found.account == "sheet.xlsx (a ZIP archive), empty.log (empty), photo.jpeg (an image); 2 hidden"
    fill(tmp_path / "many", {f"{n}.log": b"" for n in range(9)})
    assert find(tmp_path / "many").account.endswith("4.log (empty) and 4 more")


def test_links_and_pipes(tmp_path: Path) -> None:
    fill(tmp_path, {"a/real.txt": b"words"})
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "a" / "lost.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "a" / "pipe")
    found = find(tmp_path)
    # A link that leads nowhere is kept: reading it says so.
    assert [path.name for path in found.documents] == ["lost.txt", "real.txt"]
    assert found.account == "pipe (not a file)"
