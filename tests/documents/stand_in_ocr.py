"""Programs that stand in for tesseract and ocrmypdf, so that OCR is tested where neither is installed."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

# It answers as tesseract does, with the lines of the file `says`: "x y size text", one a line, in pixels. What it was
# asked is written to the file `asked`.
_TESSERACT = """#!{python}
import html, struct, sys, time
arguments = sys.argv[1:]
if arguments == ["--list-langs"]:
    print("List of available languages in /usr/share (3):\\ndeu\\neng\\nosd")
    raise SystemExit
data = open(arguments[0], "rb").read()
width, height = struct.unpack(">II", data[16:24]) if data.startswith(b"\\x89PNG") else (2480, 3508)
with open({asked!r}, "a") as file:
    file.write(" ".join([str(width), str(height), *arguments[1:]]) + "\\n")
{body}
print('<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" '
      '"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd"><html xmlns="http://www.w3.org/1999/xhtml"><body>'
      f'<div class="ocr_page" title="image &quot;x&quot;; bbox 0 0 {{width}} {{height}}; ppageno 0">')
for line in open({says!r}):
    x, y, size, sure, text = line.split(maxsplit=4)
    x, y, size = int(x), int(y), int(size)
    at, words = x, []
    for word in text.split():
        end = at + len(word) * size // 2
        words.append(f'<span class="ocrx_word" title="bbox {{at}} {{y}} {{end}} {{y + size}}; x_wconf {{sure}}">'
                     f'{{html.escape(word)}}</span>')
        at = end + size // 4
    print(f'<span class="ocr_line" title="bbox {{x}} {{y}} {{end}} {{y + size}}; baseline 0 -7; x_size {{size}}">'
          + " ".join(words) + "</span>")
print("</div></body></html>")
"""
_OCRMYPDF = """#!{python}
import shutil, sys
with open({asked!r}, "a") as file:
    file.write(" ".join(sys.argv[1:-2]) + "\\n")
assert open(sys.argv[-2], "rb").read(4) == b"\\x89PNG"
shutil.copy({made!r}, sys.argv[-1])
"""


class StandIn:
    """A directory for PATH with nothing but such a program in it. `asked` are the arguments of its calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._asked = folder / "asked"
        self._says = folder / "says"

    def tesseract(self, *lines: str, body: str = "") -> StandIn:
        """It finds these lines ("x y size confidence text") on every page, after it has run `body`."""
        self._says.write_text("\n".join(lines), encoding="utf-8")
        return self._install("tesseract", _TESSERACT, says=str(self._says), body=body)

    def ocrmypdf(self, made: bytes) -> StandIn:
        """It makes this PDF of every page."""
        path = self.folder / "made.pdf"
        path.write_bytes(made)
        return self._install("ocrmypdf", _OCRMYPDF, made=str(path))

    @property
    def asked(self) -> list[str]:
        return self._asked.read_text().splitlines() if self._asked.exists() else []

    def _install(self, name: str, script: str, **values: str) -> StandIn:
        path = self.folder / name
        path.write_text(script.format(python=sys.executable, asked=str(self._asked), **values), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return self
