from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specextend_cli.bench import quality
from specextend_cli.bench.records import Benchmark, Divergence, Machine, Record
from specextend_cli.bench.report import caveats, provenance, render, tables
from specextend_cli.bench.rows import methods, summarize
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.storage import SCHEMA, from_json, to_json
from specextend_cli.bench.tables import Format
from specextend_cli.errors import UsageError
from tests.bench.made_benchmark import benchmark, realistic, record
from tests.bench.untrusted_text import UNTRUSTED, controls, untrusted_benchmark


def test_a_row_by_hand() -> None:
    """Plain: 1 s of prefill, 9 tokens in 9 s. Fast: 2 s of prefill, 9 tokens in 3 s and in 4.5 s."""
    fast = {"prefill_seconds": 2.0, "draft_seconds": 0.3, "verify_seconds": 2.4}
    rows = summarize(
        benchmark(
            record(document="a", peak_bytes=100),
            record(document="b"),
            record("fast", "a", decode_seconds=3.0, accepted=(5, 4), nodes=(8, 6), hit=0.5, peak_bytes=120, **fast),
            record("fast", "b", decode_seconds=4.5, accepted=(3, 3, 3), nodes=(4,), hit=0.7, peak_bytes=150, **fast),
        )
    )
    plain, row = rows
    assert (plain.method, row.method) == ("plain", "fast")
    assert plain.decode_speedup == Interval(1.0, 1.0, 1.0, 2)
    assert (row.documents, row.runs) == (2, 2)
    assert (row.prefill_seconds, row.decode_seconds, row.total_seconds) == (2.0, 3.75, 5.75)
    assert row.tokens_per_second == pytest.approx((3 + 2) / 2)
    assert row.decode_speedup == Interval(pytest.approx(2.5), pytest.approx(2.0), pytest.approx(3.0), 2)
    assert row.total_speedup is not None
    assert row.total_speedup.value == pytest.approx((10 / 5 + 10 / 6.5) / 2)
    assert row.accepted is not None
    assert row.accepted.value == pytest.approx((4.5 + 3) / 2)
    assert row.accepted_counts == {5: 1, 4: 1, 3: 3}
    assert row.nodes == 6.0
    assert row.shares == pytest.approx({"draft": 0.08, "verify": 0.64, "retrieve": 0.0, "host": 0.28})
    assert (row.hit, row.peak_bytes, row.repeated) == (pytest.approx(0.6), 150, 0.0)
    assert (row.compared, row.equal, row.first_divergence, row.largest_gap) == (2, 2, None, None)


def test_wrong_tokens_are_told_with_the_earliest_and_the_largest_gap() -> None:
    row = summarize(
        benchmark(
            *(record(document=name) for name in "abc"),
            record("bad", "a", divergence=Divergence(7, 3.5)),
            record("bad", "b", divergence=Divergence(2, 0.01)),
            record("bad", "c"),
        )
    )[1]
    assert (row.compared, row.equal) == (3, 1)
    assert row.first_divergence == Divergence(2, 0.01)
    assert row.largest_gap == 3.5


def test_a_run_that_does_not_say_that_it_differs_is_caught() -> None:
    made = benchmark(record(), record("bad", tokens=(0, 1, 99, 3, 4, 5, 6, 7, 8, 9)))
    row = summarize(made)[1]
    assert (row.compared, row.equal, row.first_divergence) == (1, 0, Divergence(2, None))
    assert "Different output: bad at 1K left plain decoding in 1 of 1 run." in caveats(made, summarize(made))
    assert "| 1,024 | bad | 1 | 0 of 1 | 3 | – | – | 0% |" in render(made, "md")
    wrong = (record("bad", length=n, divergence=Divergence(0, 0.5)) for n in (1024, 4096))
    longer = benchmark(record(), record(length=4096), *wrong)
    said = "Different output: bad at 1K, 4K left plain decoding in 2 of 2 runs (largest logit gap 0.5)."
    assert said in caveats(longer, summarize(longer))


def test_every_repeat_is_compared_with_plains_first() -> None:
    """So that plain decoding which does not repeat itself is told of plain decoding."""
    other = (0, 9)
    rows = summarize(benchmark(record(), record(repeat=1, tokens=other), record("fast"), record("fast", repeat=1)))
    assert [(row.method, row.equal, row.compared) for row in rows] == [("plain", 1, 2), ("fast", 2, 2)]


