"""Models that load in a thread while a document is read: where a GPU writes, and nowhere else."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specextend_cli.cli import inputs
from specextend_cli.cli.main import run
from specextend_cli.errors import Exit
from specextend_cli.runtime import devices, loading_thread
from specextend_cli.summarize import summarizer
from specextend_cli.summarize.events import Stage
from specextend_cli.summarize.summarizer import Summarizer
from tests.cli.shell import LIMIT, environment
from tests.helpers.asked import asked
from tests.helpers.graphs_on_pretend_device import by_graphs
from tests.helpers.pretend_device import PretendDevice
from tests.summarize.scribe import document
from tests.summarize.tiny_preset import text

LONG = text(20)
MAIN = threading.main_thread()


class Loads(list[threading.Thread]):
    """The threads in which models were loaded, in order; `is_done` when one has loaded them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_done = threading.Event()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loads]:
    made, load = Loads(), Summarizer._load

    def recorded(self: Summarizer) -> Iterator[Stage]:
        made.append(threading.current_thread())
        generator = yield from load(self)
        made.is_done.set()
        return generator

    monkeypatch.setattr(Summarizer, "_load", recorded)
    yield made
    for thread in set(made) - {MAIN}:
        thread.join(LIMIT)


def made_by(preset: Path, device: str, **options: object) -> Summarizer:
    return asked(model=preset, device=device, dtype="float32", cache=False, **options)


@pytest.mark.full
@pytest.mark.parametrize(("batch", "ahead"), [(4, False), (1, False), (4, True)])
def test_nothing_is_captured_after_loading(
    presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, loads: Loads, batch: int, ahead: bool
) -> None:
    """In batches and one text at a time, with drafts and plainly, for texts of other lengths, in whichever thread."""
    capture = by_graphs(monkeypatch)
    with made_by(presets["one"], "cuda", batch=batch) as made:
        if ahead:
            made.load_ahead()
        loading_thread.result_of(made.load())
        assert (made._generator.draft_gate.shape.nodes, made._generator.draft_gate.shape.width) == (60, 10)
        at_load = capture.captures
        for sentences in (20, 6, 12):
            with made_by(presets["one"], "cpu", batch=batch) as on_host:
                expected = on_host.summarize(document(text(sentences)))
            for made.plain in (False, True):
                capture.replays = 0
                written = made.summarize(document(text(sentences)))
                assert (written.chunk_summaries, written.text) == (expected.chunk_summaries, expected.text)
                assert capture.replays > 20
        assert capture.captures == at_load > 0
        assert (loads[0] is MAIN) is not ahead


def test_loading_begins_while_the_document_is_read(
    presets, tmp_path: Path, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, capsys, loads
) -> None:
    """The first of several, read in a thread: its text is not there before the models are loaded."""
    read, threads = inputs.Source.read, []

    def reading(self: inputs.Source, *arguments: Any) -> object:
        threads.append(threading.current_thread())
        assert loads.is_done.wait(LIMIT)
        return read(self, *arguments)

    monkeypatch.setattr(inputs.Source, "read", reading)
    files = [tmp_path / name for name in ("a.txt", "b.txt")]
    for file in files:
        file.write_text(LONG)
    command = ["summarize", *map(str, files), "-m", str(presets["one"]), "--device", "cuda"]
    assert run([*command, "--mode", "abstractive", "--no-cache"]) == 0
    assert [thread is MAIN for thread in threads] == [False, True]
    assert (len(loads), loads[0] in (MAIN, threads[0])) == (1, False)
    assert "loading Tiny" in capsys.readouterr().err


def test_an_error_is_that_of_loading_later(
    presets, tmp_path: Path, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, capsys, loads
) -> None:
    def full(self: torch.nn.Module, *args: object, **kwargs: object) -> torch.nn.Module:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.nn.Module, "to", full)
    file, said = tmp_path / "a.txt", []
    file.write_text(LONG)
    for begins in (True, False):
        monkeypatch.setattr(summarizer, "may_be_cuda", lambda device, begins=begins: begins)
        command = ["summarize", str(file), "-m", str(presets["one"]), "--device", "cuda", "--mode", "abstractive"]
        assert run(command) == Exit.FIT
        said.append(capsys.readouterr())
    assert [thread is MAIN for thread in loads] == [False, True]
    assert said[0] == said[1]
    assert "does not fit into memory" in said[0].err


