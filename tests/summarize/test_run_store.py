"""Finished runs are found again, and what happens to their file stops nobody."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from specextend_cli.engine.meter import Meter
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize import result_store as module
from specextend_cli.summarize.result_store import RunStore
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text


@pytest.fixture
def summary(presets):
    scribe = Scribe(lambda prompt, most: "The harbour was founded by fishermen. It cost 4,711 crowns.")
    return run(summarizer(presets["one"], scribe), document(text(6)))[0]


@pytest.fixture
def runs(store):
    return RunStore(store)


def test_a_run_comes_back_as_it_was(runs, summary) -> None:
    name = runs.add(summary, document(text(6)), "cpu")
    found = runs.get(name)
    assert len(name) == 6
    assert (found.text, found.sentences, found.chunk_summaries) == (
        summary.text,
        summary.sentences,
        summary.chunk_summaries,
    )
    assert (found.document, found.preset, found.tokens) == (summary.document, summary.preset, summary.coverage.tokens)
    assert runs.get(name[:2]) == runs.get(name.upper()) == runs.last() == found
    source = text(6)
    for sentence in found.sentences:
        for citation in sentence.citations:
            quote = found.quotes[citation.start]
            assert quote.passage == source[citation.start : citation.end]
            assert quote.before + quote.passage + quote.after in source
    assert any(sentence.citations for sentence in found.sentences)


def test_the_newest_come_first_and_the_oldest_go(runs, summary, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MOST_RUNS", 3)
    names = [runs.add(replace(summary, seconds=n), document(text(6)), "cpu") for n in range(5)]
    assert [found.id for found in runs.all()] == names[:1:-1]
    monkeypatch.setattr(module, "_BYTES", 1)
    last = runs.add(replace(summary, seconds=9), document(text(6)), "cpu")
    assert [found.id for found in runs.all()] == [last]


def test_rates_are_those_of_whole_runs_of_the_preset(runs, summary, monkeypatch) -> None:
    assert runs.rates(summary.preset, "cpu") is None
    tokens = summary.coverage.tokens

    def add(seconds: float, *, read: int = tokens, preset: str = summary.preset, device: str = "cpu") -> None:
        meter = Meter(prompt_tokens=read, prefill_seconds=seconds, tokens=50, verify_seconds=2 * seconds)
        runs.add(replace(summary, meter=meter, preset=preset, seconds=99), document(text(6)), device)

    add(500.0)
    monkeypatch.setattr(module, "_PACED", 3)
    for seconds in (2.0, 4.0, 30.0):
        add(seconds)
    add(1.0, read=tokens - 1)  # its notes were there
    add(1.0, preset="another")
    add(1.0, device="cuda")
    rates = runs.rates(summary.preset, "cpu")
    assert (rates.read, rates.written) == pytest.approx((4 / tokens, 8 / 50))
    on_gpu = runs.rates(summary.preset, "cuda")
    assert on_gpu.read == pytest.approx(1 / tokens)
    assert runs.rates(summary.preset, "mps") is None
    assert RunStore(None).rates(summary.preset, "cpu") is None


def test_runs_are_removed_by_name(runs, summary) -> None:
    names = [runs.add(replace(summary, seconds=n), document(text(6)), "cpu") for n in range(4)]
    with pytest.raises(InputError, match="no run zzz"):
        runs.remove([names[0], "zzz"])
    assert len(runs.all()) == 4
    assert runs.remove([names[0], names[0], runs.last().id]) == 2
    assert {found.id for found in runs.all()} == set(names[1:3])
    assert (runs.clear(), runs.all(), runs.clear()) == (2, [], 0)


@pytest.mark.parametrize("name", ["", "zzz", "%", "last"])
def test_an_unknown_run_is_refused(runs, name: str) -> None:
    with pytest.raises(InputError, match="there is no run"):
        runs.get(name)


def test_an_id_that_means_two(runs, summary, store) -> None:
    name = runs.add(summary, document(text(6)), "cpu")
    with closing(sqlite3.connect(store)) as file, file:
        file.execute("insert into runs select ?, made, record from runs", (name[:-1] + "z",))
    with pytest.raises(UsageError, match="2 runs begin with"):
        runs.get(name[:3])
    assert runs.get(name).id == name


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"sentences": [1], "quotes": {}, "chunk_summaries": []}'])
def test_a_damaged_record_is_passed_over(runs, summary, store, record: str) -> None:
    kept = runs.add(summary, document(text(6)), "cpu")
    with closing(sqlite3.connect(store)) as file, file:
        file.execute("insert into runs values ('bad', 1e12, ?)", (record,))
    assert [found.id for found in runs.all()] == [kept]
    with pytest.raises(InputError, match="no run bad"):
        runs.get("bad")


def test_a_file_that_is_no_store(runs, summary, store) -> None:
    store.parent.mkdir(parents=True)
    store.write_bytes(b"not a database at all" * 100)
    assert runs.add(summary, document(text(6)), "cpu") == ""
    with pytest.raises(InputError, match="cannot be read"):
        runs.all()


@pytest.mark.parametrize("cache", [True, False])
def test_a_run_is_recorded_unless_nothing_is_kept(presets, store, cache: bool) -> None:
    made = summarizer(presets["one"], Scribe(lambda prompt, most: "It rained."), cache=cache)
    summary, _ = run(made, document(text(6)))
    assert [found.id for found in RunStore(store).all()] == ([summary.run] if cache else [])
    assert bool(summary.run) is cache