@pytest.mark.parametrize(("seconds", "is_said"), [(1.0, False), (1.04, False), (1.1, True)])
def test_a_blend_that_is_slower_than_its_n_grams_is_said(seconds: float, is_said: bool) -> None:
    names = "abc"
    runs = [record(document=name, decode_seconds=2.0) for name in names]
    runs += [record("ngram", name, decode_seconds=1.0) for name in names]
    runs += [record("specextend", name, decode_seconds=seconds) for name in names]
    made = benchmark(*runs)
    assert any(said.startswith("Behind a part") for said in caveats(made, summarize(made))) == is_said


def test_without_plain_decoding_nothing_is_compared() -> None:
    made = benchmark(record("fast"))
    (row,) = summarize(made)
    assert (row.decode_speedup, row.total_speedup, row.compared) == (None, None, 0)
    assert any(sentence.startswith("Plain decoding was not measured") for sentence in caveats(made, (row,)))


def test_references_are_scored_where_there_are_some() -> None:
    made = benchmark(
        record(document="a", text="the cat sat"), record(document="b", text="x"), references={"a": "the cat sat"}
    )
    (row,) = summarize(made)
    assert row.quality is not None
    assert row.quality.rouge1 == pytest.approx(100.0)
    assert tables((row,))[-1].header[-4:] == ("ROUGE-1", "ROUGE-2", "ROUGE-L", "chrF")
    assert "ROUGE" not in render(replace(made, references={}), "md")


def test_missing_libraries_are_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "find_spec", lambda module: None)
    made = benchmark(record(document="a"), references={"a": "x"})
    (row,) = summarize(made)
    assert row.quality is None
    assert any("rouge-score and sacrebleu are not installed" in sentence for sentence in caveats(made, (row,)))


def test_methods_come_in_the_order_asked_for() -> None:
    made = benchmark(record("b"), record("extra"), record("plain"), record("a"))
    assert methods(made) == ("plain", "b", "extra", "a")
    assert methods(replace(made, settings={"methods": ["a", "absent", "b"]})) == ("a", "b", "plain", "extra")


def test_caveats_name_what_limits_the_tables() -> None:
    made = benchmark(
        record(scaled=True), record("fast", scaled=True), skipped={"llama.cpp": "llama-cpp-python is not installed"}
    )
    assert caveats(made, summarize(made)) == (
        "Small n: one document has no interval, and the next one may differ.",
        "Scaled: prompts of 1K tokens pass the model's trained window; RoPE was stretched.",
        "Left out: llama.cpp: llama-cpp-python is not installed",
    )
    three = benchmark(*(record(method, document) for method in ("plain", "fast") for document in "abc"))
    assert caveats(three, summarize(three)) == (
        "Small n: intervals rest on 3 documents or fewer; read them as a hint.",
    )
    many = realistic(lengths=(512,))
    assert not [sentence for sentence in caveats(many, summarize(many)) if "Small n" in sentence]


def test_provenance_names_machine_software_and_settings() -> None:
    facts = provenance(
        benchmark(
            record(),
            settings={
                "dtype": "float32",
                "lengths": [512, 1024],
                "chat": True,
                "inputs": [],
                "draft": None,
                "tree": {"nodes": 50},
            },
        )
    )
    assert facts["processor"] == "Example CPU @ 2.0 GHz, 2 threads"
    assert facts["software"] == "specextend 0.1.0 (0123456789ab+), Python 3.11.7, torch 2.13.0, transformers 5.23.0"
    assert facts["settings"] == "dtype float32, lengths 512/1024, chat on, tree (nodes 50)"
    assert facts["seed"] == "7"


def test_formats_agree() -> None:
    made = realistic(documents=2, lengths=(512, 1024))
    rows = summarize(made)
    by_csv = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    lines = [json.loads(line) for line in render(made, "jsonl").splitlines()]
    whole = json.loads(render(made, "json"))
    assert lines[0]["schema"] == whole["schema"] == SCHEMA
    assert len(by_csv) == len(lines) - 1 == len(whole["summary"]) == len(rows)
    for row, fields, line, summary in zip(rows, by_csv, lines[1:], whole["summary"], strict=True):
        assert line.pop("type") == "row"
        assert line == summary
        assert line["decode_speedup"] == row.decode_speedup.value == float(fields["decode_speedup"])  # type: ignore[union-attr]
        assert (line["method"], line["length"]) == (row.method, row.length)


