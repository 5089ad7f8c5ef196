"""`--ray`: one command's inputs over the workers of a Ray cluster.

The command reads the files and writes the results; workers need neither. A worker that dies is replaced and its
document restarted. Finished chunk summaries are cached on the machine of the command, so they are not lost.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from specextend_cli.cli.ray_worker import Result, Task, Worker
from specextend_cli.cli.source import Source
from specextend_cli.errors import ModelError, PartialError, SpecextendError, UsageError
from specextend_cli.humanize import format_many
from specextend_cli.summarize.result_store import GenerationCache

if TYPE_CHECKING:
    from specextend_cli.summarize.summarizer import Options, Summarizer
    from specextend_cli.ui.destination import Destination
    from specextend_cli.ui.output import Output

LOCAL = "local"
TRIES = 3  # workers that may die over one document, or fail to start in a row
CORES = 4  # default cores of a worker without a GPU
CONNECT_TIMEOUT = 10.0  # seconds
WORKER_TIMEOUT = 30.0  # seconds without any worker before a note says so


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
    if (wanted is not None and wanted > most) or not most:
        unit = "GPU" if gpus else "CPU core"
        fix = f"--workers {most}" if most else "start Ray on a machine with --num-cpus"
        raise UsageError(f"--workers {wanted or 1} do not fit", why=f"the cluster has {most} {unit}s", fix=fix)
    if gpus:
        return PoolSize(min(wanted or gpus, documents), 1, 1)

    def fitting(cores_each: int) -> int:
        return sum(count // cores_each for count in cores)

    size = min(CORES, max(cores))
    if wanted is not None:
        size = max(size for size in range(1, max(cores) + 1) if fitting(size) >= wanted)
    return PoolSize(min(wanted or fitting(size), documents), size, 0)


@dataclass
class WorkerPool:
    """One run: inputs waiting, workers starting, idle or busy. `ray` is the module, connected to a cluster."""

    ray: Any
    output: Output
    destination: Destination
    options: Options
    size: PoolSize
    waiting: deque[Source]
    cache: Any
    failures: list[tuple[Source, SpecextendError]] = field(default_factory=list)
    finished: int = 0

    def __post_init__(self) -> None:
        self.total = len(self.waiting)
        self._starting: dict[Any, Any] = {}
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Source]] = {}
        self._failed_starts = 0
        self._died: Counter[Source] = Counter()  # workers over a document

    def run(self) -> None:
        """Summarize every input and collect `failures`. Raises the errors that concern every document."""
        for _ in range(self.size.workers):
            self._start()
        while self.waiting or self._busy:
            while self.waiting and self._idle:
                self._submit()
            if not self.waiting and not self._busy:
                break
            pending = [*self._busy, *self._starting]
            ready, _ = self.ray.wait(pending, num_returns=1, timeout=WORKER_TIMEOUT)
            if not ready and not self._busy and not self._idle:
                self.output.note("waiting for a worker: the cluster has no room for one")
            for reference in ready:
                if reference in self._starting:
                    self._started(reference)
                else:
                    self._returned(reference)

    def _start(self) -> None:
        made = self.ray.remote(Worker).options(num_cpus=self.size.cores, num_gpus=self.size.gpus, max_restarts=0)
        worker = made.remote(self.options, self.cache)
        self._starting[worker.ready.remote()] = worker

    def _started(self, reference: Any) -> None:
        worker = self._starting.pop(reference)
        try:
            self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts < TRIES:
                self._start()
            elif self._busy or self._idle or self._starting:
                self.output.warn(f"a worker cannot be started, the others go on: {_last_line(error)}")
            else:
                raise ModelError(
                    "no worker can be started", why=_last_line(error), fix="install specextend on every node alike"
                ) from error
        else:
            self._failed_starts = 0
            self._idle.append(worker)

    def _submit(self) -> None:
        source = self.waiting.popleft()
        path = self.destination.path(source.name)
        if path is not None and self.destination.keeps(path):
            self._count(f"{path} exists already; --force writes it again")
            return
        try:
            place, heading = self.destination, source.name if self.total > 1 and self.destination.is_stdout else ""
            task = Task(source.name, source.data(), source.options, source.password, place.format, place.cite, heading)
        except SpecextendError as error:
            self._fail(source, error)
            return
        worker = self._idle.pop()
        self._busy[worker.work.remote(task)] = worker, source

    def _returned(self, reference: Any) -> None:
        worker, source = self._busy.pop(reference)
        try:
            result: Result = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            self._idle.append(worker)
            self._fail(source, SpecextendError("something unexpected went wrong", why=_last_line(error)))
            return
        except self.ray.exceptions.RayError as error:
            self._died[source] += 1
            self.ray.kill(worker)
            self._start()
            if self._died[source] < TRIES:
                self.output.note(f"a worker died over {source.name}: it is begun again")
                self.waiting.appendleft(source)
            else:
                self._fail(source, SpecextendError(f"{TRIES} workers died over it", why=_last_line(error)))
            return
        self._idle.append(worker)
        for message in result.warnings:
            self.output.warn(f"{source.name}: {message}")
        if isinstance(result.error, ModelError):
            raise result.error
        if result.error is None or isinstance(result.error, PartialError):
            with self.destination.target(self.output.write, source.name) as write:
                write(result.text)
        if result.error is not None:
            self._fail(source, result.error)
        else:
            self._count(f"{source.name}: {result.line}")

    def _fail(self, source: Source, error: SpecextendError) -> None:
        self.failures.append((source, error))
        self._count(f"{source.name}: failed")

    def _count(self, line: str) -> None:
        self.finished += 1
        self.output.status(f"{self.finished}/{self.total} {line}")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The ray module, connected to the cluster at `address`, or to one that ends with the body. UsageError: neither."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise UsageError(
            "Ray is not installed", why=str(error), fix=f"{sys.executable} -m pip install 'specextend-cli[ray]'"
        ) from error
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        _reach(address)
        ray.init(
            address=address,
            include_dashboard=False if address == LOCAL else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ValueError, RuntimeError, OSError) as error:
        fix = "--ray local starts one here; ray start --head starts one for several machines"
        raise UsageError(f"there is no Ray cluster at {address}", why=_last_line(error), fix=fix) from error
    finally:
        signal.signal(signal.SIGTERM, terminate)  # Ray puts its own in place
    try:
        yield ray
    finally:
        ray.shutdown()


def run(
    address: str,
    inputs: Sequence[Source],
    output: Output,
    destination: Destination,
    summarizer: Summarizer,
    workers: int | None,
) -> list[tuple[Source, SpecextendError]]:
    """Summarize every input over the cluster at `address`; returns the failures."""
    options, cache = summarizer.options, summarizer.cache_path
    if options.preset.endswith((".toml", ".gguf")):  # workers, too, can open its absolute path
        options = replace(options, preset=str(Path(options.preset).expanduser().absolute()))
    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        size = pool_size(nodes, workers, len(inputs))
        output.status(str(size))
        pool = WorkerPool(ray, output, destination, options, size, deque(inputs), _cache(ray, cache))
        try:
            pool.run()
        except (KeyboardInterrupt, SpecextendError):
            kept = "; chunk summaries are kept: run again to continue" if cache else ""
            output.note(f"{pool.finished} of {len(inputs)} documents done{kept}")
            raise
    return pool.failures


def _reach(address: str) -> None:
    """OSError where nobody listens at `host:port`: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT).close()


def _cache(ray: Any, path: Path | None) -> Any:
    """The cache of chunk summaries, as an actor on the machine of the command."""
    if path is None:
        return None
    node = ray.get_runtime_context().get_node_id()
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(GenerationCache).options(num_cpus=0, scheduling_strategy=here).remote(path)


def _last_line(error: BaseException) -> str:
    """The last line with text: Ray's messages are whole tracebacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
