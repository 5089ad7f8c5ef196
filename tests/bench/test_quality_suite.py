"""`bench --suite quality`: equal words, an oracle that is one, faults by hand, and the whole command on a toy set."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from specextend_cli.bench import extractive_baselines as baselines
from specextend_cli.bench import quality as faults
from specextend_cli.bench.quality import rouge
from specextend_cli.bench.suite import quality
from specextend_cli.bench.texts import Source
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize.sentences import spans
from tests.helpers.flat_options import flat_options
from tests.summarize.tiny_preset import SENTENCES, text

REFERENCE = "A bridge joined the island to the coast after the war. The customs house burned down in 1898."
FEW = ("lead", "random", "oracle")


def sources(*, summary: str = REFERENCE, count: int = 2) -> list[Source]:
    return [Source(f"toy-{n}", text(24, n), summary, "512" if n % 2 else "1K") for n in range(count)]


def toy(path: Path) -> Path:
    lines = [{"id": s.name, "text": s.text, "summary": s.summary, "length": s.length} for s in sources()]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def rows(home: Path) -> quality.Rows:
    return quality.Rows(home / "out" / "summaries.jsonl")


@pytest.mark.parametrize("method", baselines.NAMES)
def test_a_baseline_has_exactly_as_many_words_in_document_order(method: str) -> None:
    whole = text(24)
    sentences = [whole[start:end] for start, end in spans(whole)]
    summary = baselines.summary(method, sentences, 50, REFERENCE, "0")
    assert len(summary.split()) == 50
    places = [next(n for n, one in enumerate(sentences) if one.startswith(line)) for line in summary.split("\n")]
    assert places == sorted(places)
    assert summary == baselines.summary(method, sentences, 50, REFERENCE, "0")
    assert len(baselines.summary(method, sentences, 10_000, REFERENCE, "0").split()) == len(whole.split())


def test_lsa_numbers_words_in_the_same_order_in_every_process() -> None:
    """Where it numbers them by a set, about half of the orders differ from the alphabet's for two words."""
    made = baselines._summarizer("lsa")
    for words in combinations(("anchor", "bridge", "castle", "dragon", "engine"), 2):
        document = SimpleNamespace(words=words[::-1])
        assert list(made._create_dictionary(document)) == sorted(made._create_dictionary(document))


def test_lsa_decomposes_the_transposed_matrix_where_it_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text(24)
    sentences = [whole[start:end] for start, end in spans(whole)]
    expected = baselines.summary("lsa", sentences, 50, REFERENCE, "0")
    stock, refused = np.linalg.svd, []

    def svd(matrix: Any, full_matrices: bool) -> Any:
        if not refused:
            refused.append(matrix.shape)
            raise np.linalg.LinAlgError("SVD did not converge")
        assert matrix.shape == refused[0][::-1]
        return stock(matrix, full_matrices)

    monkeypatch.setattr(np.linalg, "svd", svd)
    assert baselines.summary("lsa", sentences, 50, REFERENCE, "0") == expected
    assert refused


def test_the_oracle_has_the_highest_rouge() -> None:
    sentences = [sentence.strip() for sentence in SENTENCES]
    scores = {
        name: rouge(baselines.summary(name, sentences, 20, REFERENCE, "0"), REFERENCE) for name in baselines.NAMES
    }
    assert all(scores["oracle"][0] >= score[0] for score in scores.values())
    assert scores["oracle"][0] > scores["lead"][0]


def test_without_sumy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "find_spec", lambda module: None)
    baselines.require(FEW)
    with pytest.raises(UsageError) as caught:
        baselines.require(("lead", "lsa", "luhn"))
    assert (caught.value.what, caught.value.why) == ("lsa, luhn cannot run", "sumy is not installed")
    assert "specextend-cli[bench]" in str(caught.value.fix)


def test_the_interval_of_no_difference_includes_zero_and_that_of_one_does_not() -> None:
    ours = [{"ROUGE-1": float(n)} for n in range(9)]
    labels = ["talks"] * 9
    same = quality.difference(ours, ours, "ROUGE-1", labels)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    lower = [{"ROUGE-1": one["ROUGE-1"] - 1 - n / 9} for n, one in enumerate(ours)]
    less = quality.difference(lower, ours, "ROUGE-1", labels)
    assert less.low is not None
    assert less.high is not None
    assert less.low <= less.value <= less.high < 0


def test_a_source_with_few_documents_weighs_as_much_as_one_with_many() -> None:
    """Eight documents gain 1 each, two lose 1: over documents that is +0.6, over sources 0, whatever is resampled."""
    ours = [{"ROUGE-1": 1.0}] * 8 + [{"ROUGE-1": -1.0}] * 2
    found = quality.difference(ours, [{"ROUGE-1": 0.0}] * 10, "ROUGE-1", ["papers"] * 8 + ["talks"] * 2)
    assert (found.value, found.low, found.high, found.n) == (0, 0, 0, 10)


@pytest.mark.parametrize(
    "sentence",
    [
        "We conducted this performance audit in accordance with generally accepted government auditing standards.",
        "To address our objectives, we reviewed documents.",
        "If you have questions, contact me at (202) 512-7215 or brownb@gao.gov.",
        "Additional copies are available at no charge.",
        "We thank the members of the working group; this concludes my statement.",
    ],
)
def test_boilerplate(sentence: str) -> None:
    assert faults.boilerplate([sentence, *SENTENCES]) == 1


