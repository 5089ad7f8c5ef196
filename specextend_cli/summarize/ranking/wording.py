"""How sentences are worded, by language: patterns from `wording.toml`, which says what each is for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import regex

from specextend_cli.summarize.words import table

_JOINED = ("ja", "zh")  # particles and other words follow a word without a space


class Wording:
    """The patterns of one language; of one that is not in the table, none finds anything."""

    def __init__(self, rules: Mapping[str, str], *, joined: bool) -> None:
        words = {name: "|".join(value.strip().split("\n")) for name, value in rules.items()}
        first, bound = ("", "") if joined else (r"(?<![\p{L}\p{M}])", r"(?![\p{L}\p{M}])")
        itself = rf"(?!\s?(?:{words['itself']}){bound})" if "itself" in words else ""
        leans, this = words.get("leans", "(?!)"), words.get("this")
        own = rf"|(?:{this}){bound}{itself}" if this else ""
        self.leans = regex.compile(rf"(?:{leans}){bound}{'' if this else itself}{own}")
        self.joins = _compiled(words, "joins", "(?:", r")(?:(?<=[，、])|[,،]?\s+)(?=[\p{L}\p{N}])")
        self.beside = _compiled(words, "beside", r"(?i)[\W\d]*(?:", r")[\W\d]*")
        self.idle = _compiled(words, "idle")
        self.advises = _compiled(words, "advises", f"{first}(?:", f"){bound}")
        self.concludes = _compiled(words, "concludes")
        self.method = _compiled(words, "method")
        self.refers = _compiled(words, "refers")
        self.own_summary = words.get("own_summary", "(?!)")
        """What a document calls its summary, to be compiled without regard to case."""


@cache
def wording(language: str) -> Wording:
    """That of a language by its code."""
    return Wording(table("ranking/wording").get(language, {}), joined=language in _JOINED)


def _compiled(words: Mapping[str, str], name: str, before: str = "", after: str = "") -> regex.Pattern[str]:
    return regex.compile(before + words[name] + after if name in words else "(?!)")
