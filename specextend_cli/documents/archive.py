"""A ZIP as a document's container: parts are read by name, into memory, within bounds that no honest file meets.

Nothing is ever unpacked to disk, so a member's name is a name and never a path.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

from specextend_cli.documents.detect import LABELS
from specextend_cli.errors import InputError

MAX_MEMBERS = 50_000
MAX_PART = 64 << 20
MAX_TOTAL = 256 << 20
MAX_RATIO = 500
_SMALL = 1 << 20  # below this a part may be packed as tightly as it likes

_INSIDE = (
    ("META-INF/container.xml", "epub"),
    ("word/", "docx"),
    ("ppt/", "pptx"),
    ("xl/", "xlsx"),
    ("content.xml", "odt"),
)
_AGAIN = "download or copy it again"
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)


class Archive:
    """The parts of a ZIP file. InputError for one that is damaged, encrypted, or unpacks to more than is read."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self._left = MAX_TOTAL
        try:
            self._zip = zipfile.ZipFile(path)
        except _BROKEN as error:
            with path.open("rb") as file:
                head = file.read(_SMALL)
            kind = next((kind for mark, kind in _INSIDE if mark.encode() in head), "zip")
            why = f"its list of contents cannot be read ({str(error).rstrip('.')})"
            raise InputError(f"{name} is {LABELS[kind]} and damaged", why=why, fix=_AGAIN) from None
        members = self._zip.infolist()
        if len(members) > MAX_MEMBERS:
            raise self._bomb(f"it holds {len(members):,} files, and {MAX_MEMBERS:,} are the most that are read")
        self._members = {member.filename: member for member in members}

    @property
    def kind(self) -> str:
        """What the ZIP is, by the names in it: "docx", "epub", ... or "zip"."""
        for mark, kind in _INSIDE:
            if any(name == mark or (mark.endswith("/") and name.startswith(mark)) for name in self._members):
                return kind
        return "zip"

    def __contains__(self, part: str) -> bool:
        return part in self._members

    def read(self, part: str) -> bytes:
        """The bytes of one part; KeyError when there is none of that name."""
        member = self._members[part]
        if member.flag_bits & 1:
            why = "its parts open only with a password"
            raise InputError(f"{self.name} is encrypted", why=why, fix="save it again without a password")
        limit = min(MAX_PART, self._left)
        try:
            with self._zip.open(member) as file:
                data = file.read(limit + 1)
        except _BROKEN as error:
            raise InputError(f"{self.name} is damaged", why=str(error) or f"{part} is cut off", fix=_AGAIN) from None
        if len(data) > limit:
            most = MAX_PART if limit == MAX_PART else MAX_TOTAL
            raise self._bomb(f"its text has more than {most >> 20} MB")
        if len(data) > max(_SMALL, MAX_RATIO * member.compress_size):
            raise self._bomb(f"{part} unpacks to more than {MAX_RATIO} times its size")
        self._left -= len(data)
        return data

    def _bomb(self, why: str) -> InputError:
        return InputError(f"{self.name} unpacks to more than a document can hold", why=why, fix="convert it to PDF")
