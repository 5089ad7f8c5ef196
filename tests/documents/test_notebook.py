"""Notebooks are read as Markdown: what their cells say and print, without what their file needs."""

from __future__ import annotations

import json

from specextend_cli.documents.read import read_bytes

CELLS = [
    {"cell_type": "markdown", "source": ["# Levels\n", "\n", "The river *rises*.\n", "\n", "- slowly"]},
    {
        "cell_type": "code",
        "source": "levels = read()\nif levels:\n    levels.head()",
        "outputs": [
            {"output_type": "stream", "text": ["2 rows\n"]},
            {"output_type": "display_data", "data": {"text/plain": "<Figure>", "image/png": "iVBORw0KGgo="}},
        ],
    },
    {"cell_type": "markdown", "source": "## Result\n\nIt falls."},
]


def test_notebooks_are_read_as_markdown() -> None:
    document = read_bytes("a.ipynb", json.dumps({"nbformat": 4, "cells": CELLS}).encode())
    code = "```\nlevels = read()\nif levels:\n    levels.head()\n```"
    outputs = "```\n2 rows\n```\n\n```\n<Figure>\n```"
    text = f"# Levels\n\nThe river *rises*.\n\n- slowly\n\n{code}\n\n{outputs}\n\n## Result\n\nIt falls."
    assert (document.kind, document.text) == ("markdown", text)
    assert [page.title for page in document.pages] == ["Levels", "Result"]
    assert document.extraction.warnings == ("1 picture was not read that a.ipynb has as output.",)
    assert document.extraction.unread == 1


def test_old_notebooks_have_sheets() -> None:
    cells = [{"cell_type": "heading", "level": 2, "source": "Levels"}, {"cell_type": "code", "input": ["x = 1"]}]
    document = read_bytes("a.ipynb", json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}).encode())
    assert document.text == "## Levels\n\n```\nx = 1\n```"


def test_other_texts_stay() -> None:
    for text in ('{"nbformat": 4}', '{"cells": []}', "[1]", "{", "[" * 99_999):
        assert read_bytes("a.ipynb", text.encode()).text == text
