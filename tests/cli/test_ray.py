"""`--ray`: the command over a stand-in for Ray, workers that die, and Ray itself where it is installed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from specextend_cli.cli.inputs import Source
from specextend_cli.errors import UsageError
from specextend_cli.summarize.ray_pool import TRIES, PoolSize, distribute, pool_size
from tests.cli.fake_ray import ActorPool, FakeRay, RayError
from tests.cli.shell import REAL, environment
from tests.helpers.error_lines import said
from tests.summarize.tiny_preset import text


@pytest.fixture
def ray(monkeypatch):
    """The stand-in, with a machine of two cores."""
    made = FakeRay({"CPU": 2.0})
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setitem(sys.modules, "ray.util", made.util)
    return made


def library(folder, documents):
    """So many documents, one of every twenty corrupt."""
    (folder / "in").mkdir()
    for number in range(documents):
        data = b"%PDF-1.7 x" if number % 20 == 2 else text(8, number).encode()
        (folder / "in" / f"{number:03}.txt").write_bytes(data)
    return folder / "in"


def check(code, stderr, folder, presets, cli, documents):
    """As if one process had done it all: every output whole and the same, every failure named."""
    failed = len(range(2, documents, 20))
    assert code == 6, stderr
    assert f"error: {failed} of {documents} documents failed" in stderr
    assert "failed: 002.txt is a damaged PDF" in stderr
    assert f"{documents}/{documents} " in stderr or documents % 20 == 3
    written = {path.name: path.read_text() for path in (folder.parent / "out").iterdir()}
    assert len(written) == documents - failed
    for name in ("000.txt", f"{documents - 1:03}.txt"):
        assert written[name] == cli("summarize", folder / name, "-m", presets["one"], "--no-cache").stdout


def test_the_command_over_workers(ray, presets, tmp_path, cli):
    folder = library(tmp_path, 5)
    command = ("summarize", folder, "-m", presets["one"], "--ray", "local", "--workers", 2, "-o", tmp_path / "out")
    done = cli(*command)
    check(done.returncode, done.stderr, folder, presets, cli, 5)
    assert "2 workers, each with 1 core\n" in done.stderr
    options = {"num_cpus": 1, "num_gpus": 0, "max_restarts": -1, "max_task_retries": TRIES - 1}
    assert ray.log == ["local", options, "shutdown"]
    again = cli(*command)  # what is written stays, and is not sent
    assert (again.returncode, "1 worker, each with 1 core\n" in again.stderr) == (6, True)


def test_what_would_fail_everywhere_ends_the_run(ray, cli, tmp_path, monkeypatch):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(text(8))
    done = cli("summarize", tmp_path, "-m", tmp_path / "absent.gguf", "--ray", "local", "-o", tmp_path / "out")
    assert (done.returncode, done.stderr.count("error: there is no file")) == (4, 1)
    monkeypatch.setattr(ActorPool, "dies", staticmethod(lambda *_: RayError("Traceback\nModuleNotFoundError: no")))
    done = cli("summarize", tmp_path, "--mode", "extractive", "--ray", "local", "-o", tmp_path / "out")
    assert done.returncode == 6
    assert done.stderr.count(f": {TRIES} workers failed (ModuleNotFoundError: no)\n") == 2


def test_a_document_that_kills_its_workers_fails_alone(ray, cli, tmp_path, monkeypatch):
    """And one that cannot be read is not sent."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text(text(8, number))
    error = RayError("Traceback\nout of memory\n")
    monkeypatch.setattr(ActorPool, "dies", staticmethod(lambda number, *_: error if number == 1 else None))
    files = [tmp_path / f"{number}.txt" for number in range(6)]
    command = ("--mode", "extractive", "--ray", "local", "--workers", 2, "-o", tmp_path / "out")
    done = cli("summarize", *files, *command)
    assert done.returncode == 6
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0.txt", "2.txt", "3.txt", "4.txt"]
    assert f"failed: 1.txt: {TRIES} workers failed (out of memory)\n" in done.stderr
    assert "failed: 5.txt does not exist\n" in done.stderr


def test_ctrl_c_says_how_many_are_done(tmp_path):
    echo = SimpleNamespace(work=lambda number, *_: (number, []))
    lines, pool = [], ActorPool([SimpleNamespace(made=echo, work=SimpleNamespace(remote=lambda *given: given))])
    sources = [Source(str(tmp_path / name)) for name in "abc"]
    for name in "abc":
        (tmp_path / name).write_text(name)
    results = distribute(pool, sources, lines.append, RayError)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert lines == ["1 of 3 documents done; run again to continue"]


@pytest.mark.parametrize(
    ("nodes", "wanted", "documents", "made"),
    [
        ([{"CPU": 16.0}], None, 99, PoolSize(4, 4, 0)),
        ([{"CPU": 16.0}], None, 3, PoolSize(3, 4, 0)),
        ([{"CPU": 2.0}], None, 99, PoolSize(1, 2, 0)),
        ([{"CPU": 2.0}], 2, 99, PoolSize(2, 1, 0)),
        ([{"CPU": 1.0}, {"CPU": 1.0}], None, 99, PoolSize(2, 1, 0)),
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


def test_without_ray_its_absence_is_said(monkeypatch, cli, document):
    monkeypatch.setitem(sys.modules, "ray", None)
    done = cli("summarize", document, "--ray", "local")
    assert (done.returncode, said(done)["error"]) == (2, "Ray is not installed")
    assert "specextend-cli[ray]" in said(done)["try"]


def test_an_unreachable_ray_cluster_is_an_error(ray, cli, document):
    done = cli("summarize", document, "--ray", "127.0.0.1:1")
    assert (done.returncode, said(done)["error"]) == (2, "there is no Ray cluster at 127.0.0.1:1")


@pytest.mark.full
def test_many_documents_over_two_workers_one_of_them_killed_midway(presets, tmp_path, cli):
    pytest.importorskip("ray")
    folder = library(tmp_path, 60)

    log, out = tmp_path / "log", tmp_path / "out"
    command = ("summarize", folder, "-m", presets["one"], "--ray", "local", "--workers", 2, "-o", out)
    with log.open("w") as stderr:
        process = subprocess.Popen([*REAL, *map(str, command)], stderr=stderr, env=environment(real=True))
        while process.poll() is None and len(list(out.glob("[0-9]*"))) < 20:
            time.sleep(0.02)
        children = psutil.Process(process.pid).children(recursive=True)
        workers = [child for child in children if "ray::Worker" in " ".join(child.cmdline())]
        assert len(workers) == 2, log.read_text()
        os.kill(workers[0].pid, signal.SIGKILL)
        code = process.wait(200)
    assert "2 workers, each with 1 core" in log.read_text()
    check(code, log.read_text(), folder, presets, cli, 60)
