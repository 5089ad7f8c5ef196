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
    assert done.stderr.endswith("1 section · 131 characters · 1 part not read\n")


def test_what_was_left_out_is_in_every_account(cli, presets, tmp_path):
    path = tmp_path / "a.html"
    path.write_text(f"<html><nav>Home and more</nav><p>{text(60)}</p><p hidden>secret words</p></html>")
    done = cli("extract", path)
    assert done.stderr.endswith(" · 5 words left out\n")
    record = json.loads(cli("extract", path, "--json").stdout)
    assert (record["left_out"], record["unread"]) == (5, 0)
    done = cli("summarize", path, "-m", presets["one"])
    assert "section 1 read; 5 words left out" in " ".join(done.stderr.split())
    assert " dropped" not in done.stderr
    record = json.loads(cli("summarize", path, "-m", presets["one"], "--json").stdout)
    assert record["coverage"]["left_out"] == 5
    assert record["coverage"]["complete"]


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        (
            "a.eml",
            b"From: a@b\nMIME-Version: 1.0\nContent-Type: application/pkcs7-mime\n\nMIIB",
            "a.eml is an email that cannot be read",
        ),
        (
            "b.eml",
            b"From: a@b\nMIME-Version: 1.0\nContent-Type: application/pdf; name=a.pdf\n\nx",
            "b.eml is an email without a text",
        ),
        (
            "a.msg",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "__properties_version1.0".encode("utf-16-le"),
            "a.msg is an Outlook message (MSG)",
        ),
    ],
)
def test_what_has_no_text_to_read_is_an_input_error(cli, tmp_path, name, data, error):
    path = tmp_path / name
    path.write_bytes(data)
    done = cli("extract", path)
    assert done.returncode == 3
    assert f"error: {error}\n" in done.stderr
    assert "try:" in done.stderr
    assert name != "a.msg" or "save it as .eml" in done.stderr


@pytest.mark.parametrize("mode", ["extractive", "abstractive"])
def test_json_says_the_mode_and_has_the_chunk_summaries_of_it(cli, presets, tmp_path, mode):
    path = tmp_path / "a.txt"
    path.write_text(text(60))
    record = json.loads(cli("summarize", path, "-m", presets["one"], "--mode", mode, "--json").stdout)
    assert record["mode"] == record["request"]["mode"] == mode
    assert bool(record["chunk_summaries"]) == (mode == "abstractive")
    run = json.loads(cli("show", "last", "--json").stdout)
    assert run["chunk_summaries"] == record["chunk_summaries"]
