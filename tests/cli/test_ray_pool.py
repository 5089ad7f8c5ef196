"""`--ray`: what the driver does when workers die, and the real thing where Ray is installed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from types import SimpleNamespace

import psutil
import pytest
from specextend_cli.cli.ray_worker import RemoteCache, Result, Worker
from specextend_cli.cli.source import Source

from specextend_cli.cli.options import ReadOptions
from specextend_cli.cli.ray_pool import TRIES, PoolSize, WorkerPool, pool_size
from specextend_cli.errors import InputError, ModelError, PartialError, UsageError
from specextend_cli.summarize.result_store import GenerationCache
from specextend_cli.summarize.summarizer import Options
from specextend_cli.ui.annotations import Annotations
from specextend_cli.ui.destination import Destination
from tests.cli.fake_ray import FakeRay, RayError, RayTaskError
from tests.cli.shell import REAL, environment
from tests.summarize.tiny_preset import text

# ------------------------------------------------------------------------------------------------------- the driver


class Echo:
    """In a worker's place: says a document's first word."""

    def __init__(self):
        self.asked = Counter()

    def ready(self):
        pass

    def work(self, task):
        self.asked[task.name] += 1
        word = task.data.decode().split()[0]
        if word == "bad":
            return Result(error=InputError(f"{task.name} is bad"))
        if word == "half":
            return Result("half\n", "done", (), PartialError(f"{task.name} was not read completely"))
        if word == "lost":
            return Result(error=ModelError("there is no model"))
        return Result(f"{word}\n", "done", ("mind this",))


@pytest.fixture
def pool(tmp_path):
    """Run documents of those texts over two workers; `dies` as FakeRay."""

    def go(*texts, dies=lambda method, arguments: None):
        inputs = []
        for number, words in enumerate(texts):
            path = tmp_path / f"{number}.txt"
            if words is not None:
                path.write_text(words)
            inputs.append(Source(str(path)))
        said, echo = [], Echo()
        ray = FakeRay(echo, dies)
        output = SimpleNamespace(note=said.append, status=said.append, warn=said.append, write=None)
        made = WorkerPool(
            ray,
            output,
            Destination("text", directory=tmp_path / "out"),
            Options(),
            PoolSize(2, 1, 0),
            deque(inputs),
            None,
        )
        made.run()
        written = {path.name[0]: path.read_text() for path in (tmp_path / "out").glob("*")}
        return SimpleNamespace(pool=made, ray=ray, said=said, written=written, asked=echo.asked)

    return go


def test_every_document_is_done_once_and_failures_are_kept(pool):
    done = pool("a", "bad", "half", None, "e")
    assert done.written == {"0": "a\n", "2": "half\n", "4": "e\n"}
    assert sorted(source.name for source, _ in done.pool.failures) == ["1.txt", "2.txt", "3.txt"]
    assert set(done.asked.values()) == {1}
    assert done.pool.finished == 5
    assert "0.txt: mind this" in done.said
    again = pool("a", "bad", "half", "d", "e")  # what is written stays
    assert set(again.asked) == {"1.txt", "3.txt"}


def test_a_worker_that_dies_is_replaced_and_its_document_begun_again(pool):
    left = ["0.txt", "1.txt", "1.txt"]

    def dies(method, arguments):
        if method == "work" and arguments[0].name in left:
            left.remove(arguments[0].name)
            return RayError("the actor died")
        return None

    done = pool("a", "b", "c", dies=dies)
    assert done.written == {"0": "a\n", "1": "b\n", "2": "c\n"}
    assert not done.pool.failures
    assert (done.ray.started, len(done.ray.killed)) == (5, 3)


def test_a_document_that_kills_its_workers_fails_alone(pool):
    def dies(method, arguments):
        return RayError("out of memory") if method == "work" and arguments[0].name == "1.txt" else None

    done = pool("a", "b", "c", dies=dies)
    assert done.written == {"0": "a\n", "2": "c\n"}
    ((source, error),) = done.pool.failures
    assert (source.name, error.what, error.why) == ("1.txt", f"{TRIES} workers died over it", "out of memory")


def test_a_defect_fails_one_document_and_costs_no_worker(pool):
    def dies(method, arguments):
        return (
            RayTaskError("Traceback\n  x\nZeroDivisionError: no") if arguments and arguments[0].data == b"b" else None
        )

    done = pool("a", "b", "c", dies=dies)
    assert done.written == {"0": "a\n", "2": "c\n"}
    assert done.pool.failures[0][1].why == "ZeroDivisionError: no"
    assert done.ray.started == 2


def test_what_would_fail_everywhere_ends_the_run(pool):
    with pytest.raises(ModelError, match="there is no model"):
        pool("lost", "lost")
    with pytest.raises(ModelError, match="no worker can be started"):
        pool("a", dies=lambda method, arguments: RayError("no such module") if method == "ready" else None)


def test_fewer_workers_than_wanted_do_it_too(pool):
    left = [1]

    def dies(method, arguments):
        return RayError("no such module") if method == "ready" and not (left and left.pop()) else None

    done = pool("a", "b", "c", dies=dies)
    assert len(done.written) == 3
    assert [line for line in done.said if "cannot be started, the others go on: no such module" in line]
    assert done.ray.started == 2 + TRIES - 1


@pytest.mark.parametrize(
    ("nodes", "wanted", "documents", "made"),
    [
        ([{"CPU": 16.0}], None, 99, PoolSize(4, 4, 0)),
        ([{"CPU": 16.0}], None, 3, PoolSize(3, 4, 0)),
        ([{"CPU": 2.0}], None, 99, PoolSize(1, 2, 0)),
        ([{"CPU": 2.0}], 2, 99, PoolSize(2, 1, 0)),
        ([{"CPU": 1.0}, {"CPU": 1.0}], None, 99, PoolSize(2, 1, 0)),
        ([{"CPU": 6.0}, {"CPU": 4.0}], 3, 99, PoolSize(3, 3, 0)),
        ([{"CPU": 64.0, "GPU": 8.0}, {"CPU": 64.0, "GPU": 4.0}], None, 99, PoolSize(12, 1, 1)),
        ([{"CPU": 64.0, "GPU": 8.0}], 2, 99, PoolSize(2, 1, 1)),
    ],
)
def test_a_worker_a_gpu_or_some_cores(nodes, wanted, documents, made):
    assert pool_size(nodes, wanted, documents) == made


@pytest.mark.parametrize(("nodes", "wanted"), [([{"CPU": 2.0}], 3), ([{"GPU": 1.0, "CPU": 8.0}], 2), ([{}], None)])
def test_workers_that_do_not_fit(nodes, wanted):
    with pytest.raises(UsageError, match="do not fit"):
        pool_size(nodes, wanted, 9)


def test_workers_belong_to_ray(cli):
    assert cli("summarize", "a.txt", "--workers", 2).returncode == 2


def test_without_ray_its_absence_is_said(monkeypatch, cli, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    (tmp_path / "a.txt").write_text("Words.")
    done = cli("summarize", tmp_path / "a.txt", "--ray", "local")
    assert done.returncode == 2
    assert "error: Ray is not installed" in done.stderr
    assert "specextend-cli[ray]" in done.stderr


# -------------------------------------------------------------------------------------------------------- a worker


def test_a_worker_writes_what_the_command_writes_and_keeps_its_notes_elsewhere(presets, tmp_path, monkeypatch, cli):
    """A second worker finds the notes of the first, which has died, in the store of the command."""
    from specextend_cli.cli.ray_worker import Task

    notes = GenerationCache(tmp_path / "texts.sqlite")
    methods = {name: SimpleNamespace(remote=getattr(notes, name)) for name in ("get", "attention", "put")}
    handle = SimpleNamespace(**methods)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(get=lambda value: value))
    source = tmp_path / "a.txt"
    source.write_text(text(30))
    task = Task("a.txt", source.read_bytes(), ReadOptions(), None, "jsonl", Annotations())
    first, second = (Worker(Options(preset=str(presets["one"])), handle).work(task) for _ in range(2))
    assert first.error is second.error is None
    assert first.text.count('"reused": false') == 4
    assert second.text.count('"reused": true') == 4
    assert RemoteCache(handle).get("nothing") is None
    plain = cli("summarize", source, "-m", presets["one"], "--no-cache")
    assert (
        Worker(Options(preset=str(presets["one"])), handle)
        .work(Task("a.txt", source.read_bytes(), ReadOptions(), None, "text", Annotations()))
        .text
        == plain.stdout
    )
    bad = Task("b.pdf", b"%PDF-1.7", ReadOptions(), None, "text", Annotations())
    assert isinstance(Worker(Options(preset=str(presets["one"])), None).work(bad).error, InputError)


# ------------------------------------------------------------------------------------------------------------- Ray


def library(tmp_path, documents):
    """So many documents, one of every twenty corrupt."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(documents):
        (folder / f"{number:03}.txt").write_bytes(b"%PDF-1.7 x" if number % 20 == 7 else text(8, number).encode())
    return folder


