"""The user's configuration: read with one's own errors, changed key by key, and never made invalid."""

from __future__ import annotations

from pathlib import Path

import pytest

from specextend_cli.models.choice import Machine, candidates, ollama_models
from specextend_cli.models.configuration import Configuration, configuration_file, configure, read_configuration


@pytest.fixture(autouse=True)
def file(home: Path) -> Path:
    configuration_file().parent.mkdir(parents=True)
    return configuration_file()


def test_keys_are_set_and_removed_and_other_lines_stay(file: Path) -> None:
    assert read_configuration() == Configuration()
    configure("model", "qwen3-1.7b")
    file.write_text(f"# mine\n{file.read_text()}")
    configure("offer", False)
    configure("model", 'a "b"')
    assert read_configuration() == Configuration(model='a "b"', offer=False)
    configure("model", None)
    assert read_configuration() == Configuration(offer=False)
    assert "# mine" in file.read_text()


LINES = [('"model" = "old"', "old"), ("'model' = 'old'", "old"), ("  model= 'old'", "old"), ('model = ""', None)]


@pytest.mark.parametrize(("line", "model"), [*LINES, ('model = "auto"', None)])
def test_however_a_key_is_written(file: Path, line: str, model: str | None) -> None:
    file.write_text(f"\ufeff{line}\n", encoding="utf-8")
    assert read_configuration().model == model
    configure("model", "new")
    assert read_configuration().model == "new"


def test_what_takes_several_lines_is_one_value(file: Path) -> None:
    file.write_text('gguf = [  # mine\n"a"]\nmodel = """\nold"""  # why')
    configure("model", "new")
    configure("offer", False)
    assert file.read_text() == 'gguf = [  # mine\n"a"]\nmodel = "new"  # why\noffer = false\n'


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").write_text("")
    file.symlink_to(tmp_path / "dotfiles")
    configure("model", "new")
    assert file.is_symlink()
    assert "new" in (tmp_path / "dotfiles").read_text()


@pytest.mark.parametrize("path", ["/x\x00y.gguf", "~nobody-here/x.gguf", "/absent.gguf"])
def test_files_that_cannot_be_read_are_passed_over(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", "~nobody-here/models")
    found = candidates(Machine("cpu", 64 * 10**9), gguf=[path])
    assert found
    assert all(one.name != path for one in found)
    assert not list(ollama_models({(1,)}))
