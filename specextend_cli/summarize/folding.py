"""Text without accents, for comparison."""

from __future__ import annotations

import unicodedata


class _Folded(dict[int, str]):
    """Each character without its accents, found when it is first asked for."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code))
        found = self[code] = "".join(part for part in parts if not unicodedata.combining(part))
        return found


_FOLDED = _Folded()


def without_accents(text: str) -> str:
    """The compatibility decomposition (NFKD) of `text` without combining marks.

    Characters are decomposed one by one, in linear time. Normalizing the text as a whole sorts the marks behind a
    letter, and a letter with 100,000 marks takes hours.
    """
    return text if text.isascii() else text.translate(_FOLDED)
