"""One table for every command: what is typed, the exit code, and the first words of what is said.

Usage errors come before a document is looked for: `absent` is not there, and is not said to be. Whatever fails, stdout
has nothing, and stderr what happened, why and what to do (the last two where they help), without a traceback.
"""

from __future__ import annotations

import io
import re
import shlex

import pytest
from pypdf import PdfReader, PdfWriter

from specextend_cli.summarize.events import Coverage
from tests.documents.made_pdfs import Sheets, report_bytes
from tests.helpers.error_lines import said
from tests.summarize import tiny_preset
from tests.ui.fake_stream import SUMMARY

USAGE = """
nonsense | no such command 'nonsense'
--nonsense | no such option: --nonsense
summarize --nonsense | no such option: --nonsense (Possible options: --seed)
summarize --length | option '--length' requires an argument
summarize absent --length many | --length many: no such length
summarize absent --length 0 | --length 0: no such length
summarize absent --style haiku | invalid value for '--style': 'haiku' is not one of 'paragraph',
summarize absent --mode guided | --mode guided: no such mode
summarize absent --style outline | invalid value for '--style': 'outline' is not one of 'paragraph', 'bullets'
summarize absent --mode extractive --lang French | --mode extractive and --lang contradict each other
summarize absent --focus '' | --focus is empty
summarize absent --lang '' | --lang is empty
summarize absent -t absent | cannot read the template absent
summarize absent -t latin1 | cannot read the template latin1
summarize absent -t large | --template is too long
summarize absent -t nowhere | the template cannot be filled
summarize absent --output '' | invalid value for '--output' / '-o': it is empty; perhaps a
summarize absent --format pdf | invalid value for '--format' / '-f': 'pdf' is not one of
summarize absent --json --format md | --json and --format md contradict each other
summarize absent --pages 9-3 | --pages '9-3' cannot be read
summarize absent --ocr-lang=../x | --ocr-lang ../x names no languages
summarize absent --model absent | there is no preset 'absent'
summarize absent --model broken.toml | broken.toml: window.chunk: 
summarize absent --model ollama:../x | 'ollama:../x' names no model of ollama
summarize absent --temperature inf | --temperature inf is no temperature
summarize absent --temperature -1 | invalid value for '--temperature': it should be greater than or
summarize absent --device tpu | device tpu is not usable here
summarize absent --device mps | device mps is not usable here
summarize absent --draft mine | invalid value for '--draft': 'mine' is not one of 'none',
summarize absent --draft lm | preset smollm2-135m has no draft model
summarize absent --batch 0 | invalid value for '--batch': it should be greater than or equal
summarize absent --workers 2 | --workers belongs to --ray
summarize '' | the name of a file is empty
summarize - - | stdin can be read only once
summarize - --files-from - | stdin can be read only once
summarize file:///etc/passwd | file:///etc/passwd cannot be fetched
summarize https://example.org/a.pdf --offline | https://example.org/a.pdf cannot be fetched offline
summarize two -o all.md | --output all.md names a file, and a directory is needed
compare two | two has 2 documents
bench --nonsense | no such
extract absent absent | got unexpected extra argument(s) (absent)
extract absent --diff --json | --diff and --json contradict each other
extract two | two has 2 documents
models | missing command
models nonsense | no such command 'nonsense'
models show | missing argument 'NAME'
models show absent | there is no preset 'absent'
models show Mine.toml | Mine.toml is no name for a preset
models show smolm2-135 | there is no preset 'smolm2-135'; did you mean 'smollm2-135m'?
models pull absent | there is no preset 'absent'
models use absent | there is no preset 'absent'
show --sentence 0 | invalid value for '--sentence' / '-s': it should be greater
show 1a --list | an ID, --list and --forget contradict each other
doctor absent | got unexpected extra argument(s) (absent)
"""

OTHERS = """
3 | summarize absent | absent does not exist
3 | compare absent | absent does not exist
3 | extract absent | absent does not exist
3 | extract empty.txt | empty.txt is empty
3 | extract blank.txt | blank.txt is empty
3 | extract cut.pdf | cut.pdf is a damaged PDF
3 | extract locked.pdf | locked.pdf is encrypted
3 | extract scan.pdf | scan.pdf has no text layer (0 characters on 1 page, 1 image)
3 | extract scan.pdf --ocr | scan.pdf needs OCR, and there is no program for it
3 | extract junk.bin | junk.bin is a binary file, not a document
3 | extract notes.rtf | notes.rtf is an RTF document
3 | extract http://127.0.0.1:1/a.pdf | http://127.0.0.1:1/a.pdf could not be fetched
3 | summarize empty | there is no document in empty
3 | compare empty | there is no document in empty
3 | extract empty | there is no document in empty
3 | summarize --files-from absent | cannot read the list absent
3 | summarize --files-from empty.txt | empty.txt names no file
3 | show | there is no run to show
3 | show --forget zzz | there is no run zzz
4 | summarize absent --draft-head empty | cannot read the head's config.json in
4 | compare absent --draft-head empty | cannot read the head's config.json in
4 | summarize harbour.txt -m lost.toml --length 2 | there is no complete model in
4 | summarize harbour.txt -m odd.gguf | cannot read odd.gguf
4 | summarize harbour.txt -m ollama:absent | ollama has no model absent
4 | models rm qwen3-8b | nothing of qwen3-8b is on disk
5 | extract harbour.txt -o /dev/full | the output could not be written
"""


