"""Summarize a document in children that are killed; prints what each of them did.

    python -m tests.summarize.killed PRESET DOCUMENT SEED KILLS

One process imports everything and forks, so that a child begins at once. Notes are written in batches, as on a machine
that reads slowly, which does not read a whole batch before it writes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import transformers.models.llama.modeling_llama  # noqa: F401  what children would all import

from specextend_cli.documents.read import read
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize import writer
from specextend_cli.summarize.events import ChunkSummarized, Plan, Summarized
from specextend_cli.summarize.summarizer import Summarizer


def summarize(preset: str, path: str, report: int, *, cache: bool = True) -> None:
    """In a child: a line when the first text is begun, one a note, then one with the summary."""
    torch.set_num_threads(1)
    writer._PATIENCE = 0.0
    with Summarizer(Engine(model=preset), batch=16, cache=cache) as summarizer:
        for event in summarizer.run(read(Path(path))):
            if isinstance(event, Plan):
                os.write(report, b"[]\n")
            elif isinstance(event, ChunkSummarized):
                os.write(report, f"{json.dumps([event.level, event.number, event.reused])}\n".encode())
            elif isinstance(event, Summarized):
                os.write(report, f"{json.dumps(event.summary.text)}\n".encode())


def child(preset: str, path: str, *, seconds: float | None = None, cache: bool = True) -> tuple[list[object], float]:
    """What a child reported, and how long it wrote; it is killed so many seconds after it had begun."""
    reader, pipe_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        try:
            summarize(preset, path, pipe_end, cache=cache)
        finally:
            os._exit(0)
    os.close(pipe_end)
    with os.fdopen(reader) as file:
        lines = [file.readline()]
        began = time.monotonic()
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)  # it may have ended, but is not waited for yet: the number is its own
        lines += file.readlines()
    took = time.monotonic() - began
    os.waitpid(pid, 0)
    return [json.loads(line) for line in lines[1:] if line.endswith("\n")], took


def main(preset: str, path: str, seed: str, kills: str) -> None:
    """Undisturbed, then killed at so many random moments, then to the end."""
    chance, count = random.Random(int(seed)), int(kills)
    whole, took = child(preset, path, cache=False)
    killed = [child(preset, path, seconds=chance.uniform(0, 2 * took / count))[0] for _ in range(count)]
    last, _ = child(preset, path)
    print(json.dumps({"whole": whole, "killed": killed, "last": last}))


if __name__ == "__main__":
    main(*sys.argv[1:5])
