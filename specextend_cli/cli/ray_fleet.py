"""`--ray`: the inputs of one command over the workers of a Ray cluster.

The command reads the files and writes the results; workers need neither. A worker that dies is replaced, and its
document is begun again: the notes that it had finished are kept where the command runs.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from specextend_cli.cli.ray_worker import Done, Notes, Task, Worker
from specextend_cli.cli.reading import Source
from specextend_cli.errors import ModelError, PartialError, SpecextendError, UsageError

if TYPE_CHECKING:
    from specextend_cli.summarize.summarizer import Options
    from specextend_cli.ui.destination import Destination
    from specextend_cli.ui.streams import Output

LOCAL = "local"
TRIES = 3
"""How many workers a document may cost, and how many may fail to start in a row."""
CORES = 4
"""Of a worker without a GPU, where there are as many and nobody says otherwise."""
REACH = 10.0  # seconds for a first word from the cluster
PATIENCE = 30.0  # seconds without any worker, before that is said


class Crew(NamedTuple):
    """How many workers, and what each of them has to itself."""

    workers: int
    cores: int
    gpus: int

    def __str__(self) -> str:
        many = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        if self.gpus:
            return f"{many}, each with a GPU"
        return f"{many}, each with {'1 core' if self.cores == 1 else f'{self.cores} cores'}"


def crew(nodes: Sequence[dict[str, float]], wanted: int | None, documents: int) -> Crew:
    """A worker a GPU; without any, a worker for every four cores. `wanted` workers where that many are asked for.

    `nodes` are what each machine has, `{"CPU": 8.0, "GPU": 1.0}`. UsageError: that many workers do not fit.
    """
    gpus = sum(int(node.get("GPU", 0)) for node in nodes)
    cores = [int(node.get("CPU", 0)) for node in nodes]
    most = gpus or sum(cores)
    if (wanted is not None and wanted > most) or not most:
        unit = "GPU" if gpus else "CPU core"
        fix = f"--workers {most}" if most else "start Ray on a machine with --num-cpus"
        raise UsageError(f"--workers {wanted or 1} do not fit", why=f"the cluster has {most} {unit}s", fix=fix)
    if gpus:
        return Crew(min(wanted or gpus, documents), 1, 1)

    def fitting(size: int) -> int:
        return sum(count // size for count in cores)

    size = min(CORES, max(cores))
    if wanted is not None:
        size = max(size for size in range(1, max(cores) + 1) if fitting(size) >= wanted)
    return Crew(min(wanted or fitting(size), documents), size, 0)


@dataclass
class Item:
    """An input, and how many workers died over it."""

    source: Source
    died: int = 0


@dataclass
class Fleet:
    """One run: inputs waiting, workers starting, idle or at work. `ray` is the module, connected to a cluster."""

    ray: Any
    output: Output
    destination: Destination
    options: Options
    quiet: bool
    crew: Crew
    waiting: deque[Item]
    notes: Any
    failures: list[tuple[Source, SpecextendError]] = field(default_factory=list)
    finished: int = 0

    def __post_init__(self) -> None:
        self.total = len(self.waiting)
        self._starting: dict[Any, Any] = {}
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Item]] = {}
        self._failed_starts = 0

    def run(self) -> None:
        """Summarize every input; `failures` has those that failed. Raises what would fail for all of them."""
        for _ in range(self.crew.workers):
            self._start()
        while self.waiting or self._busy:
            while self.waiting and self._idle:
                self._submit()
            if not self.waiting and not self._busy:
                break
            pending = [*self._busy, *self._starting]
            ready, _ = self.ray.wait(pending, num_returns=1, timeout=PATIENCE)
            if not ready and not self._busy and not self._idle:
                self.output.note("waiting for a worker: the cluster has no room for one")
            for reference in ready:
                if reference in self._starting:
                    self._started(reference)
                else:
                    self._returned(reference)

    def _start(self) -> None:
        made = self.ray.remote(Worker).options(num_cpus=self.crew.cores, num_gpus=self.crew.gpus, max_restarts=0)
        worker = made.remote(self.options, self.notes)
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
                self.output.warn(f"a worker cannot be started, the others go on: {_first_line(error)}")
            else:
                raise ModelError(
                    "no worker can be started", why=_first_line(error), fix="install specextend on every node alike"
                ) from error
        else:
            self._failed_starts = 0
            self._idle.append(worker)

    def _submit(self) -> None:
        item = self.waiting.popleft()
        source = item.source
        path = self.destination.path(source.name)
        if path is not None and self.destination.keeps(path):
            self._count(f"{path} exists already; --force writes it again")
            return
        try:
            place = self.destination
            task = Task(
                source.name,
                source.data(),
                source.pages,
                source.password,
                place.format,
                place.marks,
                source.ocr,
                source.full_page,
            )
        except SpecextendError as error:
            self._fail(source, error)
            return
        worker = self._idle.pop()
        self._busy[worker.work.remote(task)] = worker, item

    def _returned(self, reference: Any) -> None:
        worker, item = self._busy.pop(reference)
        source = item.source
        try:
            done: Done = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            self._idle.append(worker)
            self._fail(source, SpecextendError("something unexpected went wrong", why=_first_line(error)))
            return
        except self.ray.exceptions.RayError as error:
            item.died += 1
            self.ray.kill(worker)
            self._start()
            if item.died < TRIES:
                self.output.note(f"a worker died over {source.name}: it is begun again")
                self.waiting.appendleft(item)
            else:
                self._fail(source, SpecextendError(f"{TRIES} workers died over it", why=_first_line(error)))
            return
        self._idle.append(worker)
        for message in done.warnings:
            self.output.warn(f"{source.name}: {message}")
        if isinstance(done.error, ModelError):
            raise done.error
        if done.error is None or isinstance(done.error, PartialError):
            path = self.destination.path(source.name)
            self.destination.put(self.output.write, done.text, path, heading=source.name if self.total > 1 else "")
        if done.error is not None:
            self._fail(source, done.error)
        else:
            self._count(f"{source.name}: {done.line}")

    def _fail(self, source: Source, error: SpecextendError) -> None:
        self.failures.append((source, error))
        self._count(f"{source.name}: failed")

    def _count(self, line: str) -> None:
        self.finished += 1
        if not self.quiet:
            self.output.note(f"{self.finished}/{self.total} {line}")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The ray module, connected to the cluster at `address`, or to one that is started here and ends with the body.

    UsageError: Ray is not installed, or there is no cluster.
    """
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
        raise UsageError(
            f"there is no Ray cluster at {address}",
            why=_first_line(error),
            fix="--ray local starts one here; ray start --head starts one for several machines",
        ) from error
    finally:
        signal.signal(signal.SIGTERM, terminate)  # Ray puts its own in place
    try:
        yield ray
    finally:
        ray.shutdown()


