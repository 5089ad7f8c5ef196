"""The kernels compute the same for every instruction set: those of other processors under an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from specextend_cli.engine.native.shared_library import INSTRUCTIONS, SOURCES, features

PROGRAM = Path(__file__).with_name("kernel_sums.cpp")


def sums(name: str, directory: Path, compiler: str = "g++", *runner: str) -> list[tuple[str, float, float]]:
    """What the program prints, compiled for an instruction set: what was computed, its sum, and that of its sizes."""
    made = directory / name
    flags = ["-O0", "-std=c++20", "-ffp-contract=off", "-pthread", "-static", f"-I{SOURCES[0].parent}"]
    subprocess.run([compiler, *flags, *INSTRUCTIONS[name][1], str(PROGRAM), "-o", str(made)], check=True)
    done = subprocess.run([*runner, str(made)], check=True, capture_output=True, text=True)
    lines = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    return [(what, float(total), float(size)) for what, total, size in lines]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, float, float]]:
    """What code without instructions of any one processor computes."""
    return sums("portable", tmp_path_factory.mktemp("portable"))


@pytest.mark.full
@pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler")
@pytest.mark.parametrize("name", [name for name in INSTRUCTIONS if name != "portable"])
def test_every_instruction_set(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    compiler, runner = "g++", ()
    if name.startswith("neon"):
        compiler, emulator = "aarch64-linux-gnu-g++", shutil.which("qemu-aarch64")
        if not shutil.which(compiler) or emulator is None:
            pytest.skip("no cross compiler and emulator (Debian: g++-aarch64-linux-gnu, qemu-user)")
        runner = (emulator,)
    elif not INSTRUCTIONS[name][0] <= features():
        pytest.skip("this processor lacks them")
    expected = request.getfixturevalue("expected")  # not where it is skipped: it is compiled
    found = sums(name, tmp_path, compiler, *runner)
    assert [what for what, *_ in found] == [what for what, *_ in expected]
    for (what, total, size), (_, other, other_size) in zip(found, expected, strict=True):
        assert size == pytest.approx(other_size, rel=1e-4), what
        assert total == pytest.approx(other, abs=1e-4 * other_size), what
