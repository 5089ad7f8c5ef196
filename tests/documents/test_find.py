from __future__ import annotations

import os
from pathlib import Path

from specextend_cli.documents.find import find
from tests.documents.made_files import docx, epub, p, page, zipped
from tests.documents.made_pdfs import report_bytes

PNG = b"\x89PNG\r\n\x1a\n" + bytes(99)


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_documents_are_found_by_what_they_hold(tmp_path: Path) -> None:
    files = {"b.dat": report_bytes(1), "a.txt": b"words", "sub/deep/word": docx(p("words"))}
    files |= {"sub/book.zip": epub({"a.xhtml": page("<p>a</p>")}), "sub/photo.jpeg": PNG, "sub/z.pdf": PNG}
    files["sub/letter.msg"] = bytes.fromhex("d0cf11e0a1b11ae1") + "__properties_version1.0".encode("utf-16-le")
    files |= {"sub/empty.log": b"", "sheet.xlsx": zipped({"xl/workbook.xml": "<x/>"})}
    fill(tmp_path, files | {".hidden.txt": b"words", ".git/config": b"words"})
    found = find(tmp_path)
    # z.pdf is promised: reading it says what is wrong.
    names = ["a.txt", "b.dat", "sub/book.zip", "sub/z.pdf", "sub/deep/word"]
    assert [str(path.relative_to(tmp_path)) for path in found.documents] == names
    assert found.account == (
        "sheet.xlsx (a ZIP archive), empty.log (empty), letter.msg (an Outlook message (MSG)), photo.jpeg (an image); "
        "2 hidden"
    )
    assert str(found) == f"5 documents; skipped: {found.account}"


def test_links_and_pipes(tmp_path: Path) -> None:
    fill(tmp_path, {"a/real.txt": b"words"})
    (tmp_path / "a" / "again").symlink_to(tmp_path)
    (tmp_path / "a" / "lost.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "a" / "pipe")
    found = find(tmp_path)
    # A link that leads nowhere is kept: reading it says so.
    assert [path.name for path in found.documents] == ["lost.txt", "real.txt"]
    assert found.account == "pipe (not a file)"


def test_many_skipped_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, {f"{n}.log": b"" for n in range(9)})
    assert find(tmp_path).account.endswith("4.log (empty) and 4 more")
