"""How well the article of a page is found: words of it that are read, and words read that are of it, as a table.

python -m tests.scripts.article_quality

Over the pages of `made_pages.py`, which are constructed: the public collections are larger and of real pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import trafilatura

from specextend_cli.documents.html.read import read_html
from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.sections import Parsed
from tests.documents.made_pages import MadePage, made_pages


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.casefold()))


def ways(page: MadePage) -> dict[str, str]:
    """The text of a page, in three ways."""
    whole = Parsed("html")
    read_html(page.html, whole)
    return {
        "whole page": "\n".join(text for section in whole.sections for _, text in section.items),
        "trafilatura": trafilatura.extract(page.html, include_comments=False, include_tables=True) or "",
        "article": read_bytes("a.html", page.html.encode()).text,
    }


def main() -> None:
    figures: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for page in made_pages():
        wanted = words(page.wanted)
        for way, text in ways(page).items():
            got = words(text)
            both = (wanted & got).total()
            pair = both / max(got.total(), 1), both / wanted.total()
            for kind in (page.name.rsplit("-", 1)[0], "all"):
                figures[kind, way].append(pair)
    print("| pages | way | precision | recall |\n|---|---|---|---|")
    for (kind, way), pairs in figures.items():
        precision, recall = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        print(f"| {kind} ({len(pairs)}) | {way} | {precision:.3f} | {recall:.3f} |")


if __name__ == "__main__":
    main()
