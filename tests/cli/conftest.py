"""Caches of the test's own, tiny presets, and the helpers of the tests of the views and of the pipeline."""

import io
import sys
from types import SimpleNamespace

import pytest

from specextend_cli.cli.main import run
from tests.cli import run_fake
from tests.summarize import tiny_preset


@pytest.fixture(scope="session")
def presets(tmp_path_factory):
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them cost a tiny model more than they give
    yield tiny_preset.make(tmp_path_factory.mktemp("presets"))
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """No test sees or touches the user's caches, configuration or environment; subprocesses inherit it."""
    folder = tmp_path_factory.mktemp("home")
    for kind in ("cache", "config"):
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(folder / kind))
    # Else a run on a terminal compiles, measures the machine and asks; those tests are in test_model_choice.
    configuration = folder / "config" / "specextend" / "config.toml"
    configuration.parent.mkdir(parents=True)
    configuration.write_text('model = "smollm2-135m"\n')
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("HF_HUB_OFFLINE", "SPECEXTEND_MODEL", "SPECEXTEND_PDF_PASSWORD"):
        monkeypatch.setenv(name, "")  # so that it is restored, whatever the command sets
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def cli(capsys):
    """The command line in this process: the same exit code and output, without starting Python."""

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return call


@pytest.fixture
def fake(cli, monkeypatch):
    """The same with the invented summarizer and its settings, and with a pipe as stdin."""

    def call(*arguments, stdin="", **settings):
        if arguments[0] == "compare":
            monkeypatch.setattr("specextend_cli.bench.comparison.Summarizer", run_fake.Summarizer)
        monkeypatch.setitem(sys.modules, run_fake.MODULE, run_fake.module(**settings))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        return cli(*arguments)

    return call
