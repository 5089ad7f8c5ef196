"""How well the article of a page is found: words of it that are read, and words read that are of it, as a table.

python -m tests.scripts.article_quality

Over the pages of `known/other_files.py`, which are constructed: the public collections are larger and of real pages.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from unittest.mock import patch

import trafilatura

from specextend_cli.documents.read import read_bytes
from specextend_cli.documents.sections import Parsed
from specextend_cli.documents.source import Source
from specextend_cli.documents.worker import parse
from tests.documents.known.other_files import html_files


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.casefold()))


def ways(data: bytes) -> dict[str, str]:
    """The text of a page, in three ways."""
    with (
        patch("specextend_cli.documents.html.read.outside_of_article", return_value=set()),
        NamedTemporaryFile() as file,
    ):
        file.write(data)
        file.flush()
        whole = parse(Source("a.html", "html", Path(file.name)))
    assert isinstance(whole, Parsed)
    return {
        "whole page": "\n".join(text for section in whole.sections for _, text in section.items),
        "trafilatura": trafilatura.extract(data.decode(), include_comments=False, include_tables=True) or "",
        "article": read_bytes("a.html", data).text,
    }


def main() -> None:
    figures: defaultdict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for page in html_files():
        truth = page.truth
        rows = map(" ".join, truth.rows)
        wanted = words(" ".join((*truth.heads, *truth.sentences, *truth.notes, *truth.items, *rows)))
        for way, text in ways(page.data).items():
            got = words(text)
            both = (wanted & got).total()
            pair = both / max(got.total(), 1), both / wanted.total()
            for kind in (page.kind, "all"):
                figures[kind, way].append(pair)
    print("| pages | way | precision | recall |\n|---|---|---|---|")
    for (kind, way), pairs in figures.items():
        precision, recall = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
        print(f"| {kind} ({len(pairs)}) | {way} | {precision:.3f} | {recall:.3f} |")


if __name__ == "__main__":
    main()
