"""How well the text of a PDF comes out: word error rates of pypdf alone and of this program, as a table.

python -m tests.scripts.extraction_quality [report.pdf report.html report.epub]

Over the awkward PDFs of known text, and over a report that exists as PDF and as HTML. The word error rate is the
number of words to be inserted, deleted or replaced to get the known text, over the words of that text. The report's
notes stand elsewhere in its HTML; by paragraph, each is compared with the place in the PDF that is most like it.
"""

from __future__ import annotations

import argparse
import io
import logging
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pypdf import PdfReader

from specextend_cli.documents.read import read, read_bytes
from tests.documents.damaged_pdfs import DAMAGED
from tests.documents.edge_case_pdfs import PDFS
from tests.documents.edge_cases import EdgeCase
from tests.documents.shared_worker import SharedWorker

HAN = re.compile("([\u3040-\u30ff\u4e00-\u9fff])")


def words(text: str) -> list[str]:
    """Runs of letters and digits, without case; every character of Chinese and Japanese is one."""
    return re.findall(r"\w+", HAN.sub(r" \1 ", text.casefold()))


def errors(wanted: list[str], got: list[str], *, anywhere: bool = False) -> int:
    """The Levenshtein distance of two lists of words, or of the first and the most similar part of the second."""
    numbers = {word: number for number, word in enumerate(dict.fromkeys(wanted + got))}
    column = np.array([numbers[word] for word in got], np.int32)
    steps = np.arange(len(got) + 1, dtype=np.int32)
    row = np.zeros_like(steps) if anywhere else steps.copy()
    for word in wanted:
        best: NDArray[np.int32] = np.empty_like(row)
        best[0] = row[0] + 1
        np.minimum(row[1:] + 1, row[:-1] + (column != numbers[word]), out=best[1:])
        best -= steps
        row = np.minimum.accumulate(best) + steps  # insertions: each costs one more than the place to its left
    return int(row.min() if anywhere else row[-1])


def plain(data: bytes, password: str | None) -> str:
    """What pypdf says, page by page."""
    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted:
        reader.decrypt(password or "")
    return "\n".join(page.extract_text() for page in reader.pages)


def compare(case: EdgeCase) -> tuple[int, int, int]:
    """Words of the known text, errors of pypdf, errors of this program."""
    data, wanted = case.make(), words(case.text)
    try:
        other = plain(data, case.password)
    except Exception:  # whatever it raises: it gives no text
        other = ""
    ours = read_bytes(case.name, data, password=case.password).text
    return len(wanted), errors(wanted, words(other)), errors(wanted, words(ours))


def line(name: str, counted: int, other: int, ours: int) -> str:
    return f"| {name} | {counted:,} | {other / counted:.2%} | {ours / counted:.2%} |"


def shared_runs(wanted: list[str], got: list[str], length: int) -> float:
    """The share of the runs of `length` words of the first that the second has too, each as often as it has it."""
    first, second = (Counter(zip(*(text[at:] for at in range(length)), strict=False)) for text in (wanted, got))
    return (first & second).total() / max(first.total(), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", nargs="*", type=Path, help="a PDF, and the same text as HTML and in other formats")
    report = parser.parse_args().report
    logging.disable(logging.CRITICAL)  # pypdf tells a lot
    print("| | words | pypdf alone | specextend |\n|---|---|---|---|")
    with pytest.MonkeyPatch.context() as patch:
        worker = SharedWorker()
        worker.install(patch)
        found = {case.name: compare(case) for case in (*PDFS, *DAMAGED) if words(case.text)}
        worker.close()
    for name, figures in found.items():
        print(line(name, *figures))
    print(line("all of them", *map(sum, zip(*found.values(), strict=True))))
    rates = [(other / counted, ours / counted) for counted, other, ours in found.values()]
    print(f"mean of {len(rates)} rates: {np.mean([a for a, _ in rates]):.2%} {np.mean([b for _, b in rates]):.2%}")
    if report:
        of_report(*report)


def of_report(pdf: Path, html: Path, *others: Path) -> None:
    """How a PDF agrees with the same text in other formats."""
    document, text = read(html), read(pdf).text
    wanted, ours, other = words(document.text), words(text), words(plain(pdf.read_bytes(), None))
    for path in others:
        print(f"{path.name} and {html.name}: the same words in the same order: {words(read(path).text) == wanted}")
    for name, got in ((f"{pdf.name} by pypdf", other), (pdf.name, ours)):
        runs = ", ".join(f"of {length} {shared_runs(wanted, got, length):.1%}" for length in (1, 3, 5))
        print(f"{name}: {len(got):,} words for {len(wanted):,}; runs {runs}")
    passages = [words(document.text[block.start : block.end]) for block in document.blocks]
    wrong = [sum(errors(passage, got, anywhere=True) for passage in passages) for got in (other, ours)]
    print(line(f"{pdf.name}, by paragraph", len(wanted), *wrong))


if __name__ == "__main__":
    main()
