"""Every awkward document gives the right text or the right error."""

from __future__ import annotations

import pytest

from specextend_cli.documents.read import read_bytes
from tests.documents.edge_case_files import FILES
from tests.documents.edge_case_pdfs import PDFS
from tests.documents.edge_cases import EdgeCase, refusal

ALL = (*PDFS, *FILES)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[pytest.mark.full] * case.is_large) for case in ALL]
)
def test_awkward_documents(case: EdgeCase) -> None:
    data = case.make()
    if case.error:
        assert refusal(lambda: read_bytes(case.name, data, password=case.password)).what.startswith(case.error)
        return
    document = read_bytes(case.name, data, password=case.password)
    assert document.text == case.text
    warnings = document.extraction.warnings
    assert case.warning in warnings[0] if case.warning else not warnings
    assert document.pages[0].start == 0
    assert document.pages[-1].end == len(document.text)
    assert all(a.end == b.start for a, b in zip(document.pages, document.pages[1:], strict=False))
