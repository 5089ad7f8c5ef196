"""A program that stands in for ocrmypdf, so that OCR is tested where it is not installed."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

_OCRMYPDF = """#!{python}
import os, shutil, sys, time
with open({asked!r}, "a") as file:
    file.write(" ".join(sys.argv[1:-2]) + "\\n")
{body}
shutil.copy({made!r}, sys.argv[-1])
"""


class StandIn:
    """A directory for PATH with nothing but such programs in it. `asked` are the arguments of its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._asked = folder / "asked"

    def makes(self, made: bytes, body: str = "") -> StandIn:
        """It makes this PDF of whatever it is given, after it has run `body`."""
        path = self.folder / "made.pdf"
        path.write_bytes(made)
        script = _OCRMYPDF.format(python=sys.executable, asked=str(self._asked), body=body, made=str(path))
        for name in ("ocrmypdf", "tesseract"):
            program = self.folder / name
            program.write_text(script, encoding="utf-8")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return self

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []
