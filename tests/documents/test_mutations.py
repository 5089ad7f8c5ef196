"""Damaged files of every kind: each is read or refused, and nothing else happens."""

from __future__ import annotations

import pytest

from tests.scripts.fuzz_documents import KINDS, made, outcome


@pytest.mark.parametrize("rounds", [25, pytest.param(200, marks=pytest.mark.full)])
@pytest.mark.parametrize("at", range(len(KINDS)), ids=KINDS)
def test_mutated_files_are_read_or_refused(at: int, rounds: int) -> None:
    found = []
    for number in range(at, len(KINDS) * rounds, len(KINDS)):
        kind, data = made(number)
        assert kind == KINDS[at]
        found.append(outcome(kind, data))
    assert any(what.startswith("read") for what in found)
