"""Compiled code is loaded only as it was written, from where nobody else can write."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import torch

from specextend_cli.engine import native, private_files
from specextend_cli.engine.native import CannotCompileError, Library
from specextend_cli.engine.native import shared_library as library_module
from specextend_cli.engine.private_files import (
    DamagedError,
    UntrustedError,
    checked,
    is_good,
    make_private,
    publish,
)
from specextend_cli.models import store
from specextend_cli.runtime import runners as runtime
from specextend_cli.summarize.cache import GenerationCache

NOBODY = 65534


def written(directory: Path, content: bytes = b"machine code", name: str = "kernels.so") -> Path:
    """A file of ours in a directory of ours."""
    make_private(directory)
    made = directory / f"{name}.1"
    made.write_bytes(content)
    publish(made, directory / name)
    return directory / name


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "programs"


def test_what_was_written_is_loaded(place: Path) -> None:
    file = written(place)
    assert is_good(file)
    assert checked(file) == file.resolve()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {path.name for path in place.iterdir()} == {"kernels.so", "kernels.so.sha256"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in place.iterdir())
    file = written(place, b"newer")
    assert checked(file).read_bytes() == b"newer"
    file.unlink()
    assert not is_good(file)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_files_are_private_whatever_the_umask(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        file = written(place)
    finally:
        os.umask(before)
    assert is_good(file)
    assert checked(file)


def damaged(file: Path, how: str) -> None:
    if how == "cut off":
        os.truncate(file, 5)
    elif how == "without its record":
        file.with_name("kernels.so.sha256").unlink()
    elif how == "another file":
        file.write_bytes(b"machine c0de")
    else:
        file.unlink()
        os.mkfifo(file)


@pytest.mark.parametrize("how", ["cut off", "without its record", "another file", "no file"])
def test_a_damaged_file_is_not_loaded(place: Path, how: str) -> None:
    file = written(place)
    damaged(file, how)
    assert not is_good(file)
    with pytest.raises(OSError, match="sha256" if how == "without its record" else None) as caught:
        checked(file)
    assert isinstance(caught.value, DamagedError) or how == "without its record"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757])
def test_others_may_not_write_in_the_directory(place: Path, mode: int) -> None:
    """One of an earlier version becomes private."""
    file = written(place)
    place.chmod(mode)
    with pytest.raises(UntrustedError, match=r"can be written by other users.*XDG_CACHE_HOME"):
        checked(file)
    make_private(place)
    assert checked(file)


def test_others_may_not_exchange_the_directory(place: Path) -> None:
    """A cache in a directory where everybody may write is renamed, and another put in its place."""
    file = written(place)
    place.parent.chmod(0o777)
    with pytest.raises(UntrustedError, match="can be written by other users"):
        checked(file)
    place.parent.chmod(0o1777)  # as /tmp: what is ours stays
    assert checked(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("which", ["file", "record", "directory", "above"])
def test_nothing_of_another_user_is_loaded(place: Path, which: str) -> None:
    file = written(place)
    path = {"file": file, "record": file.with_name("kernels.so.sha256"), "directory": place, "above": place.parent}
    os.chown(path[which], NOBODY, NOBODY)
    with pytest.raises(UntrustedError, match="belongs to another user"):
        checked(file)
    with pytest.raises(UntrustedError) if which in ("directory", "above") else nullcontext():
        make_private(place)
    assert is_good(file) == (which in ("directory", "above"))


def test_files_that_others_can_write_are_not_loaded(place: Path) -> None:
    file = written(place)
    file.chmod(0o666)
    assert not is_good(file)
    with pytest.raises(UntrustedError):
        checked(file)


def test_groups_that_are_shared(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many systems give every user a group of their own, and a umask that lets it write."""
    file = written(place)
    place.parent.chmod(0o770)
    monkeypatch.setattr(private_files, "_is_own_group", lambda group: True)
    assert checked(file)
    monkeypatch.setattr(private_files, "_is_own_group", lambda group: False)
    with pytest.raises(UntrustedError):
        checked(file)


def test_links_are_followed_before_anything_is_believed(place: Path, tmp_path: Path) -> None:
    file = written(place)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    shutil.copy(file, elsewhere / file.name)
    shutil.copy(file.with_name("kernels.so.sha256"), elsewhere)
    link = tmp_path / "link"
    link.symlink_to(elsewhere)
    with pytest.raises(UntrustedError):
        checked(link / file.name)
    file.unlink()
    file.symlink_to(elsewhere / file.name)
    with pytest.raises(UntrustedError):
        checked(file)


