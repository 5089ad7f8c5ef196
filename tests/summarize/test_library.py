"""`from specextend_cli import …`: light to import, and its documentation runs as it stands."""

from __future__ import annotations

import subprocess
import sys

import pytest

import specextend_cli
from tests.summarize.examples import blocks, stand_in
from tests.summarize.tiny_preset import text

EXAMPLES = blocks("library.md", "python")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(presets, tmp_path, monkeypatch, capsys, number):
    stand_in(presets)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.pdf").write_text(text(14))  # by content, not by name
    exec(compile(EXAMPLES[number], f"docs/library.md, example {number + 1}", "exec"), {})
    out = capsys.readouterr().out
    if "bullets" in EXAMPLES[number]:
        assert all(line.startswith("- ") for line in out.splitlines())
    assert len(out.split()) > 5


def test_the_page_of_the_library_has_examples():
    assert len(EXAMPLES) >= 5


def test_every_name_is_there_and_none_brings_torch():
    code = (
        "import sys, specextend_cli as library\n"
        "assert not any(name.startswith('specextend_cli.') for name in sys.modules)\n"
        "assert all(getattr(library, name) for name in library.__all__)\n"
        "assert set(library.__all__) <= set(dir(library))\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
    assert not hasattr(specextend_cli, "Nonsense")
