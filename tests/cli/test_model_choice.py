"""No model named: what is offered on a terminal, fetched with consent, and said; and what is kept of the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specextend_cli.cli.model_choice import announcement
from specextend_cli.models.choice import Choice, Machine, Speed
from specextend_cli.models.configuration import configuration_file
from specextend_cli.models.memory import estimate, graph_bytes
from specextend_cli.models.presets import load_preset
from specextend_cli.models.sources import is_present
from specextend_cli.runtime import machine
from tests.cli.shell import Terminal
from tests.helpers.grid import but_for
from tests.helpers.hub_server import StandInHub
from tests.summarize.tiny_preset import text

SHAPE = """
[target.shape]
layers = 3
hidden = 64
heads = 4
kv_heads = 2
head_dim = 16
intermediate = 96
vocab = 600
"""
PAIR = '[draft]\nkind = "ngram"\n[retrieval]'
QUESTION = b"[Y/n/never] "


class Home:
    """A user whose own preset "a-tiny", the first by rank, is on a Hub; documents are read from `document`."""

    def __init__(self, hub: StandInHub, folder: Path, files: Path) -> None:
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
        machine._store(Speed(20e9, 200e9))  # else every test would measure it

    def command(self, *arguments: object) -> tuple[object, ...]:
        return ("summarize", self.document, "--device", "cpu", *arguments)

    def ask(self, *arguments: object, **settings: Any) -> Terminal:
        return Terminal(*self.command(*arguments), env=self.environment, columns=100, **settings)


@pytest.fixture
def user(home: Path, presets: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with StandInHub() as hub:
        made = Home(hub, home, presets["one"].parent)
        hub.use(monkeypatch, home / "hf")
        yield made


def seen(terminal: Terminal) -> str:
    return " ".join(" ".join(terminal.screen()).split())


def test_consent_fetches_and_the_model_writes(user: Home, fake) -> None:
    terminal = user.ask("-v", real=True)
    terminal.until(QUESTION)
    assert "a-tiny" not in terminal.output.decode()  # the model's title is asked about, not the preset's name
    assert not user.repository.fetched
    terminal.press(b"y\n")
    assert terminal.wait() == 0
    shown = seen(terminal)
    assert "Tiny" in shown
    assert "writes summaries on this machine at about" in shown
    assert "model a-tiny, the first of the list that is on disk and fits" in shown
    assert is_present(load_preset("a-tiny"))
    before = len(user.repository.fetched)
    again = fake(*user.command("-v"))
    assert again.returncode == 0
    assert "model     a-tiny" in again.stderr
    assert len(user.repository.fetched) == before


@pytest.mark.parametrize("answer", but_for((b"n\n", b"\x04"), [b"n\n", b"perhaps\nno\n", b"\x04"]))
def test_a_refusal_quotes_and_asks_again_next_time(user: Home, answer: bytes) -> None:
    for _ in range(2 if answer == b"n\n" else 1):
        terminal = user.ask()
        terminal.until(QUESTION)
        terminal.press(answer)
        assert terminal.wait() == 0
        assert "model: smollm2-135m, which quotes" in seen(terminal)
        assert "specextend models pull a-tiny" in seen(terminal)
    assert not user.hub.requests


def test_never_is_kept_until_it_is_taken_back(user: Home, cli) -> None:
    terminal = user.ask()
    terminal.until(QUESTION)
    terminal.press(b"never\n")
    assert terminal.wait() == 0
    again = user.ask()
    assert again.wait() == 0
    assert QUESTION not in again.output
    assert "specextend models pull a-tiny" in seen(again)
    lines = again.screen()
    (first,) = (number for number, line in enumerate(lines) if line.startswith("model: "))
    assert lines[first + 1].startswith("       ")  # it went on at a word
    assert cli("models", "use", "auto").returncode == 0
    third = user.ask()
    third.until(QUESTION)
    third.press(b"n\n")
    assert third.wait() == 0
    assert not user.hub.requests


@pytest.mark.parametrize("how", ["pipe", "offline", "quiet"])
def test_nobody_is_asked_and_nothing_fetched(user: Home, fake, how: str) -> None:
    if how == "pipe":
        done = fake(*user.command())
        assert done.returncode == 0
        assert "model: smollm2-135m, which quotes and does not write" in done.stderr
        assert "specextend models pull a-tiny" in done.stderr
        assert done.stdout
    else:
        terminal = user.ask("--offline" if how == "offline" else "--quiet")
        assert terminal.wait() == 0
        assert QUESTION not in terminal.output
        assert ("this run is offline" in seen(terminal)) == (how == "offline")
    assert not user.hub.requests


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ({"gated": True}, "gated"),
        pytest.param({"wrong_bytes": True}, "error:", marks=pytest.mark.full),
        pytest.param({"broken_after": 100}, "error:", marks=pytest.mark.full),
    ],
)
def test_a_download_that_fails_is_said_and_the_document_is_quoted(user: Home, trouble: dict, said: str) -> None:
    user.repository = user.hub.publish("someone/tiny", user.repository.files, **trouble)
    terminal = user.ask()
    terminal.until(QUESTION)
    terminal.press(b"\n")
    assert terminal.wait() == 0
    assert said in seen(terminal)
    assert "model: smollm2-135m instead" in seen(terminal)
    assert not is_present(load_preset("a-tiny"))


def test_what_was_interrupted_is_never_loaded_and_goes_on(user: Home) -> None:
    user.repository = user.hub.publish("someone/tiny", user.repository.files, bytes_per_second=60_000)
    terminal = user.ask()
    terminal.until(QUESTION)
    terminal.press(b"y\n")
    terminal.until(b"downloading")
    terminal.press(b"\x03")
    assert terminal.wait() == 130
    assert not is_present(load_preset("a-tiny"))
    user.repository = user.hub.publish("someone/tiny", user.repository.files)
    terminal = user.ask()
    terminal.until(QUESTION)
    terminal.press(b"y\n")
    assert terminal.wait() == 0
    assert is_present(load_preset("a-tiny"))


def test_a_configured_model_runs_and_one_that_is_gone_is_an_error(user: Home, cli, fake) -> None:
    assert cli("models", "use", "a-tiny").returncode == 0
    assert 'model = "a-tiny"' in configuration_file().read_text()
    done = fake(*user.command("--dry-run", "--json", "--offline"))
    assert "a-tiny, as configured" not in done.stdout
    assert done.returncode == 0
    (configuration_file().parent / "presets" / "a-tiny.toml").unlink()
    gone = fake(*user.command())
    assert gone.returncode == 2
    assert "there is no preset 'a-tiny'" in gone.stderr
    assert str(configuration_file()) in gone.stderr
    assert "specextend models use auto" in gone.stderr
    assert cli("models", "use", "a-tiny").returncode == 2


@pytest.mark.parametrize("contents", ["model = 3", "modle = 'x'", "= x", "offer = 'no'"])
def test_a_broken_configuration_is_2_and_names_its_file(user: Home, cli, contents: str) -> None:
    configuration_file().write_text(contents)
    done = cli(*user.command())
    assert done.returncode == 2
    assert str(configuration_file()) in done.stderr


def test_a_document_that_cannot_be_read_does_not_stop_the_others(user: Home, cli) -> None:
    assert cli("models", "pull", "a-tiny").returncode == 0
    empty, results = user.folder / "0.txt", user.folder / "out"
    empty.write_text(" ")
    done = cli("summarize", empty, user.document, "--device", "cpu", "-o", results, "--length", 20, "--no-compile")
    assert done.returncode == 6, done.stderr
    assert [path.stem for path in results.iterdir()] == ["a.txt"]


def test_quoting_modes_need_no_writer(user: Home, cli) -> None:
    done = cli(*user.command("--mode", "extractive", "-v"))
    assert done.returncode == 0
    assert "models pull" not in done.stderr
    assert "smollm2-135m" not in done.stderr
    assert "reading   no model was needed" in done.stderr


def test_commands_show_the_same_choice(user: Home, cli) -> None:
    listed = cli("presets", "list")
    assert "›" not in listed.stdout.partition("a-tiny")[2].partition("\n")[0]  # it is not on disk
    assert "smollm2-135m, which quotes" in cli("plan", user.document).stderr
    assert "smollm2-135m, too small to be believed" in cli("plan", user.document, "--mode", "abstractive").stderr
    assert "models pull a-tiny" in cli("plan", user.document).stderr
    assert "models pull a-tiny" in cli("doctor").stdout
    assert json.loads(cli("plan", user.document, "--json").stdout)["preset"]


def test_the_disk_that_a_conversion_takes_is_said_before_it_is_fetched(home: Path) -> None:
    """A file in four bits stays beside full weights of two bytes a number; a repository is used as it is."""
    from specextend_cli.models.candidates import candidates

    found = {one.name: one for one in candidates(Machine("cpu", 64 * 10**9))}
    one = found["qwen3-1.7b"]
    assert one.disk is not None
    assert one.disk == 2 * 1_720_574_976 + 2 * 1_107_409_472
    assert found["qwen3-8b-eagle3"].disk is None
    said = announcement(Choice("smollm2-135m", "none fits", offer=one))
    assert said.endswith("specextend models pull qwen3-1.7b (1.1 GB, 5.7 GB on disk with its conversion)")
    said = announcement(Choice("smollm2-135m", "none fits", offer=found["qwen3-8b-eagle3"]))
    assert "conversion" not in said


def test_a_preset_that_is_chosen_is_not_refused_when_it_is_loaded(home: Path) -> None:
    """Both count its whole window, whatever the document."""
    from specextend_cli.models.candidates import candidates

    machine = Machine("cuda", 10**12)
    for one in candidates(machine, tokens=500):
        preset = load_preset(one.name)
        need = estimate(preset)
        assert need is not None
        assert one.need == need.total + graph_bytes(preset)
