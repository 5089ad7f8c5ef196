"""docs/presets.md says of every architecture what comes of it; a sample is built and decoded again."""

from __future__ import annotations

import re

import make_families
import pytest
import transformers

SAMPLE = ("llama", "gemma3_text", "granite_swa", "qwen3_next", "llama4_text", "deepseek_v3", "bert", "moshi", "bloom")
_, _, REST = make_families.PAGE.read_text(encoding="utf-8").partition(make_families.BEGIN)
TABLE = REST.partition(make_families.END)[0]

pytestmark = pytest.mark.skipif(
    f"Of transformers {transformers.__version__}" not in TABLE,
    reason="the table is made with another version of transformers",
)


def listed() -> dict[str, str]:
    """What the table says, by name."""
    rows = re.findall(r"^\| (.+?) \| \d+ \| (.+) \|$", TABLE, re.MULTILINE)
    return {name: reason for reason, names in rows for name in re.findall(r"`([^`]+)`", names)}


@pytest.mark.parametrize("name", SAMPLE)
def test_the_table_is_current(name: str) -> None:
    assert listed()[name] == make_families.classify(name), "due: python docs/make_families.py"


def test_every_architecture_is_in_the_table() -> None:
    assert sorted(listed()) == make_families.names()
