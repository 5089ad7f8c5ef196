"""`from specextend_cli import …`: light to import, and its documentation runs as it stands."""

from __future__ import annotations

import subprocess
import sys

import pytest

import specextend_cli
from tests import ROOT
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


def test_every_name_is_there_and_quoting_brings_no_library_of_models(tmp_path):
    (tmp_path / "a.txt").write_text(text(40))
    code = (
        "import sys, specextend_cli as library\n"
        "assert not any(name.startswith('specextend_cli.') for name in sys.modules)\n"
        "assert all(getattr(library, name) for name in library.__all__)\n"
        "assert set(library.__all__) <= set(dir(library))\n"
        "with library.Summarizer() as made:\n"
        f"    one, other = (made.summarize({str(tmp_path / 'a.txt')!r}) for _ in range(2))\n"
        "assert one.method == 'extractive' and one.text == other.text\n"
        "assert not {'torch', 'transformers', 'lightgbm', 'sklearn'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=ROOT)
    assert not hasattr(specextend_cli, "Nonsense")
    assert len(EXAMPLES) >= 5