def watched(arguments, tmp_path, *, after, strike):
    """Run; call `strike(process)` once `after` documents are written. The exit code and what was said."""
    log, out = tmp_path / "log", tmp_path / "out"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*REAL, "summarize", *map(str, arguments), "-o", str(out)], stderr=stderr, env=environment(real=True)
        )
        while process.poll() is None and len(list(out.glob("[0-9]*"))) < after:
            time.sleep(0.02)
        strike(process)
        code = process.wait(200)
    return code, log.read_text()


def check(code, said, folder, presets, cli, documents):
    """As if one process had done it all: every output whole and the same, every failure said."""
    assert code == 6, said
    assert f"error: {documents // 20} of {documents} documents failed" in said
    assert f"{documents}/{documents} " in said
    written = {path.name: path.read_text() for path in (folder.parent / "out").iterdir()}
    assert len(written) == documents - documents // 20
    for number in (0, 30, documents - 1):
        source = folder / f"{number:03}.txt"
        alone = cli("summarize", source, "-m", presets["one"], "--no-cache", "--max-tokens", 8)
        assert written[f"{source.name}.txt"] == alone.stdout


def test_two_hundred_documents_over_two_workers_one_of_them_killed_midway(presets, tmp_path, cli):
    pytest.importorskip("ray")
    folder = library(tmp_path, 200)

    def strike(process):
        children = psutil.Process(process.pid).children(recursive=True)
        workers = [child for child in children if "ray::Worker" in " ".join(child.cmdline())]
        assert len(workers) == 2
        os.kill(workers[0].pid, signal.SIGKILL)

    arguments = (folder, "-m", presets["one"], "--ray", "local", "--workers", 2, "--max-tokens", 8)
    code, said = watched(arguments, tmp_path, after=50, strike=strike)
    assert "2 workers, each with 1 core" in said
    assert len(re.findall("a worker died over", said)) <= 1  # none, if it was between two documents
    check(code, said, folder, presets, cli, 200)


def test_two_nodes_one_of_them_lost_midway(presets, tmp_path, cli):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    folder = library(tmp_path, 60)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        other = cluster.add_node(num_cpus=1)
        arguments = (folder, "-m", presets["one"], "--ray", cluster.address, "--workers", 2, "--max-tokens", 8)
        strike = lambda process: cluster.remove_node(other, allow_graceful=False)  # noqa: E731
        code, said = watched(arguments, tmp_path, after=10, strike=strike)
    finally:
        cluster.shutdown()
    assert "2 workers, each with 1 core" in said
    check(code, said, folder, presets, cli, 60)


def test_an_unreachable_ray_cluster_is_an_error(cli, tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "a.txt").write_text("Words.")
    done = cli("summarize", tmp_path / "a.txt", "--ray", "127.0.0.1:1")
    assert done.returncode == 2
    assert "error: there is no Ray cluster at 127.0.0.1:1" in done.stderr
