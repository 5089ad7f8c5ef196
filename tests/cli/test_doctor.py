"""`doctor`: what is missing, what that costs, what to do about it, and an exit code that says whether it is needed."""

from __future__ import annotations

import json
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from specextend_cli.cli import doctor_checks
from specextend_cli.ui.output import Output, _wrapped
from specextend_cli.ui.tables import Check, format_checks, names_width


@pytest.fixture
def findings(cli, monkeypatch):
    """The exit code, and what is found by its name."""
    monkeypatch.setattr(doctor_checks, "_gpu", lambda: None)
    monkeypatch.setattr("specextend_cli.models.sources.is_present", lambda preset: True)

    def find():
        done = cli("doctor", "--json")
        return done.returncode, {check["name"]: check for check in json.loads(done.stdout)}

    return find


@pytest.fixture
def lacking(monkeypatch):
    """Let packages be not installed."""
    version = metadata.version

    def lack(*names):
        def without(name):
            if name in names:
                raise metadata.PackageNotFoundError(name)
            return version(name)

        monkeypatch.setattr(metadata, "version", without)

    return lack


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_complete_machine_has_no_bad_check(findings, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    code, found = findings()
    assert code == 0
    assert not [check for check in found.values() if check["state"] == "bad"]


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_what_is_needed_makes_it_4(findings, lacking, package):
    lacking(package)
    code, found = findings()
    assert (code, found[package]["state"]) == (4, "bad")
    assert "no model can be run" in found[package]["cost"]
    assert package != "torch" or found[package]["fix"] == doctor_checks.FOR_PROCESSORS


def test_no_pip_costs_little(findings, lacking):
    lacking("pip")
    code, found = findings()
    assert (code, found["pip"]["value"]) == (0, "not installed")
    assert "mirrors" in found["pip"]["cost"]


@pytest.mark.parametrize(
    ("compiler", "value"),
    [
        (None, "there is no C++ compiler (nothing++)"),
        ("echo a.h is missing >&2; exit 1", "fails (a.h is missing)"),
        ("exit 3", "code 3"),
    ],
)
def test_no_compiler_or_a_broken_one(findings, tmp_path, monkeypatch, compiler, value):
    monkeypatch.setenv("CXX", script(tmp_path / "broken++", compiler) if compiler else "nothing++")
    code, found = findings()
    assert (code, found["compiler"]["state"]) == (0, "poor")
    assert value in found["compiler"]["value"]
    assert "several times as long" in found["compiler"]["cost"]


def test_no_compiler_where_native_code_came_with_the_package(findings, monkeypatch):
    monkeypatch.setenv("CXX", "nothing++")
    monkeypatch.setattr("specextend_cli.engine.native.shared_library.Library.is_shipped", property(lambda _: True))
    code, found = findings()
    assert (code, found["compiler"]["state"]) == (0, "ok")
    assert "none is needed" in found["compiler"]["value"]


@pytest.mark.parametrize(
    ("chosen", "state", "told"),
    [("avx2", "ok", "twice as long"), ("portable", "poor", "several times"), ("avx9", "poor", "no native code runs")],
)
def test_instructions_and_what_they_cost(findings, monkeypatch, chosen, state, told):
    flags = "flags : avx2 fma f16c bmi1 bmi2"
    monkeypatch.setattr("specextend_cli.engine.native.shared_library.processor", lambda: (flags, "x86_64"))
    monkeypatch.setenv("SPECEXTEND_ISA", chosen)
    code, found = findings()
    assert (code, found["instructions"]["state"]) == (0, state)
    assert told in found["instructions"]["cost"]


def test_a_torch_for_cuda_without_a_gpu(findings, monkeypatch):
    monkeypatch.setattr(doctor_checks, "built_for_cuda", lambda: "12.8")
    _, found = findings()
    assert found["torch"]["fix"] == f"{doctor_checks.FOR_PROCESSORS} --force-reinstall"
    assert "gigabytes" in found["torch"]["cost"]


def test_a_gpu_that_torch_cannot_use(findings, monkeypatch):
    monkeypatch.setattr(doctor_checks, "_gpu", lambda: "NVIDIA H100, 80 GB")
    monkeypatch.setattr(doctor_checks, "built_for_cuda", lambda: None)
    code, found = findings()
    assert (code, found["gpu"]["state"]) == (0, "poor")
    assert "without CUDA" in found["gpu"]["cost"]


def test_a_model_that_is_not_here(findings, monkeypatch):
    monkeypatch.setattr("specextend_cli.models.sources.is_present", lambda preset: False)
    code, found = findings()
    assert (code, found["model"]["state"]) == (0, "poor")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, found = findings()
    assert (code, found["model"]["state"]) == (4, "bad")
    assert found["model"]["fix"].startswith("env -u HF_HUB_OFFLINE specextend models pull")


def test_the_command_for_processors_is_in_the_docs():
    top = Path(__file__).parents[2]
    for page in ("README.md", "docs/getting-started.md"):
        text = (top / page).read_text()
        assert text.index(doctor_checks.FOR_PROCESSORS) < text.index("pip install .\n")


def test_without_torch_the_error_is_4_and_names_it(cli, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("Some words.\n")

    def absent(*arguments, **options):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr("specextend_cli.summarize.summarizer.Summarizer.__init__", absent)
    done = cli("summarize", path)
    assert done.returncode == 4
    assert "error: torch is not installed\n" in done.stderr


@pytest.mark.parametrize(
    ("programs", "fix"),
    [
        (("apt",), "sudo apt install tesseract-ocr"),
        (("brew",), "brew install tesseract"),
        (("dnf",), "sudo dnf install tesseract"),
        ((), "apt install tesseract-ocr (Debian, Ubuntu), dnf install tesseract (Fedora) or brew install tesseract"),
    ],
)
def test_without_ocr_it_says_what_to_install(findings, monkeypatch, programs, fix):
    monkeypatch.setattr("specextend_cli.documents.ocr_engine._program", lambda name: None)
    which = shutil.which
    managers = ("apt", "dnf", "brew")
    find = lambda name, **more: ("/bin/it" if name in programs else None) if name in managers else which(name, **more)  # noqa: E731
    monkeypatch.setattr(shutil, "which", find)
    code, found = findings()
    assert (code, found["OCR"]["state"]) == (0, "poor")
    assert found["OCR"]["fix"].startswith(fix)
    assert found["OCR"]["fix"] == fix or not programs


def test_a_cache_that_others_can_write_is_said(findings, monkeypatch, tmp_path):
    shared = tmp_path / "shared"
    (shared / "programs").mkdir(parents=True)
    shared.chmod(0o777)
    monkeypatch.setattr("specextend_cli.models.store.cache_root", lambda: shared)
    _, found = findings()
    assert "can be written by other users" in found["compiled code"]["value"]
    assert "XDG_CACHE_HOME" in found["compiled code"]["fix"]


@pytest.fixture
def with_gpu(findings, monkeypatch):
    """The findings, beside a GPU with everything that attention needs."""
    version = metadata.version
    have = {"triton": "3.7"}
    monkeypatch.setattr(metadata, "version", lambda name: have.get(name) or version(name))
    monkeypatch.setattr(doctor_checks, "_gpu", lambda: "NVIDIA H100, 80 GB")
    monkeypatch.setattr(doctor_checks, "_capability", lambda: (9, 0))
    monkeypatch.setattr(doctor_checks, "built_for_cuda", lambda: "13.0")
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.delenv("SPECEXTEND_GRAPHS", raising=False)
    return findings


def test_attention_and_graphs_on_a_gpu(with_gpu, monkeypatch):
    _, found = with_gpu()
    assert found["attention"]["value"] == "cuDNN reads prompts, Triton verifies trees"
    assert (found["attention"]["state"], found["attention"]["fix"]) == ("ok", "")
    assert found["CUDA graphs"]["value"] == "on"
    monkeypatch.setenv("SPECEXTEND_GRAPHS", "0")
    _, found = with_gpu()
    assert found["CUDA graphs"]["value"] == "off by SPECEXTEND_GRAPHS"


@pytest.mark.parametrize(
    ("capability", "packages", "reading"),
    [
        ((12, 0), {}, "cuDNN"),
        ((9, 0), {"flash-attn": "2.8.3"}, "cuDNN"),  # which is twice as fast there
        ((8, 9), {}, "torch's FlashAttention-2"),
        ((8, 9), {"flash-attn": "2.8.3"}, "flash-attn 2.8.3"),
        ((8, 0), {"flash-attn-4": "4.0.0b36"}, "torch's FlashAttention-2"),
        ((7, 5), {"flash-attn": "2.8.3"}, "torch's memory-efficient kernel"),
        (None, {}, "torch's FlashAttention-2"),
    ],
)
def test_which_kernel_reads_prompts(monkeypatch, capability, packages, reading):
    monkeypatch.setattr(doctor_checks, "_version", packages.get)
    assert doctor_checks._prompt_kernel(capability) == reading


@pytest.mark.parametrize(
    ("answer", "lowest"),
    [("echo 9.0; echo 8.9", (8, 9)), ("echo '[N/A]'", None), ("echo 12.0", (12, 0)), ("exit 1", None)],
)
def test_the_oldest_gpu_counts(tmp_path, monkeypatch, answer, lowest):
    script(tmp_path / "nvidia-smi", answer)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert doctor_checks._capability() == lowest


def test_attention_on_a_gpu_without_triton(with_gpu, lacking, monkeypatch):
    lacking("triton")
    _, found = with_gpu()
    assert found["attention"]["value"] == "cuDNN reads prompts; torch verifies trees, for want of Triton"
    assert found["attention"]["fix"] == "pip install triton"
    assert found["CUDA graphs"]["value"].startswith("off")


def test_attention_on_a_gpu_without_a_compiler(with_gpu, monkeypatch):
    monkeypatch.delenv("CC")
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name in ("gcc", "clang") else which(name, **more))
    _, found = with_gpu()
    assert found["attention"]["value"].endswith("torch verifies trees, for want of a C compiler")
    assert found["attention"]["state"] == "poor"


def test_an_apple_gpu_lacks_nothing_for_attention(findings, monkeypatch):
    monkeypatch.setattr(doctor_checks, "_gpu", lambda: "Apple GPU")
    _, found = findings()
    assert found["attention"]["state"] == "ok"
    assert "CUDA graphs" not in found


def test_nothing_of_graphs_without_a_gpu(findings):
    _, found = findings()
    assert not {"attention", "CUDA graphs"} & found.keys()


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_a_terminal_s_lines_end_between_words(columns):
    long = Check("compiler", "g++ fails (fatal error: cannot execute cc1plus)", "poor", "", "decoding is slower by far")
    checks = [Check("gpu", "none found", cost="models run on the CPU, where only the smallest presets are fast"), long]
    output = Output()
    output.pager.size = (columns, 30)
    lines = _wrapped(format_checks(checks), output.pager, names_width(checks)).plain.split("\n")
    assert max(map(len, lines)) <= columns
    assert " ".join(" ".join(lines).split()) == " ".join(format_checks(checks).plain.split())
    assert all(line.startswith(" " * names_width(checks)) for line in lines if line[0] == " ")