def run(
    address: str,
    inputs: Sequence[Source],
    *,
    output: Output,
    destination: Destination,
    options: Options,
    notes: Path | None,
    workers: int | None,
    quiet: bool,
) -> list[tuple[Source, SpecextendError]]:
    """Summarize every input over the cluster at `address`; returns the failures."""
    options = replace(options, preset=_absolute(options.preset))
    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        made = crew(nodes, workers, len(inputs))
        if not quiet:
            output.note(str(made))
        waiting = deque(map(Item, inputs))
        fleet = Fleet(ray, output, destination, options, quiet, made, waiting, _keeper(ray, notes))
        try:
            fleet.run()
        except (KeyboardInterrupt, SpecextendError):
            kept = "; the notes are kept: run again to continue" if notes else ""
            output.note(f"{fleet.finished} of {len(inputs)} documents done{kept}")
            raise
    return fleet.failures


def _reach(address: str) -> None:
    """OSError where nobody listens at `host:port`: Ray itself would go on trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACH).close()


def _keeper(ray: Any, path: Path | None) -> Any:
    """The notes, on the machine where the command runs."""
    if path is None:
        return None
    node = ray.get_runtime_context().get_node_id()
    here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(Notes).options(num_cpus=0, scheduling_strategy=here).remote(path)


def _absolute(preset: str) -> str:
    """A preset's file by a path that means the same to a worker."""
    return str(Path(preset).expanduser().absolute()) if preset.endswith(".toml") else preset


def _first_line(error: BaseException) -> str:
    """The last line that says something: Ray puts whole tracebacks into its messages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
