"""Files of every format through the commands."""

from __future__ import annotations

import json

import pytest

from tests.documents.made_files import docx, epub, message, p, page
from tests.summarize.tiny_preset import text


def test_formats_are_read_like_any_other(cli, tmp_path):
    files = {
        "a.html": b"<html><h1>Rain</h1><p>It rains.</p><h2>Sun</h2><p>It shines.</p>",
        "a.docx": docx(p("Rain", "Heading1") + p("It rains.") + p("Sun", "Heading1") + p("It shines.")),
        "a.epub": epub({"a": page("<h1>Rain</h1><p>It rains.</p>"), "b": page("<h1>Sun</h1><p>It shines.</p>")}),
        "a.md": b"Rain\n====\n\nIt rains.\n\n# Sun\n\nIt shines.\n",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        done = cli("extract", tmp_path / name)
        assert (done.returncode, done.stdout.split()[-2:]) == (0, ["It", "shines."]), name
        assert done.stderr.startswith("2 sections · ")
        record = json.loads(cli("extract", tmp_path / name, "--json").stdout)
        assert (record["unit"], [place[3] for place in record["places"]]) == ("section", ["Rain", "Sun"])
        assert cli("extract", tmp_path / name, "--pages", "1").returncode == 2


def test_attachments_are_warned_of(cli, tmp_path):
    path = tmp_path / "mail.eml"
    path.write_bytes(bytes(message("See there.", a_pdf=b"x")))
    done = cli("extract", path)
    assert "See there." in done.stdout
    assert "1 attachment was not read: a.pdf." in done.stderr


@pytest.mark.parametrize("mode", ["extractive", "abstractive"])
def test_json_says_the_mode_and_has_the_chunk_summaries_of_it(cli, presets, tmp_path, mode):
    path = tmp_path / "a.txt"
    path.write_text(text(60))
    record = json.loads(cli("summarize", path, "-m", presets["one"], "--mode", mode, "--json").stdout)
    assert record["mode"] == record["request"]["mode"] == mode
    assert bool(record["chunk_summaries"]) == (mode == "abstractive")
    run = json.loads(cli("show", "last", "--json").stdout)
    assert run["chunk_summaries"] == record["chunk_summaries"]
