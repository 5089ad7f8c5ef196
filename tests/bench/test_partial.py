"""Records that survive an interruption."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specextend_cli.bench.records import Divergence, Record
from specextend_cli.bench.storage import Partial, key
from specextend_cli.bench.workloads import Prompt

RECORD = Record(
    (1, 2, 3),
    0.5,
    0.25,
    (2,),
    (4,),
    0.1,
    0.1,
    0.01,
    0.9,
    method="plain",
    length=512,
    document="a.txt",
    repeat=0,
    peak_bytes=123,
    scaled=True,
    text="x\n\u2028y",
)


def test_records_come_back_as_they_were(home: Path) -> None:
    partial = Partial("key")
    assert partial.read() == []
    other = replace(RECORD, method="ngram", hit=None, divergence=Divergence(1, 0.25))
    for record in (RECORD, other):
        partial.add(record)
    assert Partial("key").read() == [RECORD, other]
    assert Partial("other").read() == []
    assert partial.path.is_relative_to(home / "cache")
    partial.remove()
    assert partial.read() == []
    partial.remove()


def test_a_line_cut_by_a_kill_is_dropped(home: Path) -> None:
    partial = Partial("key")
    partial.add(RECORD)
    whole = partial.path.read_text()
    partial.path.write_text(whole + whole[:40])
    assert partial.read() == [RECORD]
    partial.add(replace(RECORD, repeat=1))
    assert [record.repeat for record in Partial("key").read()] == [0, 1]


@pytest.mark.parametrize("damage", ["{}\n", "nonsense\n", '{"method": "a"}\n', "[1]\n", '"a"\n'])
def test_a_damaged_file_is_begun_anew(home: Path, damage: str) -> None:
    partial = Partial("key")
    partial.add(RECORD)
    with partial.path.open("a") as file:
        file.write(damage)
    assert partial.read() == []
    partial.add(RECORD)
    assert Partial("key").read() == [RECORD]


def test_fresh_deletes_the_earlier_runs(home: Path) -> None:
    Partial("key").add(RECORD)
    assert Partial("key", fresh=True).read() == []


def test_a_cache_that_cannot_be_written_is_said_and_done_without(home: Path) -> None:
    (home / "cache").write_text("a file, where a directory should be")
    partial = Partial("key")
    assert partial.read() == []
    partial.add(RECORD)
    assert "not being saved" in partial.problem
    partial.add(RECORD)
    partial.remove()


def test_the_key_covers_settings_and_prompts() -> None:
    prompts = [Prompt("a", 3, (1, 2, 3))]
    keys = {
        key({"tokens": 5}, prompts),
        key({"tokens": 6}, prompts),
        key({"tokens": 5}, [Prompt("a", 3, (1, 2, 4))]),
        key({"tokens": 5}, [Prompt("b", 3, (1, 2, 3))]),
    }
    assert len(keys) == 4
    assert key({"tokens": 5}, list(prompts)) in keys
