"""No model named: the question on a terminal, what is fetched with consent, the hint after a result, configuration."""

from __future__ import annotations

import re

import pytest

from specextend_cli.models.configuration import configuration_file
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import is_present
from tests.cli.shell import Terminal
from tests.helpers.hub_server import StandInHub
from tests.summarize.tiny_preset import text

SHAPE = """
[target.shape]
weights = 132000
cached = 192
layers = 3
hidden = 64
vocab = 600
"""
QUESTION = b"Fetch it? [Y/n/never] "
HINT = "quoted; `specextend models pull a-tiny` for a summary in its own words"


class User:
    """Someone whose own preset "a-tiny", the first by rank, is on a Hub; documents are read from `document`."""

    def __init__(self, hub, folder, files):
        self.hub, self.folder = hub, folder
        self.repository = hub.publish_folder("someone/tiny", files / "target")
        self.environment = hub.environment(folder / "hf")
        self.document = folder / "a.txt"
        self.document.write_text(text(12))
        own = (files / "one.toml").read_text()
        start, end = own.index("[draft]"), own.index("[retrieval]")
        own = own[:start] + '[draft]\nkind = "ngram"\n' + own[end:]
        own = own.replace('kind = "local"\npath = "target"', 'kind = "hub"\nrepo = "someone/tiny"\n' + SHAPE)
        configuration_file().unlink()
        preset = folder / "config" / "specextend" / "presets" / "a-tiny.toml"
        preset.parent.mkdir(parents=True)
        preset.write_text("rank = 1\n" + own)

    @property
    def command(self):
        return ("summarize", self.document, "--device", "cpu")

    def ask(self, *arguments, **settings):
        return Terminal(*self.command, *arguments, env=self.environment, columns=120, **settings)

    def answer(self, keys, **settings):
        """What is to be seen after the question was answered so."""
        terminal = self.ask(**settings)
        terminal.until(QUESTION)
        terminal.press(keys)
        assert terminal.wait() == 0
        return " ".join(" ".join(terminal.screen()).split())


@pytest.fixture
def user(home, presets, monkeypatch):
    with StandInHub() as hub:
        made = User(hub, home, presets["one"].parent)
        hub.use(monkeypatch, home / "hf")
        yield made


def test_consent_fetches_and_the_model_writes(user, fake):
    """^C stops the download; what was interrupted is never loaded, and goes on."""
    user.repository = user.hub.publish("someone/tiny", user.repository.files, bytes_per_second=60_000)
    terminal = user.ask()
    terminal.until(QUESTION)
    assert not user.repository.fetched
    shown = " ".join(" ".join(terminal.screen()).split())
    assert re.search(r"A model can write the summary in its own words: Tiny, none, .* to download, ", shown)
    terminal.press(b"perhaps\ny\n")  # what is no answer is asked again
    terminal.until(b"downloading")
    terminal.press(b"\x03")
    assert terminal.wait() == 130
    assert not is_present(load_preset("a-tiny"))
    user.repository = user.hub.publish("someone/tiny", user.repository.files)
    shown = user.answer(b"\n")
    assert is_present(load_preset("a-tiny"))
    assert "models pull" not in shown
    before = len(user.repository.fetched)
    done = fake(*user.command, "-v")
    assert "model\ta-tiny, the best that is on disk and fits\n" in done.stderr
    assert len(user.repository.fetched) == before


def test_a_refusal_quotes_and_asks_again_next_time_and_never_is_kept(user, cli):
    assert user.answer(b"\x04").endswith(HINT)  # the end of the input
    assert HINT not in user.answer(b"never\n")
    again = user.ask()
    assert again.wait() == 0
    assert QUESTION not in again.output
    assert HINT not in again.screen()
    assert configuration_file().read_text() == "offer = false\n"
    assert cli("models", "use", "auto").returncode == 0
    assert configuration_file().read_text() == ""
    assert not user.hub.requests


def test_nobody_is_asked_in_a_pipe_and_errors_have_no_hint(user, fake):
    done = fake(*user.command)
    assert (done.returncode, bool(done.stdout)) == (0, True)
    assert done.stderr.endswith(f"\n{HINT}\n")
    for more in ("--quiet", "--dry-run", "--mode=extractive"):
        assert "models pull" not in fake(*user.command, more).stderr
    wrote = fake(*user.command, "--mode", "abstractive").stderr.splitlines()[-1]
    assert wrote == HINT.replace("quoted", "written by smollm2-135m")
    for wrong in (("summarize", "absent.txt"), ("summarize", user.document, "--length", "many")):
        done = fake(*wrong)
        assert done.stderr.startswith("error: ")
        assert "models pull" not in done.stderr
    assert not user.hub.requests


def test_nobody_is_asked_offline(user):
    terminal = user.ask("--offline")
    assert terminal.wait() == 0
    assert QUESTION not in terminal.output


def test_a_download_that_fails_is_said_and_the_document_is_quoted(user):
    user.repository = user.hub.publish("someone/tiny", user.repository.files, gated=True)
    shown = user.answer(b"y\n")
    assert "error: " in shown
    assert "gated" in shown
    assert "the run goes on without it" in shown
    assert not is_present(load_preset("a-tiny"))


def test_a_configured_model_that_is_gone_is_an_error(user, cli, fake):
    assert cli("models", "use", "a-tiny").returncode == 0
    assert fake(*user.command, "--dry-run", "--offline").stderr.endswith("mode abstractive, model a-tiny\n")
    (configuration_file().parent / "presets" / "a-tiny.toml").unlink()
    gone = fake(*user.command)
    assert gone.returncode == 2
    assert "there is no preset 'a-tiny'" in gone.stderr
    assert str(configuration_file()) in gone.stderr
    assert "try:   specextend models use auto" in gone.stderr


def test_a_broken_configuration_is_2_and_names_its_file(document, cli):
    for contents in ("model = 3", "modle = 'x'", "= x", "offer = 'no'"):
        configuration_file().write_text(contents)
        done = cli("summarize", document)
        assert done.returncode == 2
        assert str(configuration_file()) in done.stderr


def test_an_empty_document_does_not_stop_the_others(user, fake):
    user.document.with_name("0.txt").write_text(" ")
    done = fake("summarize", user.document.with_name("0.txt"), user.document, "-o", user.folder / "out")
    assert done.returncode == 6, done.stderr
    assert [path.name for path in (user.folder / "out").iterdir()] == ["a.txt"]
