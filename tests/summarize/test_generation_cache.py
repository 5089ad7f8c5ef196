"""Notes outlive what interrupts a run, and nothing that happens to their file stops one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import pytest

from specextend_cli.summarize.cache import GenerationCache, key
from specextend_cli.summarize.events import ChunkSummarized, Warned
from tests.summarize.scribe import Scribe, document, run, summarizer
from tests.summarize.tiny_preset import text


def answer(prompt, most):
    """The answer to a prompt, and to no other."""
    return f"Note {sum(prompt) % 9973}."


def write(presets, source, *, after=1 << 30, name="one"):
    """Run with the store; the prompts that were answered anew, and the events."""
    scribe = Scribe(answer, after)
    events = []
    with suppress(KeyboardInterrupt):
        events += run(summarizer(presets[name], scribe, cache=True), document(source))[1]
    return scribe.prompts, events


def test_an_interrupted_run_goes_on_where_it_was(presets):
    source = text(30)
    begun, _ = write(presets, source, after=3)
    rest, events = write(presets, source)
    assert (len(begun), len(rest)) == (3, 2)
    assert not {*map(tuple, begun)} & {*map(tuple, rest)}
    assert [event.reused for event in events if isinstance(event, ChunkSummarized)] == [True, True, True, False]


def test_the_same_again_asks_nothing_and_says_the_same(presets):
    first, again = (write(presets, text(30)) for _ in range(2))
    assert (len(first[0]), len(again[0])) == (5, 0)
    assert first[1][-1].summary.text == again[1][-1].summary.text
    assert first[1][-1].summary.chunk_summaries == again[1][-1].summary.chunk_summaries


def test_an_edit_costs_the_edited_part_and_what_follows_from_it(presets):
    source = text(30)
    write(presets, source)
    edited = source.replace("(17) The", "(17) No")
    assert edited != source
    prompts, events = write(presets, edited)
    assert [event.reused for event in events if isinstance(event, ChunkSummarized)].count(False) == 1
    assert len(prompts) == 2


def test_other_settings_are_other_answers(presets, store):
    write(presets, text(30))
    made = summarizer(presets["one"], Scribe(answer), cache=True)
    made.preset = made.preset.model_copy(update={"decoding": replace(made.preset.decoding, temperature=0.5)})
    run(made, document(text(30)))
    assert len(made._generator.prompts) == 5


def test_other_weights_in_the_same_place_are_another_model(presets, tmp_path):
    shutil.copytree(presets["one"].parent, tmp_path / "copy")
    copied = {"one": tmp_path / "copy" / "one.toml"}
    assert [len(write(copied, text(30))[0]) for _ in range(2)] == [5, 0]
    os.utime(tmp_path / "copy" / "target" / "model.safetensors", (1, 1))
    assert len(write(copied, text(30))[0]) == 5


def test_without_a_cache_nothing_is_kept(presets, store):
    made = summarizer(presets["one"])
    run(made, document(text(30)))
    assert not store.exists()
    assert not made.saves


def broken_by_junk(store):
    store.write_bytes(b"This is no database. " * 500)


def broken_by_another_layout(store):
    with sqlite3.connect(store) as base:
        base.execute("create table texts (something_else text)")
    base.close()


def broken_by_a_directory(store):
    store.mkdir()


@pytest.mark.parametrize("damage", [broken_by_junk, broken_by_another_layout, broken_by_a_directory])
def test_a_store_that_cannot_be_used_is_said_and_done_without(presets, store, damage):
    store.parent.mkdir(parents=True)
    damage(store)
    prompts, events = write(presets, text(30))
    assert len(prompts) == 5
    warnings = [event.message for event in events if isinstance(event, Warned)]
    assert len(warnings) == 1
    assert warnings[0].startswith(f"chunk summaries are not being saved: {store}: ")


def test_a_cache_that_cannot_be_made_is_said_and_done_without(presets, home):
    (home / "cache").write_text("a file where a directory should be")
    prompts, events = write(presets, text(30))
    assert len(prompts) == 5
    assert any(isinstance(event, Warned) for event in events)


def test_a_store_without_write_permission_still_reads(tmp_path, monkeypatch):
    """Asked of sqlite itself: whoever runs the tests may be allowed to write anywhere."""
    path = tmp_path / "texts.sqlite"
    GenerationCache(path).put("a", "kept")
    store = GenerationCache(path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(f"file:{path}?mode=ro", timeout, uri=True))
    assert store.get("a") == "kept"
    store.put("b", "lost")
    assert "readonly" in store.problem
    assert (store.path, store.get("a")) == (None, None)


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


def test_the_oldest_notes_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr("specextend_cli.summarize.cache._MOST_TEXTS", 2)
    store = GenerationCache(tmp_path / "texts.sqlite")
    for name in "abc":
        store.put(name, name)
    assert [store.get(name) for name in "abc"] == [None, "b", "c"]


def test_a_key_covers_prompt_and_settings():
    keys = {key([1, 2], ["a"]), key([1, 2, 3], ["a"]), key([12], ["a"]), key([1, 2], ["b"])}
    assert len(keys) == 4
    assert key((1, 2), {"a": 1, "b": 2}) == key([1, 2], {"b": 2, "a": 1})