@pytest.mark.parametrize("format", ["md", "csv", "json", "jsonl"])
def test_an_empty_benchmark_has_a_report(format: Format) -> None:
    assert render(benchmark(), format).endswith("\n")


@pytest.mark.parametrize("format", ["md", "csv", "json", "jsonl"])
def test_untrusted_text_is_harmless(format: Format) -> None:
    text = render(untrusted_benchmark(), format)
    assert not controls(text)
    text.encode()
    if format == "md":
        assert "<script" not in text.replace("\\<", "")
    if format == "json":
        record = from_json(text).records[1]
        assert record.method == record.document == record.text == UNTRUSTED.replace("\ud800", "\ufffd")


TEXT = st.text(max_size=5)
SECONDS = st.floats(0, 1e6)
RECORDS = st.builds(
    Record,
    method=st.sampled_from(["plain", "fast"]),
    length=st.integers(1, 10**6),
    document=TEXT,
    repeat=st.integers(0, 3),
    tokens=st.lists(st.integers(0, 10**5), max_size=6).map(tuple),
    prefill_seconds=SECONDS,
    decode_seconds=SECONDS,
    accepted=st.lists(st.integers(1, 12), max_size=4).map(tuple),
    nodes=st.lists(st.integers(1, 60), max_size=4).map(tuple),
    draft_seconds=SECONDS,
    verify_seconds=SECONDS,
    retrieve_seconds=SECONDS,
    hit=st.none() | st.floats(0, 1),
    peak_bytes=st.integers(0, 10**12),
    scaled=st.booleans(),
    text=TEXT,
    divergence=st.none() | st.builds(Divergence, st.integers(0, 300), st.none() | st.floats(0, 50)),
)
BENCHMARKS = st.builds(
    Benchmark,
    preset=TEXT,
    settings=st.dictionaries(
        TEXT, st.none() | st.booleans() | st.integers() | TEXT | st.lists(st.integers(), max_size=3)
    ),
    machine=st.builds(Machine, TEXT, TEXT, st.integers(1, 99), TEXT, TEXT, TEXT, TEXT, st.none() | TEXT),
    seed=st.integers(0, 2**31),
    records=st.lists(RECORDS, max_size=5).map(tuple),
    references=st.dictionaries(TEXT, TEXT, max_size=2),
    skipped=st.dictionaries(TEXT, TEXT, max_size=2),
)


@settings(deadline=None, max_examples=50)
@given(BENCHMARKS)
def test_a_file_comes_back_and_any_benchmark_can_be_told(made: Benchmark) -> None:
    assert from_json(to_json(made)) == made
    assert render(made, "md")
    assert render(made, "csv")


def test_keys_of_later_versions_are_passed_over() -> None:
    value = json.loads(to_json(benchmark(record())))
    value["records"][0]["new"] = value["new"] = 1
    assert from_json(json.dumps(value)) == benchmark(record())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", f'it should say "schema": "{SCHEMA}", and says nothing of the kind'),
        ('{"schema": "specextend-bench/9"}', "and says specextend-bench/9"),
        (json.dumps({"schema": UNTRUSTED}), "and says [red]x"),
        (f'{{"schema": "{SCHEMA}"}}', "preset: Field required"),
    ],
)
def test_damaged_benchmark_files_are_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_json(text)
    assert caught.value.what == "the benchmark cannot be read"
    assert why in caught.value.why
    assert not controls(caught.value.why)
    assert "specextend bench" in caught.value.fix


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("length", "1k", "records.0.length: "),
        ("length", 0, "records.0.length: Input should be greater than or equal to 1"),
        ("tokens", [1.5], "records.0.tokens.0: "),
        ("decode_seconds", -1.0, "records.0.decode_seconds: Input should be greater than or equal to 0"),
        ("accepted", [0], "records.0.accepted.0: Input should be greater than or equal to 1"),
        ("peak_bytes", -1, "records.0.peak_bytes: Input should be greater than or equal to 0"),
        ("prefill_seconds", None, "records.0.prefill_seconds: "),
    ],
)
def test_records_with_impossible_numbers_are_refused(key: str, value: object, why: str) -> None:
    changed = json.loads(to_json(benchmark(record())))
    changed["records"][0][key] = value
    with pytest.raises(UsageError) as caught:
        from_json(json.dumps(changed))
    assert why in caught.value.why
