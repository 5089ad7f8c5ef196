"""How much of documents with known text is read, by producer: what may be lost is a little more than what is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import le

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.known.other_files import eml_files, epub_files, html_files, word_files
from tests.documents.known.reportlab_files import reportlab_files
from tests.documents.known.score import MEASURES, Score, score
from tests.documents.known.story import Known
from tests.documents.known.typst_files import typst_files


def weasy_files() -> Iterator[Known]:
    try:
        from tests.documents.known import weasy_files as module
    except OSError as error:
        pytest.skip(f"WeasyPrint needs Pango: {error}")
    return module.weasy_files()


def read_all(files: Iterable[Known]) -> tuple[Score, int]:
    """The score of all files, and their number."""
    scores = [score(read_bytes(file.name, file.data).text, file.truth) for file in files]
    return sum(scores, Score()), len(scores)


@pytest.mark.parametrize(
    ("made", "least", "most_lost"),
    [
        # How many files at least; sentences, in order, notes, items, rows and heads lost, and lines of junk, at most.
        pytest.param(typst_files, 26, (10, 10, 1, 1, 3, 6, 6), id="typst", marks=pytest.mark.full),
        pytest.param(weasy_files, 18, (31, 31, 3, 1, 10, 4, 4), id="weasyprint", marks=pytest.mark.full),
        pytest.param(reportlab_files, 35, (24, 32, 1, 0, 14, 10, 4), id="reportlab", marks=pytest.mark.full),
        pytest.param(word_files, 8, (0,) * 7, id="word"),
        pytest.param(epub_files, 5, (0,) * 7, id="epub"),
        pytest.param(html_files, 15, (0,) * 7, id="html"),
        pytest.param(eml_files, 5, (0,) * 7, id="mail"),
    ],
)
def test_known_text_is_read(made: Callable[[], Iterator[Known]], least: int, most_lost: tuple[int, ...]) -> None:
    found, number = read_all(made())
    lost = [found.total[measure] - found.found[measure] for measure in MEASURES]
    assert number >= least
    assert all(map(le, (*lost, found.found["junk"]), most_lost)), "\n".join(found.broken)


TYPST = {"pages", "alternating", "columns", "notes-3", "table-wrapped", "formulas", "arabic", "german"}
DRAWN = {
    *("pages", "hyphens-2011", "columns", "notes", "table", "table-wrapped", "drop-caps", "tight", "accents"),
    *("double-strike", "watermark", "bill", "transcript", "turned", "hidden", "form"),
}


@pytest.mark.parametrize(("made", "kinds"), [(typst_files, TYPST), (reportlab_files, DRAWN)], ids=["typst", "drawn"])
def test_pdfs_of_many_kinds_are_read(made: Callable[[], Iterator[Known]], kinds: set[str]) -> None:
    """Those of which nothing is lost; without most rules of reading, something would be."""
    found, number = read_all(file for file in made() if file.kind in kinds)
    assert number == len(kinds)
    assert not found.broken
