"""Results as text, Markdown and JSON, and where they go."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from specextend_cli.engine.meter import Meter
from specextend_cli.errors import UsageError
from specextend_cli.summarize.events import Coverage, Summarized, Text
from specextend_cli.ui.destination import destination
from specextend_cli.ui.results import WRITERS
from tests.ui.fake_stream import SUMMARY, stream


def written(format, *, name="", heading="", **options):
    out = io.StringIO()
    writer = WRITERS[format](out.write, document=name, heading=heading)
    for event in (Text("not a result"), *stream(**options)):
        writer.add(event)
    return out.getvalue()


def test_text_is_the_summary_and_one_newline():
    assert written("text") == SUMMARY + "\n"
    assert written("text", summary="Plain and\x1b[31m red") == "Plain and red\n"
    assert written("text", heading="a\x1b[2J.pdf", summary="Words.") == "==> a.pdf <==\n\nWords.\n"


def test_markdown_ends_with_the_source_and_what_of_it_was_not_read():
    text = written("md", coverage=Coverage(52, (31,), (), 27360, 0), document="a_b\x1b~&$.pdf")
    source = "*Source: a\\_b�\\~\\&\\$.pdf, 52 pages, 21,340 words, 1 page without text (31).*\n"
    made = "*Written by smollm2-135m (drafter: eagle) with specextend "
    assert text.startswith(f"{SUMMARY}\n\n---\n\n{source}{made}")


def test_json_holds_the_result_and_the_figures_of_its_model():
    record = json.loads(written("json"))
    assert record["text"] == SUMMARY
    assert record["coverage"]["complete"] is True
    assert record["coverage"]["words"] == 21_340
    model = record["model"]
    assert (model["preset"], model["drafter"], model["chunks"]) == ("smollm2-135m", "eagle", [9120] * 3)
    assert (model["accepted_length"], model["accepted_lengths"]["2"], model["tokens"]) == (2.894, 18, 140)
    assert set(model) >= {"prompt_tokens", "prefill_seconds", "tokens_per_second", "speedup", "hit", "draft_seconds"}


def test_without_a_model_there_are_no_figures_of_one():
    *_, last = stream()
    out = io.StringIO()
    WRITERS["json"](out.write).add(Summarized(replace(last.summary, method="extractive", meter=Meter())))
    record = json.loads(out.getvalue())
    assert record["model"] is None
    assert list(record) == [
        *("document", "text", "mode", "own_summary", "sentences", "coverage", "warnings", "seconds", "settings"),
        *("model", "run", "version"),
    ]


def test_a_line_of_json_is_the_same_object():
    assert written("jsonl").count("\n") == 1
    assert json.loads(written("jsonl", name="in/a.pdf")) == json.loads(written("json", name="in/a.pdf"))
    assert json.loads(written("jsonl", name="in/a.pdf"))["document"] == "in/a.pdf"
    assert json.loads(written("jsonl", name="caf\udce9.txt").encode())["document"] == "caf\ufffd.txt"  # not UTF-8


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["flood-warning.pdf"], ["flood-warning.md"]),
        (["report.pdf", "report.docx", "b.html"], ["report.pdf.md", "report.docx.md", "b.md"]),
        (["deep/a.txt", "a.txt"], ["deep/a.md", "a.md"]),
        (["a.txt", "a.pdf", "a.txt.pdf"], ["a.txt.md", "a.pdf.md", "a.txt.pdf.md"]),
        (["v1.2", "stdin"], ["v1.2.md", "stdin.md"]),
    ],
)
def test_results_are_named_after_their_documents(tmp_path, names, files):
    place = destination(f"{tmp_path}/out/", "md", [(name, None) for name in names], many=False)
    assert [place.paths[name].relative_to(tmp_path / "out").as_posix() for name in names] == files


def test_a_result_beside_its_document_keeps_the_documents_suffix(tmp_path):
    place = destination(str(tmp_path), "md", [("a.pdf", tmp_path / "a.pdf")], many=True)
    assert place.paths["a.pdf"] == tmp_path / "a.pdf.md"


def test_one_file_is_not_for_several_documents():
    for output, many in (("all.md", True), (__file__, True), (f"{__file__}/", False)):
        with pytest.raises(UsageError, match="a directory is needed"):
            destination(output, "md", [("a.pdf", None), ("b.pdf", None)], many=many)
    assert destination("all.md", "md", [("a.pdf", None)], many=False).paths["a.pdf"] == Path("all.md")
    assert not destination("-", "md", [("a.pdf", None)], many=True).paths
