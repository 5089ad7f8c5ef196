"""Texts and runs outlive what interrupts a run, and nothing that happens to their file stops one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from specextend_cli.engine.meter import Meter
from specextend_cli.errors import InputError, UsageError
from specextend_cli.summarize import cache as module
from specextend_cli.summarize.cache import GenerationCache, RunStore, key
from specextend_cli.summarize.events import ChunkSummarized, Part, Warned
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text

SOURCE, SHORT = text(30), document(text(6))


def answer(prompt, most):
    """The answer to a prompt, and to no other."""
    return f"Note {sum(prompt) % 9973}."


def write(presets, source=SOURCE, *, after=1 << 30):
    """Run with the store; the prompts that were answered anew, and the events."""
    scribe = Scribe(answer, after)
    events = []
    with suppress(KeyboardInterrupt):
        events += run(summarizer(presets["one"], scribe, cache=True), document(source))[1]
    return scribe.prompts, events


def reused(events):
    return [event.reused for event in events if isinstance(event, ChunkSummarized)]


def test_an_interrupted_run_resumes_and_a_finished_one_asks_nothing(presets):
    begun, _ = write(presets, after=3)
    rest, events = write(presets)
    assert (len(begun), len(rest)) == (3, 2)
    assert not {*map(tuple, begun)} & {*map(tuple, rest)}
    assert reused(events) == [True, True, True, False]
    asked, again = write(presets)
    assert (asked, reused(again)) == ([], [True] * 4)
    assert again[-1].summary.text == events[-1].summary.text
    assert again[-1].summary.chunk_summaries == events[-1].summary.chunk_summaries


def test_what_is_stored_is_said_before_models_load(presets):
    write(presets, after=1)
    made, parts, before = summarizer(presets["one"], Scribe(answer), cache=True), [], []
    load = made.load

    def loading():
        before.append([part.reused for part in parts])
        return (yield from load())

    made.load = loading
    for event in made.run(document(SOURCE)):
        parts += [event] if isinstance(event, Part) else []
    assert before[0] == [True, False]
    assert [part.number for part in parts] == [1, 2, 3, 4, 1]


def test_an_edit_costs_the_edited_part_and_what_follows_from_it(presets):
    write(presets)
    prompts, events = write(presets, SOURCE.replace("(17) The", "(17) No"))
    assert (len(prompts), reused(events).count(False)) == (2, 1)


def test_other_settings_and_other_weights_are_other_answers(presets, tmp_path):
    shutil.copytree(presets["one"].parent, tmp_path / "copy")
    copied = {"one": tmp_path / "copy" / "one.toml"}
    assert [len(write(copied)[0]) for _ in range(2)] == [5, 0]
    os.utime(tmp_path / "copy" / "target" / "model.safetensors", (1, 1))
    assert len(write(copied)[0]) == 5
    made = summarizer(copied["one"], Scribe(answer), cache=True)
    made.preset = made.preset.model_copy(update={"decoding": replace(made.preset.decoding, temperature=0.5)})
    run(made, document(SOURCE))
    assert len(made._generator.prompts) == 5
    keys = {key([1, 2], ["a"]), key([1, 2, 3], ["a"]), key([12], ["a"]), key([1, 2], ["b"])}
    assert len(keys) == 4
    assert key((1, 2), {"a": 1, "b": 2}) == key([1, 2], {"b": 2, "a": 1})


@pytest.mark.parametrize("damage", ["junk", "another layout", "a directory", "no cache directory"])
def test_a_store_that_cannot_be_used_is_said_and_done_without(presets, home, store, damage: str):
    if damage == "no cache directory":
        (home / "cache").write_text("a file where a directory should be")
    else:
        store.parent.mkdir(parents=True)
    if damage == "junk":
        store.write_bytes(b"This is no database. " * 500)
    elif damage == "another layout":
        with closing(sqlite3.connect(store)) as base, base:
            base.execute("create table texts (something_else text)")
    elif damage == "a directory":
        store.mkdir()
    prompts, events = write(presets)
    assert len(prompts) == 5
    (warning,) = [event.message for event in events if isinstance(event, Warned)]
    assert warning.startswith(f"chunk summaries are not being saved: {store}: ")
    if damage != "another layout":
        with pytest.raises(InputError, match="cannot be read"):
            RunStore(store).all()


def test_a_store_without_write_permission_still_reads(store, monkeypatch):
    """Asked of sqlite itself: whoever runs the tests may be allowed to write anywhere."""
    GenerationCache(store).put("a", "kept")
    texts, connect = GenerationCache(store), sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(f"file:{path}?mode=ro", timeout, uri=True))
    assert texts.get("a") == "kept"
    texts.put("b", "lost")
    assert "readonly" in texts.problem
    assert (texts.path, texts.get("a")) == (None, None)


def test_two_processes_write_to_one_store(store):
    code = (
        "import sys; from pathlib import Path; from specextend_cli.summarize.cache import GenerationCache\n"
        "store = GenerationCache(Path(sys.argv[1]))\n"
        "for n in range(40): store.put(f'{sys.argv[2]} {n}', sys.argv[2] * 1000)\n"
        "sys.exit(store.problem or 0)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, os.fspath(store), name]) for name in "ab"]
    assert [writer.wait() for writer in writers] == [0, 0]
    kept = GenerationCache(store)
    assert all(kept.get(f"{name} {n}") == name * 1000 for name in "ab" for n in range(40))


# ------------------------------------------------------------------------------------------------------ finished runs


@pytest.fixture
def summary(presets):
    scribe = Scribe(lambda prompt, most: "The harbour was founded by fishermen. It cost 4,711 crowns.")
    return run(summarizer(presets["one"], scribe), SHORT)[0]


@pytest.fixture
def runs(store):
    return RunStore(store)


def test_a_run_comes_back_as_it_was(runs, summary) -> None:
    name = runs.add(summary, SHORT, "cpu")
    found = runs.get(name)
    assert runs.get(name[:4]) == found
    for field in ("text", "sentences", "chunk_summaries", "document", "preset", "method"):
        assert getattr(found, field) == getattr(summary, field)
    assert found.tokens == summary.coverage.tokens
    assert runs.get(name[:2]) == runs.get(name.upper()) == runs.last() == found
    citations = [citation for sentence in found.sentences for citation in sentence.citations]
    assert citations
    for citation in citations:
        assert found.quotes[citation.start] == SHORT.text[citation.start : citation.end]


def test_the_newest_come_first_and_the_oldest_go(runs, store, summary, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MOST_TEXTS", 2)
    texts = GenerationCache(store)
    for name in "abc":
        texts.put(name, name)
    assert [texts.get(name) for name in "abc"] == [None, "b", "c"]
    monkeypatch.setattr(module, "_MOST_RUNS", 3)
    names = [runs.add(replace(summary, seconds=n), SHORT, "cpu") for n in range(5)]
    assert [found.id for found in runs.all()] == names[:1:-1]


def test_rates_are_those_of_whole_runs_of_the_preset(runs, summary, monkeypatch) -> None:
    assert runs.rates("cpu") == {}
    tokens = summary.coverage.tokens

    def add(seconds: float, *, read: int = tokens, preset: str = summary.preset, device: str = "cpu") -> None:
        meter = Meter(prompt_tokens=read, prefill_seconds=seconds, tokens=50, verify_seconds=2 * seconds)
        runs.add(replace(summary, meter=meter, preset=preset, seconds=99), SHORT, device)

    add(500.0)
    monkeypatch.setattr(module, "_PACED", 3)
    for seconds in (2.0, 4.0, 30.0):
        add(seconds)
    add(1.0, read=tokens - 1)  # its notes were there
    add(1.0, preset="another")
    add(1.0, device="cuda")
    rates = runs.rates("cpu")[summary.preset]
    assert (rates.read, rates.written) == pytest.approx((4 / tokens, 8 / 50))
    assert runs.rates("cuda")[summary.preset].read == pytest.approx(1 / tokens)
    assert RunStore(None).rates("cpu") == {}


def test_runs_are_found_and_removed_by_name(runs, summary, store) -> None:
    names = [runs.add(replace(summary, seconds=n), SHORT, "cpu") for n in range(4)]
    for unknown in ("", "zzz", "%", "last"):
        with pytest.raises(InputError, match="there is no run"):
            runs.get(unknown)
    with pytest.raises(InputError, match="no run zzz"):
        runs.remove("zzz")
    assert [runs.remove(name) for name in (names[0][:5], runs.last().id)] == [1, 1]
    assert {found.id for found in runs.all()} == set(names[1:3])
    with closing(sqlite3.connect(store)) as file, file:
        file.execute("insert into runs select ?, made, record from runs where id = ?", (names[1][:-1] + "z", names[1]))
    with pytest.raises(UsageError, match="2 runs begin with"):
        runs.get(names[1][:5])
    assert runs.get(names[1]).id == names[1]
    assert (runs.clear(), runs.all(), runs.clear()) == (3, [], 0)


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"sentences": [1], "quotes": {}, "chunk_summaries": []}'])
def test_a_damaged_record_is_passed_over(runs, summary, store, record: str) -> None:
    kept = runs.add(summary, SHORT, "cpu")
    with closing(sqlite3.connect(store)) as file, file:
        file.execute("insert into runs values ('bad', 1e12, ?)", (record,))
    assert [found.id for found in runs.all()] == [kept]
    with pytest.raises(InputError, match="no run bad"):
        runs.get("bad")


@pytest.mark.parametrize("cache", [True, False])
def test_a_run_is_recorded_unless_nothing_is_kept(presets, store, cache: bool) -> None:
    made = summarizer(presets["one"], Scribe(lambda prompt, most: "It rained."), cache=cache)
    summary, _ = run(made, SHORT)
    assert made.saves is store.exists() is bool(summary.run) is cache
    assert [found.id for found in RunStore(store).all()] == ([summary.run] if cache else [])