def library_that_leaves_a_mark(tmp_path: Path, mark: Path) -> Path:
    """A shared library that runs code when it is loaded."""
    compiler = shutil.which("cc") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler")
    source = tmp_path / "mark.c"
    source.write_text(
        f'#include <stdio.h>\n__attribute__((constructor)) static void f(void) {{ fclose(fopen("{mark}", "w")); }}\n'
    )
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "mark.so")], check=True)
    return tmp_path / "mark.so"


def test_a_foreign_library_in_a_shared_cache_does_not_run(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own record beside it, where the program's own would lie."""
    mark = tmp_path / "ran"
    file = written(place, library_that_leaves_a_mark(tmp_path, mark).read_bytes())
    place.parent.chmod(0o777)
    monkeypatch.setattr(library_module, "_loaded", None)
    library = Library(file, ())
    with pytest.raises(CannotCompileError, match="can be written by other users"):
        library.load()
    assert not mark.exists()
    place.parent.chmod(0o700)
    with suppress(CannotCompileError, AttributeError, RuntimeError):  # it has no kernels; others may be loaded already
        library.load()
    assert mark.exists()


@pytest.fixture
def made(place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done with a library of the program's own, in a cache with one that is good."""
    done: list[str] = []
    file = written(place)

    def make(self: Library) -> None:
        done.append("made")
        written(self.file.parent, name=self.file.name)

    monkeypatch.setattr(native, "is_loaded", lambda: False)
    monkeypatch.setattr(library_module, "_loaded", None)
    monkeypatch.setattr(runtime, "cache_root", lambda: place.parent)
    monkeypatch.setattr(runtime, "weight_files", lambda model: [Path(torch._C.__file__)] * 3)
    monkeypatch.setattr(runtime, "_WORTH", 0)
    monkeypatch.setattr(Library, "within", lambda directory: Library(file, ()))
    monkeypatch.setattr(Library, "make", make)
    return done


def test_a_library_that_was_cut_off_is_made_again(
    place: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading it ended the process with a bus error, in every run."""
    os.truncate(place / "kernels.so", 4)
    monkeypatch.setattr(Library, "load", lambda self: made.append("loaded"))
    for _ in range(2):
        list(runtime.load_library(place, torch.device("cpu")))
    assert made == ["made", "loaded", "loaded"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_shared_cache_is_said_with_what_to_do(place: Path, made: list[str], is_there: bool) -> None:
    place.parent.chmod(0o777)
    if not is_there:
        (place / "kernels.so").unlink()
    *_, last = runtime.load_library(place, torch.device("cpu"))
    assert "can be written by other users" in last.name
    assert "XDG_CACHE_HOME" in last.name
    assert not made  # nothing is compiled into it


def test_one_that_stops_while_it_writes_leaves_nothing_that_is_loaded(place: Path) -> None:
    code = f"""
import os, signal
from contextlib import nullcontext
from pathlib import Path
from specextend_cli.engine import private_files
private_files.sync = lambda path: os.kill(os.getpid(), signal.SIGKILL) if path.suffix == {{suffix!r}} else None
made = Path({str(place)!r}) / "kernels.so.2"
made.write_bytes(b"newer")
private_files.publish(made, made.with_name("kernels.so"))
"""
    file = written(place)
    for suffix, survives in ((".2", True), (".sha256", True), ("", False)):
        done = subprocess.run([sys.executable, "-c", code.format(suffix=suffix)], capture_output=True, check=False)
        assert done.returncode == -signal.SIGKILL
        assert is_good(file)
        assert file.read_bytes() == (b"machine code" if survives else b"newer")


def test_the_cache_is_for_its_user_alone(home: Path) -> None:
    """Models may be anybody's; what documents say may not."""
    GenerationCache(store.cache_root() / "texts.sqlite").put("a", "b")
    assert stat.S_IMODE(store.cache_root().stat().st_mode) == 0o700
    shutil.rmtree(store.cache_root())
    store.build(store.cache_root() / "models" / "mine", lambda into: None)
    assert stat.S_IMODE(store.cache_root().stat().st_mode) == 0o700
    assert stat.S_IMODE((store.cache_root() / "models").stat().st_mode) == 0o700
