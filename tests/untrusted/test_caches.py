"""Compiled code is loaded only as it was written, from where nobody else can write."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specextend_cli.engine import private_files
from specextend_cli.engine.private_files import (
    DamagedError,
    UntrustedError,
    checked,
    is_good,
    make_private,
    publish,
)
from specextend_cli.models import store
from specextend_cli.summarize.cache import GenerationCache


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


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_what_was_written_is_private_and_loaded(place: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        file = written(place)
    finally:
        os.umask(before)
    assert is_good(file)
    assert checked(file) == file.resolve()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {path.name for path in place.iterdir()} == {"kernels.so", "kernels.so.sha256"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in place.iterdir())
    assert checked(written(place, b"newer")).read_bytes() == b"newer"


def no_file(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def linked(file: Path) -> None:
    """To a copy that everybody can exchange."""
    elsewhere = file.parents[2] / "elsewhere"
    shutil.copytree(file.parent, elsewhere)
    elsewhere.chmod(0o777)
    file.unlink()
    file.symlink_to(elsewhere / file.name)


def given_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    os.chown(path, 65534, 65534)


OTHERS, ANOTHER = r"can be written by other users.*XDG_CACHE_HOME", "belongs to another user"
# change of the file or of where it lies -> error, its words, whether the file itself is good
REFUSED: list[tuple[Callable[[Path], object], type[OSError], str, bool]] = [
    (lambda file: file.write_bytes(b"machine c0de"), DamagedError, "is damaged", False),
    (no_file, DamagedError, "is no file", False),
    (lambda file: file.with_name("kernels.so.sha256").unlink(), FileNotFoundError, "sha256", False),
    (lambda file: file.chmod(0o666), UntrustedError, "others can write it", False),
    (lambda file: file.parent.chmod(0o1777), UntrustedError, OTHERS, True),
    (lambda file: file.parents[1].chmod(0o777), UntrustedError, OTHERS, True),  # it is renamed, and another put there
    (linked, UntrustedError, OTHERS, True),
    (given_away, UntrustedError, ANOTHER, False),
    (lambda file: given_away(file.with_name("kernels.so.sha256")), UntrustedError, ANOTHER, False),
    (lambda file: given_away(file.parent), UntrustedError, ANOTHER, True),
    (lambda file: given_away(file.parents[1]), UntrustedError, ANOTHER, True),
]


@pytest.mark.parametrize(("change", "error", "words", "is_whole"), REFUSED)
def test_what_others_can_have_written_or_is_damaged_is_not_loaded(
    place: Path, change: Callable[[Path], object], error: type[OSError], words: str, is_whole: bool
) -> None:
    file = written(place)
    change(file)
    with pytest.raises(error, match=words):
        checked(file)
    assert is_good(file) == is_whole
    if words == ANOTHER and is_whole:
        with pytest.raises(UntrustedError):
            make_private(place)


def test_a_directory_of_an_earlier_version_becomes_private(place: Path) -> None:
    file = written(place)
    place.chmod(0o777)
    make_private(place)
    place.parent.chmod(0o1777)  # as /tmp: what is ours stays
    assert checked(file)


def test_groups_that_are_shared(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many systems give every user a group of their own, and a umask that lets it write."""
    file = written(place)
    place.parent.chmod(0o770)
    monkeypatch.setattr(private_files, "_is_own_group", lambda group: True)
    assert checked(file)
    monkeypatch.setattr(private_files, "_is_own_group", lambda group: False)
    with pytest.raises(UntrustedError):
        checked(file)


def test_one_that_stops_while_it_writes_leaves_nothing_that_is_loaded(place: Path) -> None:
    code = f"""
import os, signal
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
