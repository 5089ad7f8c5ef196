"""`summarize` with the real pipeline and tiny models: requests, marks, figures, losslessness; and `compare`."""

from __future__ import annotations

import json
import re
import subprocess

import psutil
import pytest

from specextend_cli.engine.draft_gate import DraftGate
from tests.cli.shell import REAL, environment
from tests.documents.made_files import docx, p
from tests.helpers.error_lines import said
from tests.summarize.examples import GERMAN, stand_in
from tests.summarize.tiny_preset import make_other, text
from tests.ui.fake_stream import SUMMARY


@pytest.fixture
def source(document):
    """A document of several chunks."""
    document.write_text(text(30))
    return document


def test_options_of_a_summary_reach_the_request(cli, presets, source):
    """By a default pair that can be asked everything; chunk summaries are reused where a wish does not concern them."""
    stand_in(presets)
    mine = source.with_name("mine.txt")
    mine.write_text("{document} In {words} words, in {language}: {style} {focus}")
    wishes = ["--length", "short", "--style", "bullets", "--focus", "Who?", "--lang", "French", "-t", mine]
    done = cli("summarize", source, "--json", "-q", *wishes, "--mode", "abstractive")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["settings"] == {
        "length": "short",
        "style": "bullets",
        "focus": "Who?",
        "language": "French",
        "template": mine.read_text(),
        "mode": "abstractive",
    }
    assert all(line.startswith("- ") for line in record["text"].splitlines())

    def reused(*wishes):
        model = json.loads(cli("summarize", source, "--json", "-q", *wishes).stdout)["model"]
        assert len(model["chunk_summaries"]) == 4
        return model["reused"]

    assert reused("--focus", "Who?", "--style", "tldr") == 4
    assert reused("--focus", "Where?") == 0
    assert reused("--focus", "Where?", "--length", 20, "--no-cache") == 0


def test_without_a_model_there_are_no_figures_of_one(cli, source):
    done = cli("summarize", source, "--mode", "extractive", "--length", 30, "--json")
    record = json.loads(done.stdout)
    assert (record["mode"], record["model"]) == ("extractive", None)
    assert not re.search(r"smollm2|tok/s|accepted|model", done.stderr)
    assert re.search(r"^done in \S+ (m?s )?· 1 page · \d+ words$", done.stderr, re.M)
    done = cli("summarize", source, "--mode", "extractive", "--seed", 1, "--draft", "none", "--batch", 2)
    assert "warning: --seed, --draft, --batch: no effect, because extractive mode generates no text\n" in done.stderr


