"""What cleaning changed, page by page."""

from __future__ import annotations

from specextend_cli.documents.document import Document, Edit, Extraction
from specextend_cli.ui.changes import diff


def test_repairs_are_listed_by_page_and_equal_ones_once() -> None:
    made = Edit("ligature", 2, "ﬁ", "fi"), Edit("moved", 1, "A caption", "A caption"), Edit("page number", 1, "7")
    document = Document(
        "a.pdf", "pdf", "", (), (), Extraction(2, edits=(*made, made[0], Edit("row", 2, "a\nb", "a b")))
    )
    assert [page.plain.split("\n") for page in diff(document)] == [
        ["@@ page 1 @@", "moved", " A caption", "page number", "-7"],
        ["@@ page 2 @@", "ligature × 2", "-ﬁ", "+fi", "row", "-a", "-b", "+a b"],
    ]