@pytest.mark.parametrize(
    ("nvidia", "device", "mode", "begun"),
    [
        ("/dev/null", "cpu", "abstractive", False),
        ("/dev/null", "auto", "extractive", False),
        ("/dev/null", "auto", "abstractive", True),  # a GPU that torch cannot use
        ("/none", "auto", "abstractive", False),
    ],
)
def test_where_no_gpu_writes_models_load_as_they_did(
    presets, monkeypatch: pytest.MonkeyPatch, loads: Loads, nvidia: str, device: str, mode: str, begun
) -> None:
    monkeypatch.setattr(devices, "_NVIDIA", Path(nvidia))
    with made_by(presets["one"], device, mode=mode) as made:
        made.load_ahead()
        assert (made._loading is not None) == begun
        assert begun or not loading_thread.is_busy()
        made.summarize(document(LONG))
        assert loads == [MAIN] * (mode == "abstractive")


def test_whoever_takes_the_models_gets_all_threads_and_their_gpu(presets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are a thread's own: Triton's kernels run on its current GPU, and others may have loaded meanwhile."""
    fitted: list[threading.Thread] = []
    current: list[torch.device] = []

    def load(self: Summarizer) -> Iterator[Stage]:
        yield Stage("loads")
        lm = SimpleNamespace(device=torch.device(self.engine.device))
        return SimpleNamespace(thread=threading.current_thread(), target=SimpleNamespace(lm=lm))

    monkeypatch.setattr(Summarizer, "_load", load)
    monkeypatch.setattr(summarizer, "may_be_cuda", lambda device: True)
    monkeypatch.setattr(summarizer, "device_of", torch.device)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    monkeypatch.setattr(summarizer, "fit_threads", lambda: fitted.append(threading.current_thread()))
    first, second = (made_by(presets["one"], device) for device in ("cuda:0", "cuda:1"))
    second.load_ahead()
    stages: list[str] = []
    loaded = loading_thread.result_of(second.load(), lambda stage: stages.append(stage.name))
    assert (stages, loaded.thread is MAIN, fitted) == (["loading Tiny", "loads"], False, [MAIN])
    for made in (first, second, first):
        loading_thread.result_of(made.load())
    assert [device.index for device in current] == [1, 0, 1, 0]


@pytest.mark.parametrize("stored", [False, True])
def test_a_document_that_needs_no_model_does_not_wait(
    presets, pretend: PretendDevice, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    """One that is printed as it is, and one whose texts are there."""
    ends, options = threading.Event(), {"model": presets["one"], "device": "cuda", "dtype": "float32"}
    source = document(LONG if stored else "A few words.")
    with asked(**options) as made:
        expected = made.summarize(source).text

    def hang(*_: object, **__: object) -> Iterator[Stage]:
        assert ends.wait(LIMIT)
        yield Stage("too late")

    monkeypatch.setattr(Summarizer, "_load", hang)
    with asked(**options) as made:
        made.load_ahead()
        written = made.summarize(source)
        assert (written.text, written.method) == (expected, "abstractive" if stored else "verbatim")
        assert loading_thread.is_busy()
    ends.set()


# ---------------------------------------------------------------------------------------------- the end of a process

HANGING = """
import atexit, sys, threading
from pathlib import Path
from types import SimpleNamespace
from specextend_cli.cli.main import main
from specextend_cli.runtime import devices
from specextend_cli.summarize import summarizer

def hang(*_, **__):
    print("hangs", file=sys.stderr, flush=True)
    threading.Event().wait()
    yield

devices._NVIDIA = Path("/dev/null")
summarizer.import_transformers = lambda: None
summarizer.device_of = lambda name: SimpleNamespace(type="cuda")
summarizer.Summarizer._load = hang
atexit.register(print, "Python is shut down", file=sys.stderr)
main()
"""
"""The command line on what seems to have a GPU, where loading never ends."""


@pytest.fixture
def hanging(presets) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    begun: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        words = ["summarize", *arguments, "-m", presets["one"], "--mode", "abstractive"]
        command, pipe = [sys.executable, "-c", HANGING, *map(str, words)], subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(real=True))
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        begun.append((process, timer))
        return process

    yield start
    for process, timer in begun:
        timer.cancel()
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("document", "moment", "code", "words"),
    [
        ("%PDF-1.7\nnothing that could be read\n", "", Exit.INPUT, "is a damaged PDF"),
        ("", "hangs", Exit.SIGINT, "stopped; nothing was saved"),  # the document is still read
        (LONG, "loading Tiny", Exit.SIGINT, "stopped; nothing was saved"),
    ],
)
def test_a_run_ends_at_once_while_models_load(hanging, document: str, moment: str, code: Exit, words: str) -> None:
    """By a document that cannot be read, and by ^C at that moment."""
    process = hanging("-")
    if document:
        process.stdin.write(document)
        process.stdin.close()
        process.stdin = None
    if moment:
        while moment not in (line := process.stderr.readline()):
            assert line
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == code
    assert words in said
    assert "shut down" not in said