def test_a_model_that_runs_by_transformers(cli, presets, source, tmp_path):
    """As any other, without drafts; it is said once."""
    (tmp_path / "mla").mkdir()
    other = make_other(tmp_path / "mla", presets["one"])
    planned = cli("summarize", source, "-m", other, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert re.search(r"^harbour\.txt\t1\t\d+\t4\t2\t", planned.stdout, re.M)
    done = cli("summarize", source, "-m", other, "--json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["model"]["drafter"], bool(record["text"])) == (0, "none", True)
    why = "other runs plainly by transformers: its attention keeps a compressed cache (MLA)"
    assert done.stderr.count(why) == 1
    assert why in record["warnings"]


def test_a_length_that_cannot_be_written_names_no_setting_of_a_preset(cli, presets, source):
    for length in (100_000, 140):  # more than the window, and more than it has room for beside prompts
        done = cli("summarize", source, "-m", presets["one"], "--length", length)
        assert done.returncode == 2
        assert said(done) == {
            "error": f"--length {length} is more than this model can write",
            "why": said(done)["why"],
            "try": "a shorter one, or a model with a larger window: specextend models list",
        }
        assert re.fullmatch(r"beside what it reads, its window has room for \d+ words", said(done)["why"])
    done = cli("summarize", source, "-m", presets["one"], "--mode", "extractive", "--length", 100_000)
    assert (done.returncode, done.stdout.split()) == (0, source.read_text().split())


def test_a_language_is_warned_of_once_and_kept_with_every_document(cli, document):
    for name in ("a.txt", "b.txt"):
        document.with_name(name).write_text(GERMAN)
    done = cli("summarize", "a.txt", "b.txt", "--mode", "extractive", "--length", 20, "--json")
    kept = [summary["warnings"] for summary in json.loads(done.stdout)]
    assert kept[0] == kept[1]
    assert sum("sentences in German" in message for message in kept[0]) == 1
    assert done.stderr.count("sentences in German") == 1


def test_marks_are_asked_for(cli, presets, document):
    """The same words with marks and without, and the same marks in a file."""
    source = document.with_name("harbour.docx")
    source.write_bytes(
        docx("".join(p(name, "Heading1") + p(text(4, start)) for name, start in (("One", 0), ("Two", 20))))
    )
    command = ("summarize", source, "-q", "-m", presets["one"])
    plain, marked = cli(*command), cli(*command, "--cite")
    assert plain.returncode == marked.returncode == 0
    assert "[s. " in marked.stdout
    assert re.sub(r" \[(\?|no source found|s\. [12](-2)?)\]", "", marked.stdout) == plain.stdout
    out = document.with_name("out.md")
    assert cli(*command, "--cite", "-o", out).returncode == 0
    assert out.read_text().startswith(marked.stdout.rstrip("\n"))
    record = json.loads(cli(*command, "--json").stdout)
    assert record["text"] == plain.stdout.strip()
    cited = [citation for sentence in record["sentences"] for citation in sentence["citations"]]
    assert set(cited[0]) == {"page", "start", "end", "score", "label", "ocr"}


def test_verbose_adds_five_lines(fake, document):
    done = fake("summarize", document, "-v")
    *_, last, model, start, reading, writing, drafting = done.stderr.splitlines()
    assert last.startswith("done in 18 s")
    assert model == "model\tsmollm2-135m, as configured"
    assert re.fullmatch(r"start\t\S.* to the first words", start)
    assert (reading, writing) == ("reading\t28,560 tokens in 12 s", "writing\t140 tokens in 2.4 s · 57 tok/s")
    assert drafting.startswith("drafting\teagle · 2.5× plain · accepted 2.9 · hits 77% · accepted lengths 1 19%, 2 38%")
    assert "to the first words" not in fake("summarize", document).stderr


def test_a_document_has_one_size(cli, presets, source):
    """In words, of the dry run, the run, its result, `extract`, and what is recorded: not a model's tokens."""
    words = f"{len(source.read_text().split()):,}"
    command = ("summarize", source, "-m", presets["one"])
    assert cli(*command, "-n").stdout.splitlines()[1].split("\t")[:5] == ["harbour.txt", "1", words, "4", "2"]
    assert f"harbour.txt: 1 page, {words} words\n" in cli(*command).stderr
    assert f"*Source: harbour.txt, 1 page, {words} words" in cli(*command, "-f", "md").stdout
    assert json.loads(cli(*command, "--json").stdout)["coverage"]["words"] == int(words)
    assert cli("extract", source).stderr.endswith(f"1 page · {words} words\n")


def test_a_dry_run_says_how_long_it_takes_after_the_first(cli, presets, source):
    """And makes nothing."""
    command = ("summarize", source, "-m", presets["one"], "-n", "--json")
    planned = json.loads(cli(*command).stdout)
    assert planned["seconds"] is None
    assert planned["memory"] > 0
    assert cli("show", "--list").stdout == ""
    assert cli("summarize", source, "-m", presets["one"], "-q", "--batch", 1).returncode == 0
    assert json.loads(cli(*command).stdout)["seconds"] > 0


@pytest.fixture
def accepting(presets, monkeypatch):
    """A preset whose draft model is the target, and a gate that does not mind what that costs."""
    monkeypatch.setattr(DraftGate, "next_shape", lambda self, length: self.shape)
    path = presets["one"].with_name("accepting.toml")
    own = presets["one"].read_text().replace('path = "draft"', 'path = "target"')
    path.write_text(own.replace('kind = "blend"\nof = ["ngram", "lm"]', 'kind = "lm"'))
    return path


def test_drafts_change_no_word(cli, accepting, source):
    """From the command line to the printed summary, greedily and sampled."""
    for sampling in ((), ("--temperature", 0.8, "--seed", 3)):
        command = ("summarize", source, "-m", accepting, "--json", "--no-cache", *sampling)
        drafted, plain = (json.loads(cli(*command, *more).stdout) for more in (("--batch", 1), ("--draft", "none")))
        assert drafted["model"]["drafter"] != plain["model"]["drafter"] == "none"
        assert drafted["model"]["accepted_length"] > plain["model"]["accepted_length"] == 1.0
        assert drafted["text"] == plain["text"] != ""
        assert drafted["model"]["chunk_summaries"] == plain["model"]["chunk_summaries"]
    assert cli("show", "--list").stdout == ""  # by --no-cache


def test_compare_says_whether_the_tokens_are_identical(fake, document):
    done = fake("compare", document)
    assert done.returncode == 0
    assert "\nidentical tokens · " in done.stdout
    assert re.search(r"\d+ cores?, [\d.]+ busy with other work", done.stdout)
    assert SUMMARY not in done.stdout
    assert done.stderr.endswith(f"for a strict check: specextend bench --dtype float32 --input {document}\n")
    record = json.loads(fake("compare", document, "-q", "--json").stdout)
    assert (record["divergence"], record["plain"]["text"]) == (None, record["accelerated"]["text"])
    assert record["load"]["cores"] >= 1


def test_compare_with_real_models(cli, accepting, source):
    record = json.loads(cli("compare", source, "-m", accepting, "--json").stdout)
    assert record["divergence"] is None
    assert record["plain"]["model"]["tokens"] == record["accelerated"]["model"]["tokens"] > 8
    assert record["accelerated"]["model"]["accepted_length"] > 1


@pytest.mark.full
def test_many_documents_take_the_memory_of_few(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(160):
        (tmp_path / "in" / f"{number:03}.txt").write_bytes(
            b"PK\x03\x04" if number % 20 == 7 else text(3, start=number).encode()
        )
    command = [*REAL, "summarize", tmp_path / "in", "-o", tmp_path / "out", "-q", "--mode", "extractive"]
    process, sizes = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment(real=True)), {}
    while process.poll() is None:
        sizes[len(list((tmp_path / "out").glob("[0-9]*")))] = psutil.Process(process.pid).memory_info().rss
    assert (process.returncode, len(list((tmp_path / "out").iterdir()))) == (6, 152)
    assert sizes[max(sizes)] - max(size for done, size in sizes.items() if done <= 60) < 8 << 20
