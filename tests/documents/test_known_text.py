"""How much of documents with known text is read: the floors of each producer, a little below what is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.known.other_files import eml_files, epub_files, html_files, word_files
from tests.documents.known.reportlab_files import reportlab_files
from tests.documents.known.score import MEASURES, Score, score
from tests.documents.known.story import Known
from tests.documents.known.typst_files import typst_files

FLOORS: dict[str, tuple[float, ...]] = {
    # sentences, in order, notes, items, rows, heads; most junk a file
    "typst": (0.985, 0.985, 0.99, 0.99, 0.94, 0.92, 0.27),
    "weasyprint": (0.975, 0.975, 0.96, 0.99, 0.84, 0.97, 0.04),
    "reportlab": (0.96, 0.96, 0.99, 0.99, 0.89, 0.96, 0.11),
    "word": (1, 1, 1, 1, 1, 1, 0),
    "epub": (1, 1, 1, 1, 1, 1, 0),
    "html": (1, 1, 1, 1, 1, 1, 0),
    "mail": (1, 1, 1, 1, 1, 1, 0),
}


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
    ("producer", "made", "least"),
    [
        pytest.param("typst", typst_files, 30, marks=pytest.mark.full),
        pytest.param("weasyprint", weasy_files, 30, marks=pytest.mark.full),
        pytest.param("reportlab", reportlab_files, 45, marks=pytest.mark.full),
        ("word", word_files, 8),
        ("epub", epub_files, 5),
        ("html", html_files, 8),
        ("mail", eml_files, 5),
    ],
)
def test_known_text_is_read(producer: str, made: Callable[[], Iterator[Known]], least: int) -> None:
    found, number = read_all(made())
    *floors, junk = FLOORS[producer]
    shares = {measure: found.share(measure) for measure in MEASURES}
    below = {measure: share for (measure, share), floor in zip(shares.items(), floors, strict=True) if share < floor}
    assert number >= least
    assert not below, "\n".join(found.broken)
    assert found.found["junk"] <= junk * number, "\n".join(found.broken)


def test_pages_with_heads_notes_and_columns_are_read() -> None:
    """A few files of each producer that is quick to start."""
    found, _ = read_all([*islice(typst_files(), 3), *islice(reportlab_files(), 3)])
    assert not found.broken