def rows(table):
    return [tuple(cell.strip() for cell in line.split("|")) for line in table.strip().splitlines()]


def encrypted():
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(report_bytes(1))))
    writer.encrypt("secret", algorithm="AES-256")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


@pytest.fixture
def here(document, monkeypatch):
    """The current directory with what the table names."""
    folder = document.parent
    for name in ("empty", "two"):
        (folder / name).mkdir()
    scan = Sheets()
    scan.picture()
    files = {
        "two/a.txt": b"Words.", "two/b.txt": b"Words.", "empty.txt": b"", "blank.txt": b" \n\n\t\n",
        "cut.pdf": report_bytes(3)[:1500], "locked.pdf": encrypted(), "scan.pdf": scan.data(),
        "junk.bin": bytes(range(256)) * 40, "notes.rtf": b"{\\rtf1 hello}", "odd.gguf": b"GGUF",
        "latin1": b"{document} caf\xe9", "large": b"{document}" + b"x" * (1 << 18), "nowhere": b"Summarize.",
        
    }  # fmt: skip
    for name, data in files.items():
        (folder / name).write_bytes(data)
    tiny_preset.write(folder / "lost.toml")
    tiny_preset.write(folder / "Mine.toml")
    tiny_preset.write(folder / "broken.toml", chunk=3)
    monkeypatch.setenv("PATH", "")  # no program for OCR
    return folder


@pytest.mark.parametrize(("line", "error"), rows(USAGE))
@pytest.mark.usefixtures("here")
def test_usage_is_2_before_anything_is_done(cli, line, error):
    done = cli(*shlex.split(line))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {error}")
    assert re.fullmatch(r"error: .+\n(why:   .+\n)?(try:   .+\n)?", done.stderr)


@pytest.mark.parametrize(("code", "line", "error"), rows(OTHERS))
@pytest.mark.usefixtures("here")
def test_what_fails_has_an_exit_code_of_its_kind(cli, code, line, error):
    done = cli(*shlex.split(line))
    assert (done.returncode, done.stdout) == (int(code), "")
    assert said(done)["error"].startswith(error)


def test_a_device_that_this_machine_lacks_is_said_before_the_document(cli, monkeypatch):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for command in (("summarize", "absent", "--device", "cuda"), ("compare", "absent")):
        monkeypatch.setenv("SPECEXTEND_DEVICE", "cuda")  # which is checked like the option
        done = cli(*command)
        assert (done.returncode, said(done)["error"]) == (2, "device cuda is not usable here")


@pytest.mark.parametrize("content", [encrypted(), b"{\\rtf1 hello}"])
def test_the_command_that_helps_names_the_file_where_it_is(cli, tmp_path, content):
    path = tmp_path / "my files" / "report.pdf"
    path.parent.mkdir()
    path.write_bytes(content)
    assert f"'{path}'" in said(cli("extract", path))["try"]


def test_a_password_comes_from_the_environment_and_is_never_shown(cli, here, monkeypatch):
    monkeypatch.setenv("SPECEXTEND_PDF_PASSWORD", "guess")
    done = cli("extract", "locked.pdf")
    assert said(done)["error"] == "locked.pdf is encrypted and the password does not open it"
    assert "guess" not in done.stderr
    monkeypatch.setenv("SPECEXTEND_PDF_PASSWORD", "secret")
    done = cli("extract", "-q", "locked.pdf")
    assert (done.returncode, done.stderr) == (0, "")
    assert "This is page 1 of the story." in done.stdout


def test_offline_without_the_model_is_4(cli, document):
    done = cli("summarize", document, "--offline", "--length", 2)
    assert (done.returncode, done.stdout) == (4, "")
    assert said(done)["try"].endswith("specextend models pull smollm2-135m")


def test_a_defect_is_1_and_short_unless_debugging(fake, document):
    short = fake("summarize", document, crash=True)
    assert short.returncode == 1
    assert "Traceback" not in short.stderr
    assert "error: something unexpected went wrong (ZeroDivisionError: no such luck)" in short.stderr
    assert "try:   run again with --debug" in short.stderr
    for arguments in (("summarize", document, "--debug"), ("--debug", "summarize", document)):
        long = fake(*arguments, crash=True)
        assert long.returncode == 1
        assert "Traceback" in long.stderr
        assert "ZeroDivisionError: no such luck" in long.stderr


def test_without_torch_the_error_is_4_and_names_it(cli, document, monkeypatch):
    def absent(*_, **__):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("specextend_cli.summarize.summarizer.Summarizer.__init__", absent)
    done = cli("summarize", document)
    assert (done.returncode, said(done)["error"]) == (4, "torch is not installed")


def test_a_document_that_was_not_read_completely_is_6_with_a_summary_of_the_rest(fake, document):
    done = fake("summarize", document, coverage=Coverage(52, (), (7, 8), 100, 0))
    assert (done.returncode, done.stdout) == (6, f"{SUMMARY}\n")
    assert said(done) == {
        "error": "harbour.txt was not read completely",
        "why": "2 pages unreadable (7-8)",
        "try": "the summary covers the rest; specextend extract shows what was read",
    }
