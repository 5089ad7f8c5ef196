"""^C and SIGTERM: what is said, what is saved, what becomes of the terminal, and when a second one comes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from specextend_cli.cli import main, signals
from specextend_cli.summarize.cache import GenerationCache
from tests import ROOT
from tests.cli.shell import HIDE, LIMIT, SHOW, Terminal, environment
from tests.summarize.tiny_preset import text

REPORT = ROOT / "docs" / "samples" / "flood-warning.pdf"
AT = """
import gc, signal, sys
from specextend_cli.__main__ import main

class Destroyed:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Finder:
    def find_spec(self, name, *rest):
        if name == {name!r}:
            {action}

sys.meta_path.insert(0, Finder())
main()
"""
"""The command line, in which something happens when the module of that name is imported."""
HANGING = """
import sys, time
from specextend_cli.cli import options
from specextend_cli.cli.main import main
from specextend_cli.documents import sandbox

length = options.length

def wait(text):
    while not sandbox._running:
        time.sleep(0.01)
    print(next(iter(sandbox._running)).pid, flush=True)
    return length(text)

options.length = wait
from specextend_cli.documents import read
read.WORKER = "tests.documents.faulty_workers:slow_pdf"
main()
"""
"""The command line, whose first check waits for a parser that hangs, and prints its number."""


def ended(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(real=True),
        timeout=60,
        check=False,
    )


@pytest.fixture
def handled():
    """Signals as the program handles them, in this process."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before, hook = [signal.getsignal(number) for number in numbers], sys.unraisablehook
    signals.handle()
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    sys.unraisablehook = hook


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("typer", "raise KeyboardInterrupt"),  # before signals are handled
        ("specextend_cli.summarize.request", "signal.raise_signal(signal.SIGINT)"),
        ("specextend_cli.summarize.request", "Destroyed()"),  # a destructor cannot raise it
    ],
)
def test_ctrl_c_during_imports_ends_the_command_without_a_word(document, name, action):
    done = ended(AT.format(name=name, action=action), "summarize", document, "--mode", "extractive")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.usefixtures("handled")
def test_what_is_raised_where_nothing_can_raise_comes_again(monkeypatch):
    """The first ^C, and SIGTERM; what else a destructor raises is Python's to print."""

    class Destroyed:
        def __init__(self, error):
            self.error = error

        def __del__(self):
            raise self.error

    printed = []
    monkeypatch.setattr("sys.__unraisablehook__", printed.append)
    for error in (KeyboardInterrupt, signals.Terminated):
        Destroyed(error(0))
        with pytest.raises(error):
            signal.sigtimedwait([signal.SIGUSR1], 5)
    Destroyed(ValueError())
    assert [one.exc_type for one in printed] == [ValueError]


@pytest.mark.usefixtures("handled")
def test_what_a_module_makes_of_ctrl_c_is_no_defect(monkeypatch):
    def imported(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("cannot load module more than once per process") from None

    monkeypatch.setattr(main.typer.main, "get_command", imported)
    with pytest.raises(KeyboardInterrupt):
        main.run(["doctor"])


@pytest.mark.parametrize(("length", "code"), [("nonsense", 2), ("100", 130)])
def test_a_process_that_parses_ends_with_the_command(length, code):
    """By an error before the document is asked for, and by ^C while it is read."""
    words = [sys.executable, "-c", HANGING, "summarize", str(REPORT), "--mode", "extractive", "--length", length]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": environment(real=True)}
    with subprocess.Popen(words, **pipes) as process:
        parser = psutil.Process(int(process.stdout.readline()))
        if code == 130:
            process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == code, said
    assert code == 2 or said in ("", "stopped; nothing was saved\n")  # begun, or waited for
    with suppress(psutil.NoSuchProcess):
        until = time.monotonic() + LIMIT / 4  # it sleeps for longer
        while parser.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("more", "code", "last"),
    [((), 130, "2/3 chunks saved; run again to continue"), (("--no-cache",), 143, "stopped; nothing was saved")],
)
def test_of_the_panel_nothing_is_left(document, more, code, last):
    """By ^C, nor of what the terminal shows of it, and by SIGTERM."""
    terminal = Terminal("summarize", document, *more, hang=30, delay=0.005)
    terminal.until_drawn(b"2/3")
    if code == 130:
        terminal.press(b"\x03")
    else:
        terminal.process.send_signal(signal.SIGTERM)
    assert (terminal.wait(), terminal.screen()) == (code, [last])
    assert terminal.output.rfind(SHOW) > terminal.output.rfind(HIDE) >= 0


def test_the_second_ctrl_c_is_immediate():
    code = (
        "import time\n"
        "from specextend_cli.cli import signals\n"
        "signals.handle()\n"
        "try:\n"
        "    print('ready', flush=True); time.sleep(30)\n"
        "except KeyboardInterrupt:\n"
        "    print('stopping', flush=True); time.sleep(30)\n"
    )
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        for line in ("ready\n", "stopping\n"):
            assert process.stdout.readline() == line
            process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def test_a_run_goes_on_where_it_was_interrupted(presets, document, cli, monkeypatch):
    """The real pipeline: ^C comes when the third chunk summary has been saved, and is not counted yet."""
    document.write_text(text(50))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    put, saved = GenerationCache.put, []

    def interrupted(self, *arguments):
        put(self, *arguments)
        saved.append(arguments)
        if len(saved) == 3:
            signal.raise_signal(signal.SIGINT)
        return ""

    monkeypatch.setattr(GenerationCache, "put", interrupted)
    words = ("summarize", document, "-m", presets["one"], "--batch", 1)
    done = cli(*words)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("\n2/7 chunks saved; run again to continue\n")
    done = cli(*words)
    assert done.returncode == 0
    assert "7 chunk summaries, 3 of them reused\n" in done.stderr
    assert len(saved) == 7 + 1  # with the summary
