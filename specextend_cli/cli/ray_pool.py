"""`--ray`: one command's inputs over the workers of a Ray cluster.

The command reads the files and writes the results; workers need neither. Ray replaces a worker that dies and begins its
document again, which finds the chunk summaries that were saved on the same machine.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from specextend_cli.cli.inputs import Reading, Source
from specextend_cli.errors import ModelError, SpecextendError, UsageError
from specextend_cli.humanize import format_many
from specextend_cli.summarize.events import Event, Warned

if TYPE_CHECKING:
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.output import Output

LOCAL = "local"
TRIES = 3  # workers that may die over one document
CORES = 4  # default cores of a worker without a GPU
CONNECT_TIMEOUT = 10.0  # seconds
WORKER_TIMEOUT = 30.0  # seconds without any result before a note says that there may be no worker
Result: TypeAlias = list[Event] | SpecextendError
"""A document's events, but for the engine's, which only a live panel shows; or why there are none."""


class Worker:
    """Summarizes documents. Models are loaded with the first document and stay loaded."""

    def __init__(self, options: Options) -> None:
        from specextend_cli.cli.options import go_offline
        from specextend_cli.summarize.summarizer import Summarizer

        go_offline(options.offline)
        self._summarizer = Summarizer(options)

    def work(self, name: str, data: bytes, reading: Reading) -> Result:
        """Read and summarize one document, given as the bytes of its file."""
        from specextend_cli.documents.read import read_bytes

        try:
            document = read_bytes(name, data, **reading.settings())
            events: list[Event] = list(map(Warned, document.extraction.warnings))
            run = self._summarizer.run(document)
            return events + [event for event in run if type(event).__module__ == Warned.__module__]
        except SpecextendError as error:
            return error.with_traceback(None)


class PoolSize(NamedTuple):
    """The number of workers, and the cores and GPUs of each."""

    workers: int
    cores: int
    gpus: int

    def __str__(self) -> str:
        each = "a GPU" if self.gpus else format_many(self.cores, "core")
        return f"{format_many(self.workers, 'worker')}, each with {each}"


def pool_size(nodes: Sequence[dict[str, float]], wanted: int | None, documents: int) -> PoolSize:
    """One worker per GPU, or per four cores without GPUs, or `wanted` workers; never more than documents.

    `nodes` are the resources of each machine: `{"CPU": 8.0, "GPU": 1.0}`. UsageError: that many workers do not fit.
    """
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    cores = [int(node.get("CPU", 0)) for node in nodes]
    most = gpus or sum(cores)
    if (wanted or 1) > most:
        unit = "GPU" if gpus else "CPU core"
        fix = f"--workers {most}" if most else "start Ray on a machine with --num-cpus"
        raise UsageError(f"--workers {wanted or 1} do not fit", why=f"the cluster has {most} {unit}s", fix=fix)
    if gpus:
        return PoolSize(min(wanted or gpus, documents), 1, 1)
    size = min(CORES, max(cores))
    if wanted is not None:  # as many cores each as leave room for all of them
        sizes = range(1, max(cores) + 1)
        size = max(size for size in sizes if sum(count // size for count in cores) >= wanted)
    return PoolSize(min(wanted or sum(count // size for count in cores), documents), size, 0)


def results(
    address: str, inputs: Sequence[Source], output: Output, summarizer: Summarizer, workers: int | None
) -> Iterator[tuple[Source, Result]]:
    """Every input with its result in the order in which they are done, computed over the cluster at `address`."""
    if not inputs:
        return
    options, done = summarizer.options, 0
    if options.preset.endswith((".toml", ".gguf")):  # workers, too, can open its absolute path
        options = replace(options, preset=str(Path(options.preset).expanduser().absolute()))
    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        size = pool_size(nodes, workers, len(inputs))
        output.status(str(size))
        try:
            for result in distribute(ray, inputs, output, size, options):
                yield result
                done += 1
        except KeyboardInterrupt:
            saved = "; chunk summaries are saved: run again to continue" if summarizer.saves else ""
            output.note(f"{done} of {len(inputs)} documents done{saved}")
            raise


def distribute(
    ray: Any, inputs: Sequence[Source], output: Output, size: PoolSize, options: Options
) -> Iterator[tuple[Source, Result]]:
    """Give each free worker a document, and yield what comes back. ModelError: no worker can be started."""
    actor = ray.remote(Worker).options(
        num_cpus=size.cores, num_gpus=size.gpus, max_restarts=-1, max_task_retries=TRIES - 1
    )
    idle = [actor.remote(options) for _ in range(size.workers)]
    waiting, busy, is_running = deque(inputs), dict[Any, tuple[Any, Source]](), False
    while waiting or busy:
        while waiting and idle:
            source = waiting.popleft()
            try:
                data = source.data()
            except SpecextendError as error:
                yield source, error
                continue
            worker = idle.pop()
            busy[worker.work.remote(source.name, data, source.reading)] = worker, source
        ready, _ = ray.wait(list(busy), num_returns=1, timeout=WORKER_TIMEOUT) if busy else ((), ())
        if busy and not ready and not is_running:
            output.note("waiting for a worker: the cluster may have no room for one")
        for reference in ready:
            worker, source = busy.pop(reference)
            try:
                result: Result = ray.get(reference)
                is_running = True
            except ray.exceptions.RayTaskError as error:
                result = SpecextendError("something unexpected went wrong", why=_last_line(error))
            except ray.exceptions.RayError as error:
                if not is_running:
                    fix = "install specextend on every node alike"
                    raise ModelError("no worker can be started", why=_last_line(error), fix=fix) from error
                result = SpecextendError(f"{TRIES} workers died over it", why=_last_line(error))
                worker = actor.remote(options)
            idle.append(worker)
            yield source, result


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The ray module, connected to the cluster at `address`, or to one that ends with the body. UsageError: neither."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
    try:
        import ray
    except ImportError as error:
        fix = f"{sys.executable} -m pip install 'specextend-cli[ray]'"
        raise UsageError("Ray is not installed", why=str(error), fix=fix) from error
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        _reach(address)
        dashboard = False if address == LOCAL else None
        ray.init(address=address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)
    except (ValueError, RuntimeError, OSError) as error:
        fix = "--ray local starts one here; ray start --head starts one for several machines"
        raise UsageError(f"there is no Ray cluster at {address}", why=_last_line(error), fix=fix) from error
    finally:
        signal.signal(signal.SIGTERM, terminate)  # Ray puts its own in place
    try:
        yield ray
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """OSError where nobody listens at `host:port`: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT).close()


def _last_line(error: BaseException) -> str:
    """The last line with text: Ray's messages are whole tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
