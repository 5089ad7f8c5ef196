"""Many documents over the workers of a Ray cluster: `results`.

This process reads the files and takes the results; workers need neither. Ray replaces a worker that dies and begins its
document again, which finds the chunk summaries that were saved on the same machine.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import SpecextendError, UsageError
from specextend_cli.humanize import format_many
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.events import Event, Warned
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.summarizer import Summarizer

LOCAL = "local"
TRIES = 3  # workers that may die over one document
CORES = 4  # default cores of a worker without a GPU
CONNECT_TIMEOUT = 10.0  # seconds
Result: TypeAlias = list[Event] | SpecextendError
"""A document's events, but for the engine's, which only a live panel shows; or why there are none."""


class Reading(Protocol):
    """How a document is read."""

    def settings(self) -> dict[str, Any]:
        """Arguments of `read_bytes`."""
        ...


class Source(Protocol):
    """A document to be read by a worker."""

    @property
    def name(self) -> str: ...  # noqa: D102 - as it says
    @property
    def reading(self) -> Reading: ...  # noqa: D102
    def data(self) -> bytes:
        """The whole file; InputError if it cannot be read."""
        ...


S = TypeVar("S", bound=Source)


class Worker:
    """Summarizes documents, all as `request` asks. Models are loaded with the first document and stay loaded."""

    def __init__(self, engine: Engine, request: Request, batch: int | None, cache: bool) -> None:
        if engine.offline:
            os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported, which reads it once
        self._summarizer, self._request = Summarizer(engine, batch=batch, cache=cache), request

    def work(self, number: int, name: str, data: bytes | SpecextendError, reading: Reading) -> tuple[int, Result]:
        """Read and summarize document `number`, given as the bytes of its file, or as the error of reading these."""
        if isinstance(data, SpecextendError):
            return number, data
        try:
            document = read_bytes(name, data, **reading.settings())
            events: list[Event] = list(map(Warned, document.extraction.warnings))
            run = self._summarizer.run(document, self._request)
            return number, events + [event for event in run if type(event).__module__ == Warned.__module__]
        except SpecextendError as error:
            return number, error.with_traceback(None)


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
    cores, room = [int(node.get("CPU", 0)) for node in nodes], sum(int(node.get("GPU", 0)) for node in nodes)
    size, gpus = 1, min(room, 1)
    if not gpus:
        size = max(min(max(cores, default=0), CORES if wanted is None else sum(cores) // wanted), 1)
        room = sum(count // size for count in cores)
    if (wanted or 1) > room:
        why = f"the cluster has room for {room}"
        raise UsageError(f"--workers {wanted or 1} do not fit", why=why, fix=f"--workers {room}, or more machines")
    return PoolSize(min(wanted or room, documents), size, gpus)


def results(
    address: str,
    inputs: Sequence[S],
    say: Callable[[str], None],
    summarizer: Summarizer,
    request: Request,
    workers: int | None,
) -> Iterator[tuple[S, Result]]:
    """Every input with its result in the order in which they are done, computed over the cluster at `address`.

    Its workers have summarizers as this one.
    """
    if not inputs:
        return
    engine = summarizer.engine
    if engine.model is not None and engine.model.endswith((".toml", ".gguf")):  # workers, too, can open such a path
        engine = replace(engine, model=str(Path(engine.model).expanduser().absolute()))
    with connected(address) as ray:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        size = pool_size(nodes, workers, len(inputs))
        say(str(size))
        actor = ray.remote(Worker).options(
            num_cpus=size.cores, num_gpus=size.gpus, max_restarts=-1, max_task_retries=TRIES - 1
        )
        settings = engine, request, summarizer.batch, summarizer.saves
        pool = ray.util.ActorPool([actor.remote(*settings) for _ in range(size.workers)])
        yield from distribute(pool, inputs, say, ray.exceptions.RayError)


def distribute(
    pool: Any, inputs: Sequence[S], say: Callable[[str], None], failure: type[Exception]
) -> Iterator[tuple[S, Result]]:
    """Every input with its result; `pool` is Ray's `ActorPool` of workers, whose calls may raise `failure`."""
    left, why = dict(enumerate(inputs)), ""
    for task in left.items():
        pool.submit(lambda worker, task: worker.work.remote(*_sent(*task)), task)
    try:
        while pool.has_next():
            try:
                number, result = pool.get_next_unordered()
            except failure as error:  # whose document it was is not said
                why = _last_line(error)
                continue
            yield left.pop(number), result
    except KeyboardInterrupt:
        done = len(inputs) - len(left)
        say(f"{done} of {len(inputs)} documents done; run again to continue")
        raise
    for source in left.values():
        yield source, SpecextendError(f"{source.name}: {TRIES} workers failed", why=why)


def _sent(number: int, source: Source) -> tuple[int, str, bytes | SpecextendError, Reading]:
    """The arguments of `Worker.work`, read when a worker is free."""
    try:
        return number, source.name, source.data(), source.reading
    except SpecextendError as error:
        return number, source.name, error.with_traceback(None), source.reading


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The ray module, connected to the cluster at `address`, or to one that ends with the body. UsageError: neither."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
    try:
        import ray
        import ray.util
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
