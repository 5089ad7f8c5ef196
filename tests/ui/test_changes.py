"""What cleaning changed, in pages of any length."""

from __future__ import annotations

import itertools
from difflib import SequenceMatcher

from specextend_cli.ui.changes import _lines, _Matcher


def test_short_pages_are_compared_as_a_whole() -> None:
    found = [f"line {n % 50}" for n in range(300)]
    cleaned = [line for n, line in enumerate(found) if n % 7]
    assert _Matcher(found, cleaned).get_opcodes() == SequenceMatcher(None, found, cleaned).get_opcodes()


def test_a_page_of_many_lines_is_compared_block_by_block() -> None:
    found = tuple(f"line {n}" for n in range(50_000))
    cleaned = tuple(f"{line}!" if n % 97 == 0 else line for n, line in enumerate(found) if n % 101)
    shown = [line.plain for line in _lines(found, cleaned)]
    gone = {line for n, line in enumerate(found) if n % 97 == 0 or n % 101 == 0}
    assert {line[1:] for line in shown if line.startswith("-")} == gone
    assert {line[1:] for line in shown if line.startswith("+")} == set(cleaned) - set(found)
    codes = _Matcher(found, cleaned).get_opcodes()
    assert all(a[2] == b[1] and a[4] == b[3] for a, b in itertools.pairwise(codes))
    assert all(found[i:j] == cleaned[k:m] for tag, i, j, k, m in codes if tag == "equal")
