"""A ZIP as the container of a document: parts are read by name into memory, within limits against ZIP bombs.

Nothing is unpacked to disk, so the name of a member is never used as a path.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

from specextend_cli.documents.formats import FORMATS, kind_by_member
from specextend_cli.errors import InputError

MAX_MEMBERS = 50_000
MAX_PART = 64 << 20
MAX_TOTAL = 256 << 20
MAX_RATIO = 500
_SMALL = 1 << 20  # bytes; smaller parts may have any compression ratio

_AGAIN = "download or copy it again"
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError)


class DamagedPartError(InputError):
    """A part of a ZIP that cannot be read, while others may be."""

    def __str__(self) -> str:
        return self.why


class Archive:
    """The parts of a ZIP file. InputError where it is damaged, encrypted, or unpacks to more than the limits.

    `kind` is the document format by the names of the parts: "docx", "epub", ... or "zip".
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name, self._left = name, MAX_TOTAL
        try:
            self._zip = zipfile.ZipFile(path)
        except _BROKEN as error:
            with path.open("rb") as file:
                head = file.read(_SMALL)
            self.kind = kind_by_member(lambda member: member.encode() in head)
            raise self.damaged(f"its list of contents cannot be read ({str(error).rstrip('.')})", _AGAIN) from None
        members = self._zip.infolist()
        if len(members) > MAX_MEMBERS:
            raise self._bomb(f"it holds {len(members):,} files, and {MAX_MEMBERS:,} are the most that are read")
        self._members = {member.filename: member for member in members}
        self.kind = kind_by_member(lambda member: any(part.startswith(member) for part in self._members))

    def __contains__(self, part: str) -> bool:
        return part in self._members

    def read(self, part: str) -> bytes:
        """The bytes of one part; KeyError where there is no such part, DamagedPartError where it is damaged."""
        member = self._members[part]
        if member.flag_bits & 1:
            why = "its parts open only with a password"
            raise InputError(f"{self.name} is encrypted", why=why, fix="save it again without a password")
        limit = min(MAX_PART, self._left)
        try:
            with self._zip.open(member) as file:
                data = file.read(limit + 1)
        except _BROKEN as error:
            why = str(error) or f"{part} is cut off"
            raise DamagedPartError(f"{self.name} is damaged", why=why, fix=_AGAIN) from None
        if len(data) > limit:
            most = MAX_PART if limit == MAX_PART else MAX_TOTAL
            raise self._bomb(f"its text has more than {most >> 20} MB")
        if len(data) > max(_SMALL, MAX_RATIO * member.compress_size):
            raise self._bomb(f"{part} unpacks to more than {MAX_RATIO} times its size")
        self._left -= len(data)
        return data

    def damaged(self, why: str, fix: str = "") -> InputError:
        """The error for a document whose parts do not make one."""
        fix = fix or ("open it and save it again" if self.kind == "docx" else _AGAIN)
        return InputError(f"{self.name} is {FORMATS[self.kind].label} and damaged", why=why, fix=fix)

    def root(self, part: str) -> Any:
        """The root of a part that must be there, in XML; InputError where it is not, or is not well-formed."""
        from specextend_cli.documents.markup import MarkupError, xml_root

        try:
            return xml_root(self.read(part))
        except KeyError:
            raise self.damaged(f"{part} is missing in it") from None
        except MarkupError as error:
            raise self.damaged(f"{part}: {error}") from None

    def _bomb(self, why: str) -> InputError:
        return InputError(f"{self.name} unpacks to more than a document can hold", why=why, fix="convert it to PDF")