@pytest.mark.parametrize(
    "sentence",
    ["All officials we interviewed said that the bridge is safe.", "See https://example.org, or install tool@1.20."],
)
def test_what_is_no_boilerplate(sentence: str) -> None:
    assert faults.boilerplate([sentence]) == 0


def test_repeated_sentences() -> None:
    assert faults.repeated(SENTENCES) == 0
    assert faults.repeated([*SENTENCES, SENTENCES[0], SENTENCES[0]]) == 3
    assert faults.repeated(["Yes.", "Yes."]) == 0


@pytest.mark.parametrize(
    ("summary", "found"),
    [
        (["One thing happened.", "This was new."], 0),
        (["Zero is first.", "This was new."], 1),
        (["This was new."], 1),
        (["For example, a"], 1),
        (["They are the model's.", "This one, too."], 1),
        (["However, it begins so."], 0),
    ],
)
def test_dangling_openings(summary: list[str], found: int) -> None:
    document = ["However, it begins so.", "Zero is first.", "One thing happened.", "This was new."]
    assert faults.dangling(summary, document) == found


def test_which_documents_and_how_many_words() -> None:
    four = sources(count=4)
    items, kind = quality.choose(four, quality.Settings(docs=1))
    assert [item.document.name for item in items] == ["toy-0", "toy-1"]
    assert (kind, items[0].words) == ("reference", 30)
    items, kind = quality.choose(four, quality.Settings(lengths=("512",), words="document"))
    assert [item.document.name for item in items] == ["toy-1", "toy-3"]
    assert items[0].words == len(items[0].document.text.split()) // 3
    _, kind = quality.choose(sources(summary="word " * 400), quality.Settings())
    assert kind == "document"
    with pytest.raises(UsageError):
        quality.choose(four, quality.Settings(lengths=("8k",)))
    with pytest.raises(InputError):
        quality.choose([Source("a", "text")], quality.Settings())


def test_a_second_run_makes_nothing_and_a_torn_line_is_made_again(
    rows: quality.Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = quality.Settings(methods=FEW)
    items, kind = quality.choose(sources(), settings)
    lines: list[str] = []
    first = quality.run(items, kind, settings, rows, lines.append)
    assert len(lines) == 7
    whole = rows.path.read_text()
    rows.path.write_text(whole[:-20])
    lines.clear()
    assert (
        quality.run(items, kind, settings, quality.Rows(rows.path), lines.append).scores["lead"] == first.scores["lead"]
    )
    assert [line.split(" · ")[0] for line in lines] == ["[6/6] oracle", "scoring"]
    monkeypatch.setattr(baselines, "summary", None)
    again = quality.run(items, kind, settings, quality.Rows(rows.path))
    assert {one["words"] for of in again.scores.values() for one in of} == {30}
    assert quality.Rows(rows.path, fresh=True).known == {}
    rows.path.write_text("{}\n")
    with pytest.raises(InputError, match="damaged"):
        quality.Rows(rows.path)
    with pytest.raises(UsageError, match="cannot be kept"):
        quality.Rows(rows.path / "below" / "it.jsonl")


def test_our_summaries_are_made_anew_for_another_preset_or_option(presets: dict[str, Path]) -> None:
    versions = {
        quality.Ours(flat_options(preset=str(presets[name]), **more)).version
        for name, more in (("one", {}), ("three", {}), ("one", {"seed": 1}), ("one", {}))
    }
    assert len(versions) == 3


def test_the_whole_command(cli, presets: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("bench", "--suite", "quality", "--dataset", toy(tmp_path / "toy.jsonl"), "-o", tmp_path / "out")
    command = (*command, "-m", presets["one"], "--no-compile")
    modes = ("--methods", "default,extractive,lexrank,lead,oracle")
    honest, calls = baselines.summary, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return honest(*arguments)

    monkeypatch.setattr(baselines, "summary", interrupted)
    done = cli(*command, *modes)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.splitlines()[-1] == f"3 summaries saved in {tmp_path / 'out'}; run again to continue"
    monkeypatch.setattr(baselines, "summary", honest)
    done = cli(*command, *modes)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("[4/10] lead · toy-0 · 30 words")
    assert done.stdout == (tmp_path / "out" / "quality.md").read_text()
    for part in ("| oracle (upper bound) |", "| extractive | lexrank |", "- machine: ", "--words reference"):
        assert part in done.stdout
    done = cli(*command, *modes, "--json", "-q")
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)
    found = json.loads(done.stdout)
    assert json.loads((tmp_path / "out" / "quality.json").read_text()) == found
    for of in zip(*found["scores"].values(), strict=True):
        assert len({one["words"] for one in of}) == 1
    assert cli(*command, "--methods", "lead", "--len", "512", "--docs", 1, "-q", "-f", "csv").stdout.count("lead") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        ("--suite", "quality"),
        ("--suite", "quality", "--dataset", "toy.jsonl", "--methods", "magic"),
        ("--suite", "quality", "--dataset", "toy.jsonl", "--report", "page"),
        ("--words", "reference"),
    ],
)
def test_usage_errors(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    toy(tmp_path / "toy.jsonl")
    done = cli("bench", *wrong)
    assert (done.returncode, done.stdout) == (2, "")
