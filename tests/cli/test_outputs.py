"""Where results go: their names and formats, several in one place, and that nothing is written over."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from specextend_cli.errors import UsageError
from specextend_cli.ui.destination import atomic, destination
from tests.cli.conftest import WORDS
from tests.cli.shell import bash
from tests.ui.fake_stream import SUMMARY


def refused(done, *says):
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: " in done.stderr
    assert all(text in done.stderr for text in says), done.stderr


def link(document, kind):
    name = document.with_name("other.txt")
    {"symbolic": name.symlink_to, "hard": name.hardlink_to}[kind](document)
    return name


def names(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("command", ["summarize", "extract"])
@pytest.mark.parametrize("output", ["harbour.txt", "./harbour.txt", "symbolic", "hard"])
def test_an_output_that_is_the_input_is_2(cli, document, command, output, force):
    output = link(document, output) if output in ("symbolic", "hard") else output
    refused(cli(command, document, "-o", output, *force), "is read by this command")
    assert document.read_text() == WORDS


@pytest.mark.parametrize(("kind", "code"), [("hard", 2), ("symbolic", 0)])
def test_a_result_in_a_directory_never_overwrites_the_input(fake, document, kind, code):
    """Beside the document that a link leads to, it gets another name."""
    document.with_name("out").mkdir()
    result = document.with_name("out") / "harbour.txt"
    {"symbolic": result.symlink_to, "hard": result.hardlink_to}[kind](document)
    assert fake("summarize", document, "-o", "out", "--force").returncode == code
    assert document.read_text() == WORDS


@pytest.mark.parametrize("option", ["--template", "--files-from", "--model"])
def test_an_output_that_is_any_other_file_read_is_2(cli, document, option):
    file = document.with_name("mine.toml")
    file.write_text(f"{document}\n" if option == "--files-from" else f"{{document}} {document}\n")
    before = file.read_text()
    refused(cli("summarize", document, option, file, "-o", file, "--force"))
    assert file.read_text() == before


def test_redirections_onto_the_input_are_2(document):
    for redirection in ('extract "$F" >> "$F"', 'summarize - < "$F" >> "$F"', 'summarize - < "$F" -o "$F" --force'):
        refused(bash(f"$SPECEXTEND {redirection}", F=str(document)), "is read by this command")
        assert document.read_text() == WORDS


@pytest.mark.parametrize("command", ["summarize", "extract"])
def test_a_file_is_overwritten_when_forced_only(fake, document, command):
    out = document.with_name("out.txt")
    out.write_text("mine")
    refused(fake(command, document, "-o", out), "out.txt exists already", "--force")
    assert out.read_text() == "mine"
    assert fake(command, document, "-o", out, "--force").returncode == 0
    assert out.read_text() != "mine"


def test_an_extract_is_not_taken_for_done_because_a_summary_of_its_name_is_there(fake, document):
    assert fake("summarize", document, "-o", "out/").returncode == 0
    refused(fake("extract", document, "-o", "out"), "out/harbour.txt exists already", "--force")
    assert Path("out/harbour.txt").read_text() == f"{SUMMARY}\n"


def test_what_appears_meanwhile_is_not_overwritten(tmp_path):
    out = tmp_path / "out.txt"

    def meanwhile():
        with atomic(out) as write:
            write("ours")
            out.write_text("mine")

    with pytest.raises(UsageError, match="exists already"):
        meanwhile()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_link_is_followed_not_replaced(fake, document):
    there, out = document.with_name("there.txt"), document.with_name("out.txt")
    there.write_text("old")
    out.symlink_to("there.txt")
    assert fake("summarize", document, "-o", out, "--force").returncode == 0
    assert out.is_symlink()
    assert there.read_text() == f"{SUMMARY}\n"


def test_devices_and_pipes_are_written_to(fake, document):
    os.mkfifo(document.with_name("fifo"))
    with subprocess.Popen(["cat", "fifo"], stdout=subprocess.PIPE, text=True) as reader:
        assert fake("summarize", document, "-o", "fifo").returncode == 0
        assert reader.communicate()[0] == f"{SUMMARY}\n"
    assert fake("summarize", document, "-o", "/dev/null").returncode == 0
    assert Path("/dev/null").is_char_device()
    assert fake("summarize", document, "-o", "-").stdout == f"{SUMMARY}\n"


def test_an_output_file_is_whole_or_not_there(fake, document):
    out = document.with_name("new") / "summary.json"
    assert fake("summarize", document, "-o", out, crash=True).returncode == 1
    assert list(out.parent.iterdir()) == []
    assert fake("summarize", document, "-o", out).returncode == 0
    assert json.loads(out.read_text())["text"] == SUMMARY
    mask = os.umask(0)
    os.umask(mask)
    assert out.stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_full_disk_under_the_output_is_5_and_leaves_nothing(fake, document, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specextend_cli.ui.destination.Path.replace", full)
    done = fake("summarize", document, "-o", "summary.txt")
    assert done.returncode == 5
    assert "error: the output could not be written\nwhy:   No space left on device\n" in done.stderr
    assert names(document.parent) == ["harbour.txt"]


def test_a_directory_that_cannot_be_written_is_one_error(fake, document):
    document.with_name("b.txt").write_text(WORDS)
    done = fake("summarize", document, "b.txt", "-o", "/proc/out")
    assert (done.returncode, done.stderr.count("error: cannot write /proc/out/")) == (2, 1)


@pytest.mark.parametrize(
    ("files", "out", "made"),
    [
        (["flood-warning.pdf"], "out/", ["flood-warning.md"]),
        (["flood-warning.pdf", "notes"], "out", ["flood-warning.md", "notes.md"]),
        (["a.pdf", "a.txt", "b/a.txt"], "v1.2", ["a.pdf.md", "a.txt.md", "b/a.md"]),
        (["b"], "out", ["a.md"]),
    ],
)
def test_results_are_named_after_their_documents(fake, document, files, out, made):
    Path("b").mkdir()
    for name in [*files, "b/a.txt"]:
        if name != "b":
            Path(name).write_text(WORDS)
    done = fake("summarize", *files, "-f", "md", "-o", out)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert names(Path(out)) == made


def test_a_directory_keeps_what_it_has_and_the_rest_is_written(fake, document):
    document.with_name("other.txt").write_text(WORDS)
    Path("out").mkdir()
    Path("out/other.md").write_text("mine")
    done = fake("summarize", document, "other.txt", "-o", "out", "-f", "md")
    assert (done.returncode, names(Path("out"))) == (0, ["harbour.md", "other.md"])
    assert "out/other.md exists already; --force writes it again\n" in done.stderr
    assert Path("out/other.md").read_text() == "mine"
    assert fake("summarize", document, "other.txt", "-o", "out", "-f", "md", "--force").returncode == 0
    assert Path("out/other.md").read_text().startswith(SUMMARY)


def test_two_inputs_of_one_name_are_refused(fake, document):
    Path("b").mkdir()
    for one, other in ((document, "b/../harbour.txt"), ("http://127.0.0.1:1/a.txt", "http://127.0.0.1:2/a.txt")):
        refused(fake("summarize", one, other, "-o", "out", "--force"), "two of the inputs are named ")


def test_the_name_of_the_output_says_its_format(fake, document):
    for name, begins in (("a.txt", SUMMARY[:9]), ("a.md", SUMMARY[:9]), ("a.json", "{\n"), ("a.jsonl", '{"document"')):
        assert fake("summarize", document, "-o", name).returncode == 0
        assert Path(name).read_text().startswith(begins)
    assert "*Source: harbour.txt, 52 pages, 21,340 words.*\n" in Path("a.md").read_text()
    assert len(Path("a.jsonl").read_text().splitlines()) == 1
    assert json.loads(Path("a.json").read_text()) == json.loads(Path("a.jsonl").read_text())


def test_several_documents_on_stdout(fake, document):
    Path("sub").mkdir()
    Path("sub/harbour.txt").write_text(WORDS)
    done = fake("summarize", document, "absent.txt", "sub/harbour.txt", "-q")
    assert done.returncode == 6
    assert done.stdout == f"==> harbour.txt <==\n\n{SUMMARY}\n==> sub/harbour.txt <==\n\n{SUMMARY}\n"
    done = fake("summarize", document, "absent.txt", "sub/harbour.txt", "--json", "-q")
    assert done.returncode == 6
    assert [record["document"] for record in json.loads(done.stdout)] == ["harbour.txt", "sub/harbour.txt"]
    assert [one["document"] for one in json.loads(fake("summarize", "sub", "--json", "-q").stdout)] == ["harbour.txt"]
    done = fake("summarize", document, "sub/harbour.txt", "-f", "jsonl", "-q")
    assert [json.loads(line)["document"] for line in done.stdout.splitlines()] == ["harbour.txt", "sub/harbour.txt"]


def test_a_document_that_fails_is_named_at_once(fake, document):
    """Before the next one is begun, and not again at the end."""
    Path("empty.txt").touch()
    done = fake("summarize", "absent.txt", "empty.txt", document)
    assert done.returncode == 6
    failed, rest = done.stderr.split("3/3 harbour.txt: 52 pages")
    assert "failed: absent.txt does not exist\nfailed: empty.txt is empty (it has 0 bytes)\n" in failed
    assert rest.endswith(
        "error: 2 of 3 documents failed\ntry:   to look into one of them: specextend extract empty.txt\n"
    )
    assert "failed:" not in rest
    planned = fake("summarize", "absent.txt", document, "-n", "--json")
    assert (planned.returncode, [plan["document"] for plan in json.loads(planned.stdout)]) == (6, ["harbour.txt"])


def test_an_array_that_ends_early_is_whole():
    """After ^C, too, what was made is printed as JSON that can be read."""
    written, place = [], destination(None, "json", [], many=True)

    def interrupted():
        with place.all(written.append):
            with place.target(written.append, "a") as write:
                write('{"document": "a"}\n')
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert json.loads("".join(written)) == [{"document": "a"}]


def test_tables_are_lines_between_tabs_in_a_pipe(fake, document):
    long = document.with_name("a name that is much longer than a column of eighty " * 3 + "\tor\nmore.txt")
    long.write_text(WORDS)
    header, first, second = fake("summarize", document, long, "-n").stdout.splitlines()
    assert header.split("\t") == ["document", "pages", "words", "prompts", "levels", "time", "memory"]
    assert re.fullmatch(r"harbour\.txt\t3\t900\t2\t2\tabout 42 s\t[\d.]+ [MG]B", first)
    assert second.split("\t")[0] == " ".join(long.name.split())
