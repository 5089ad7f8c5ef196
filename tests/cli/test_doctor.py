"""`doctor`: ten checks, what is missing, what that costs, the first command to run, and an exit code."""

from __future__ import annotations

import json
import shutil

import pytest

from specextend_cli.cli import doctor
from specextend_cli.models.configuration import configuration_file

NAMES = ["specextend", "torch", "transformers", "gpu", "native code", "memory", "cache", "model", "OCR", "terminal"]


@pytest.fixture
def findings(cli, monkeypatch):
    """The exit code, and what is found by its name, without a GPU and with the model on disk."""
    monkeypatch.setattr(doctor, "_gpu_names", lambda: None)
    monkeypatch.setattr("specextend_cli.models.sources.is_present", lambda preset: True)
    monkeypatch.setattr("specextend_cli.runtime.devices.built_for_cuda", lambda: None)

    def find():
        done = cli("doctor", "--json")
        return done.returncode, {check["name"]: check for check in json.loads(done.stdout)}

    return find


def test_ten_checks_say_each_thing_once(findings, cli):
    code, found = findings()
    assert (code, list(found)) == (0, NAMES)
    assert not [check for check in found.values() if check["state"] == "bad"]
    lines = cli("doctor").stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[:10]] == NAMES
    assert lines[10] == ""
    assert len(lines) == 12
    assert lines[11].startswith("try:   ") or lines[11] == "all is there"


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_what_is_needed_makes_it_4_and_its_command_comes_first(findings, monkeypatch, package, cli):
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == package else "1.0")
    code, found = findings()
    assert (code, found[package]["state"]) == (4, "bad")
    assert found[package]["found"] == "not installed: no model can be run"
    done = cli("doctor")
    assert done.returncode == 4
    assert done.stdout.endswith(f"\ntry:   {found[package]['fix']}\n")
    assert found[package]["fix"].startswith(f"pip install {package}")


def test_no_compiler(findings, monkeypatch):
    monkeypatch.setenv("CXX", "nothing++")
    code, checks = findings()
    assert (code, checks["native code"]["state"]) == (0, "poor")
    assert "there is no C++ compiler (nothing++): decoding takes several times" in checks["native code"]["found"]
    monkeypatch.setattr("specextend_cli.engine.native.shared_library.Library.is_shipped", property(lambda _: True))
    assert findings()[1]["native code"]["state"] == "ok"  # none is needed


@pytest.mark.parametrize(
    ("gpu", "cuda", "found", "fix"),
    [
        (None, "12.8", "torch for CUDA 12.8 takes gigabytes for nothing", "whl/cpu"),
        ("NVIDIA H100, 80 GB", None, "which torch cannot use: it is built without CUDA", "pypi.org"),
        ("NVIDIA H100, 80 GB", "12.8", "NVIDIA H100, 80 GB", ""),
    ],
)
def test_a_torch_that_does_not_suit_the_machine(findings, monkeypatch, gpu, cuda, found, fix):
    monkeypatch.setattr(doctor, "_gpu_names", lambda: gpu)
    monkeypatch.setattr("specextend_cli.runtime.devices.built_for_cuda", lambda: cuda)
    code, checks = findings()
    assert (code, checks["gpu"]["state"]) == (0, "poor" if fix else "ok")
    assert found in checks["gpu"]["found"]
    assert fix in checks["gpu"]["fix"]
    assert ("kernels" in checks) == (gpu is not None)


def test_kernels_on_a_gpu_need_triton_and_a_compiler(findings, monkeypatch):
    monkeypatch.setattr(doctor, "_gpu_names", lambda: "NVIDIA H100, 80 GB")
    monkeypatch.setattr(doctor, "_version", lambda package: "1.0")
    monkeypatch.setenv("CC", "gcc")
    assert findings()[1]["kernels"]["found"] == "Triton's, in CUDA graphs"
    monkeypatch.delenv("CC")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name in ("gcc", "clang") else which(name, **more))
    assert findings()[1]["kernels"]["fix"] == "sudo apt install gcc"
    monkeypatch.setattr(doctor, "_version", lambda package: None if package == "triton" else "1.0")
    assert findings()[1]["kernels"]["fix"] == "pip install triton"


def test_a_model_that_is_not_here(findings, monkeypatch):
    monkeypatch.setattr("specextend_cli.models.sources.is_present", lambda preset: False)
    code, found = findings()
    assert (code, found["model"]["state"], found["model"]["fix"]) == (0, "poor", "specextend models pull smollm2-135m")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, found = findings()
    assert (code, found["model"]["state"]) == (4, "bad")
    assert found["model"]["fix"].endswith("-u HF_HUB_OFFLINE specextend models pull smollm2-135m")
    configuration_file().unlink()
    monkeypatch.setattr("specextend_cli.models.choice.is_present", lambda preset: False)
    code, found = findings()
    assert (code, found["model"]["state"]) == (0, "ok")
    assert "documents are quoted" in found["model"]["found"]


def test_a_cache_without_room(findings, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 1000))
    code, found = findings()
    assert (code, found["cache"]["state"]) == (0, "poor")
    assert "XDG_CACHE_HOME" in found["cache"]["fix"]


def test_without_ocr_it_says_what_to_install(findings, monkeypatch):
    monkeypatch.setattr("specextend_cli.documents.ocr.program", lambda: None)
    code, found = findings()
    assert (code, found["OCR"]["state"]) == (0, "poor")
    assert "apt install tesseract-ocr" in found["OCR"]["fix"]
