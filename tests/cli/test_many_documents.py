"""Many documents: shares, lists and directories; what fails is said and the rest is done, in the same memory."""

from __future__ import annotations

import json
import re
import subprocess
import time

import psutil
import pytest

from specextend_cli.cli.inputs import Shard, parse_shard, sources
from specextend_cli.cli.options import ReadOptions
from specextend_cli.cli.source import Source
from specextend_cli.errors import UsageError
from tests.cli.shell import REAL, command, environment
from tests.summarize import tiny_preset
from tests.summarize.test_extractive import GERMAN
from tests.summarize.tiny_preset import text

DOCUMENTS, CORRUPT = 200, 10


@pytest.fixture
def library(tmp_path):
    """A directory of many small documents, some of them corrupt, each in its own way."""
    folder = tmp_path / "in"
    folder.mkdir()
    bad = [
        b"",
        b"%PDF-1.7 nothing",
        b"\x89PNG\r\n\x1a\n",
        b"PK\x03\x04broken",
        b"\x1f\x8b\x00",
        b"   \n ",
        b"\x00" * 999,
    ]
    for number in range(DOCUMENTS):
        corrupt = number % (DOCUMENTS // CORRUPT) == 7
        data = bad[number // 20 % len(bad)] if corrupt else text(3, start=number).encode()
        (folder / f"{number:03}.txt").write_bytes(data)
    return folder


@pytest.mark.full
def test_two_hundred_documents_of_which_ten_are_corrupt(presets, library, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    arguments = ["summarize", library, "-o", out, "-m", presets["one"], "--max-tokens", 3, "--draft", "none"]
    sizes = {}
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*REAL, *map(str, arguments)], stderr=stderr, env=environment(real=True, COLUMNS="200")
        )
        while process.poll() is None:
            done = len(list(out.glob("[0-9]*"))) if out.is_dir() else 0
            sizes[done] = psutil.Process(process.pid).memory_info().rss if process.poll() is None else 0
            time.sleep(0.02)
    said = log.read_text()
    assert process.returncode == 6, said
    assert len(list(out.iterdir())) == DOCUMENTS - CORRUPT
    assert all(path.read_text().strip() for path in out.iterdir())
    assert f"error: {CORRUPT} of {DOCUMENTS} documents failed" in said
    table = said[said.index("\nfailed\t") :]
    assert re.findall(r"^(\d{3})\.txt\t", table, re.MULTILINE) == [f"{20 * n + 7:03}" for n in range(CORRUPT)]
    early = max(size for done, size in sizes.items() if 40 <= done <= 80)
    late = max(size for done, size in sizes.items() if done >= 150)
    assert late - early < 8 << 20


def test_a_plan_goes_on_and_says_what_failed(fake, tmp_path):
    (tmp_path / "a.txt").write_text("Some words.\n")
    for planning in (("plan",), ("summarize", "--dry-run")):
        done = fake(*planning, tmp_path / "a.txt", tmp_path / "absent.txt", "--json")
        assert [plan["document"] for plan in json.loads(done.stdout)] == ["a.txt"]
        assert done.returncode == 6
        assert "absent.txt\tabsent.txt does not exist" in done.stderr
        assert "error: 1 of 2 documents failed" in done.stderr
        assert "specextend extract" not in done.stderr  # of a file that is not there
    assert fake("plan", tmp_path / "absent.txt").returncode == 3


def test_only_a_file_that_is_there_is_worth_looking_into(fake, tmp_path):
    (tmp_path / "empty.txt").touch()
    done = fake("plan", tmp_path / "absent.txt", tmp_path / "empty.txt")
    assert f"try:   to look into one of them: specextend extract {tmp_path / 'empty.txt'}" in done.stderr


def test_a_language_is_warned_of_once_and_kept_with_every_document(cli, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(GERMAN)
    done = cli("summarize", tmp_path, "--mode", "extractive", "--length", 20, "--json")
    kept = [summary["warnings"] for summary in json.loads(done.stdout)]
    assert kept[0] == kept[1]
    assert sum("sentences in German" in message for message in kept[0]) == 1
    assert done.stderr.count("sentences in German") == 1


@pytest.mark.parametrize("name", ["all.md", "all.json", "all.docx"])
def test_a_file_for_several_summaries_is_refused_not_made_a_directory(fake, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for one in ("a.txt", "b.txt"):
        (tmp_path / one).write_text("Some words.\n")
    done = fake("summarize", "a.txt", "b.txt", "-o", name)
    assert done.returncode == 2
    assert f"--output {name} names a file" in done.stderr
    assert "try:   --output all/; or, for one file, " in done.stderr
    assert not (tmp_path / name).exists()
    for directory in (f"{name}/", name, "v1.2"):  # it exists by then
        assert fake("summarize", "a.txt", "b.txt", "-o", directory).returncode == 0


def test_a_directory_that_cannot_be_written_is_one_error(fake, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("Some words.\n")
    done = fake("summarize", tmp_path / "a.txt", tmp_path / "b.txt", "-o", "/proc/out")
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write /proc/out/")


def test_shares_are_disjoint_complete_and_equal(tmp_path):
    inputs = [Source(f"{number}.txt") for number in range(23)]
    for of in (1, 2, 5, 23, 40):
        shares = [Shard(number, of).take(inputs) for number in range(1, of + 1)]
        assert sorted(source.path for share in shares for source in share) == sorted(s.path for s in inputs)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert [Shard(number, of).take(inputs[::-1]) for number in range(1, of + 1)] == shares


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_other_shares_are_refused(text):
    with pytest.raises(UsageError, match="is not a share"):
        parse_shard(text)


def test_the_shares_of_an_array_job_write_everything_once(fake, tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.md").write_text("Some words.\n")
    for task, count in (("1", 2), ("2", 4), ("3", 5)):
        assert fake("summarize", folder, "-o", out, "--shard", f"{task}/3", "-q").returncode == 0
        assert len(list(out.iterdir())) == count
    for number in range(6, 8):  # a share may be empty, and a share of one document has a directory all the same
        assert fake("summarize", folder, "-o", tmp_path / "more", "--shard", f"{number}/7").returncode == 0
    assert fake("summarize", "-", "--shard", "1/2", stdin="Words.").returncode == 2


def test_directories_and_lists(fake, tmp_path):
    (tmp_path / "in" / "deep" / ".git").mkdir(parents=True)
    for name in ("a.txt", "b.png", ".c.txt", "deep/a.txt", "deep/.git/d.txt"):
        (tmp_path / "in" / name).write_bytes(b"\x89PNG\r\n\x1a\n" if name == "b.png" else b"Some words.\n")
    found = sources([str(tmp_path / "in")], ReadOptions(), example="")
    assert [source.name for source in found] == ["a.txt", "deep/a.txt"]
    done = fake("summarize", tmp_path / "in", "-o", tmp_path / "out", "-q")
    assert done.returncode == 0
    assert sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.txt")) == [
        "a.txt.txt",
        "deep/a.txt.txt",
    ]
    listing = f"{tmp_path}/in/a.txt\n\n{tmp_path}/in/deep/a.txt\n"
    (tmp_path / "list").write_text(listing)
    for done in (
        fake("plan", "--files-from", tmp_path / "list", "--json"),
        fake("plan", "--files-from", "-", "--json", stdin=listing),
    ):
        assert len(json.loads(done.stdout)) == 2
    one = tmp_path / "in" / "a.txt"
    (tmp_path / "short").write_text(f"{one}\n")
    for out, arguments in (("slash/", [one]), ("listed", ["--files-from", tmp_path / "short"])):
        assert fake("summarize", *arguments, "-q", "-o", f"{tmp_path}/{out}").returncode == 0
        assert [path.name for path in (tmp_path / out).iterdir()] == ["a.txt.txt"]
    (tmp_path / "empty").mkdir()
    assert fake("summarize", tmp_path / "empty").returncode == 3
    assert fake("summarize", "--files-from", "-").returncode == 3
    assert fake("summarize", "--files-from", tmp_path / "absent").returncode == 3
    assert fake("summarize", "-", "--files-from", "-", stdin=listing).returncode == 2


def test_a_batch_counts_and_stops_at_what_would_fail_for_every_document(cli, fake, presets, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(text(3))
    lost = tiny_preset.write(tmp_path / "lost.toml")
    done = cli("summarize", tmp_path / "a.txt", tmp_path / "b.txt", "-m", lost)
    assert done.returncode == 4
    assert done.stderr.count("there is no model directory") == 1
    done = fake("summarize", tmp_path / "a.txt", tmp_path / "b.txt")
    assert "1/2 a.txt: 52 pages" in done.stderr
    assert "2/2 b.txt: 52 pages" in done.stderr


@pytest.mark.full
def test_two_processes_share_the_notes(presets, tmp_path):
    """Both at once over the same documents: the same summaries, and a third run finds every note."""
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text(text(30, start=number))
    files = [tmp_path / f"{number}.txt" for number in range(2)]
    outs = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]

    def arguments(out):
        return command("summarize", *files, "-o", out, "-m", presets["one"], "--batch", 1, real=True)

    both = [
        subprocess.Popen(arguments(out), stderr=subprocess.PIPE, text=True, env=environment(real=True))
        for out in outs[:2]
    ]
    said = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    third = subprocess.run(arguments(outs[2]), capture_output=True, text=True, env=environment(real=True), check=True)
    assert third.stderr.count("done · 4 of 4 chunk summaries reused") == 2
    assert "not being saved" not in said[0] + said[1]
    texts = [[path.read_text() for path in sorted(out.iterdir())] for out in outs]
    assert texts[0] == texts[1] == texts[2]
