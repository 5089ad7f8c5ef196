"""Run the command line as a shell does: with pipes, or on a terminal of a given size."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import weakref
from typing import Any

import pyte

from tests import ROOT

REAL = [sys.executable, "-c", "from specextend_cli.cli.main import main; main()"]
"""The command line as it is installed."""
FAKE = [sys.executable, "-c", "import gc; gc.disable(); from tests.cli.run_fake import run_main; run_main()"]
"""The same with an invented summarizer; its settings as JSON come first. Garbage is a tenth of so short a process."""
SHOW, HIDE = b"\x1b[?25h", b"\x1b[?25l"
FRAME_END = "╯\x1b[0m".encode()
LIMIT = 60  # seconds; only a hang ever takes that long


def command(*arguments: object, real: bool = False, **settings: Any) -> list[str]:
    """The argument vector of one run, with the invented summarizer unless it is to be the `real` one."""
    if real:
        return [*REAL, *map(str, arguments)]
    return [*FAKE, json.dumps(settings), *map(str, arguments)]


def environment(*, real: bool = False, **changes: str) -> dict[str, str]:
    """This process's environment without what would change colours, terminals or presets, and where `FAKE` is found.

    Warnings are errors, but for `real` runs: those load libraries whose warnings are not ours.
    """
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "HF_HUB_OFFLINE")
    kept = {k: v for k, v in os.environ.items() if k not in unwanted and not k.startswith("SPECEXTEND_")}
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**kept, "TERM": "xterm-256color", "PYTHONWARNINGS": "" if real else "error", **changes}


def bash(script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script; `$SPECEXTEND` is the command with the invented summarizer."""
    quoted = " ".join(f"'{part}'" for part in command())
    return subprocess.run(
        ["bash", "-c", script.replace("$SPECEXTEND", quoted)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        check=False,
    )


class Terminal:
    """A process on a pseudo-terminal of its own; streams named in `redirect` go elsewhere.

    It ends with this object: one that a failed test left would be warned of in another test.
    """

    def __init__(
        self,
        *arguments: object,
        columns: int = 80,
        rows: int = 30,
        redirect=None,
        env=None,
        real: bool = False,
        **settings: Any,
    ):
        self.columns, self.rows = columns, rows
        master, slave = pty.openpty()
        self.master = os.fdopen(master, "r+b", buffering=0)
        self.output = b""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        streams = {"stdin": slave, "stdout": slave, "stderr": slave, **(redirect or {})}
        self.process = subprocess.Popen(
            command(*arguments, real=real, **settings),
            **streams,
            env=environment(real=real, **(env or {})),
            preexec_fn=lambda: _own_terminal(slave),
        )
        os.close(slave)
        weakref.finalize(self, _end, self.process, self.master)

    def until(self, text: bytes) -> None:
        """Read until `text` was written."""
        while text not in self.output:
            assert self._read(), f"{text!r} never came: {self.output[-300:]!r}"

    def until_drawn(self, text: bytes) -> None:
        """Read until `text` was written, and the panel is whole."""
        self.until(text)
        while not self.output.endswith(FRAME_END):
            assert self._read(), f"no panel: {self.output[-300:]!r}"

    def press(self, keys: bytes) -> None:
        """Type."""
        self.master.write(keys)

    def wait(self) -> int:
        """Read to the end; the exit code."""
        while self._read():
            pass
        code = self.process.wait(LIMIT)
        self.master.close()
        return code

    def screen(self) -> list[str]:
        """What is to be seen, empty lines left out."""
        screen = pyte.HistoryScreen(self.columns, self.rows, history=1000)
        pyte.ByteStream(screen).feed(self.output)
        above = ["".join(line[x].data for x in range(self.columns)) for line in screen.history.top]
        return [line.rstrip() for line in (*above, *screen.display) if line.strip()]

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], LIMIT)
        assert ready, f"nothing was written for {LIMIT} s: {self.output[-300:]!r}"
        try:
            data = self.master.read(65536)
        except OSError:  # on Linux, the other end's last descriptor was closed
            return False
        self.output += data
        return bool(data)


def _end(process: subprocess.Popen[bytes], master: io.FileIO) -> None:
    master.close()
    with process:  # closes its pipes and waits for it
        process.kill()


def _own_terminal(slave: int) -> None:
    """In the child: a session whose controlling terminal is the new one, so that ^C reaches it."""
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
