"""Options that cannot be meant are refused before a document is read; `-h`, `--help` and errors have one style each."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import chain
from typing import get_args

import make_cli
import pytest
import typer

from specextend_cli.cli import options
from specextend_cli.cli.main import app
from specextend_cli.models.preset import Dtype, Mode
from specextend_cli.models.presets import list_presets, read_preset, to_toml
from specextend_cli.summarize import request
from tests.cli.shell import FAKE, environment
from tests.documents.made_pdfs import report_bytes
from tests.helpers.error_lines import said
from tests.summarize.examples import stand_in

LONG = ("bench",)
COMMANDS = [" ".join(words) for words in make_cli._commands(app)]


@pytest.fixture
def empty(tmp_path):
    """A directory that holds nothing."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("command", ["summarize", "compare", "bench"])
@pytest.mark.parametrize("device", ["tpu", "cuda:x", ""])
def test_devices_that_there_are_not(cli, command, device):
    wanted = () if command == "bench" else ("absent.pdf",)
    done = cli(command, *wanted, "--device", device)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no device" in said(done)["error"]


def test_a_device_that_this_machine_lacks_is_said_before_the_document(cli):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    done = cli("summarize", "absent.pdf", "--device", "cuda")
    assert (done.returncode, said(done)["error"]) == (2, "device cuda is not usable here")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--temperature", "inf"),
        ("--temperature", "nan"),
        ("--temperature", "-inf"),
        ("--temperature", "-1"),
        ("--timeout", "nan"),
        ("--timeout", "0"),
        ("--length", "many"),
        ("--length", "-5"),
        ("--pages", "9-3"),
        ("--style", "haiku"),
        ("--template", "absent"),
        ("--model", "absent"),
        ("--draft-head", "absent"),
        ("--mode", "quotes"),
        ("--draft-attention", "none"),
        ("--draft", "mine"),
        ("--seed", "-1"),
        ("--max-tokens", "0"),
        ("--batch", "0"),
        ("--shard", "3/2"),
        ("--workers", "2"),
        ("--format", "pdf"),
        ("--json", "--format", "md"),
    ],
)
def test_what_cannot_be_meant_is_2_before_the_document_is_looked_for(cli, wrong):
    done = cli("summarize", "absent.pdf", *wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done)["error"]


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({}, "cannot read the head's config.json"),
        ({"config.json": "[]"}, "cannot read the head's config.json"),
        ({"config.json": "{}"}, "the weights in"),
        ({"config.json": "{}", "model.safetensors": "no"}, "the weights in"),
    ],
)
@pytest.mark.parametrize("command", ["summarize", "compare", "bench"])
def test_a_directory_without_a_head_is_4_before_the_document(cli, empty, command, files, error):
    for name, text in files.items():
        (empty / name).write_text(text)
    done = cli(command, *(("absent.pdf",) if command != "bench" else ()), "--draft-head", empty)
    assert (done.returncode, done.stdout) == (4, "")
    assert said(done)["error"].startswith(error)


def test_a_draft_that_the_preset_has_not_is_2_before_the_document(cli):
    done = cli("summarize", "absent.pdf", "--draft", "lm")
    assert (done.returncode, said(done)["error"]) == (2, "preset smollm2-135m has no draft model")


@pytest.mark.parametrize("name", ["SPECEXTEND_DEVICE", "SPECEXTEND_MODEL"])
def test_the_environment_is_checked_like_options(cli, monkeypatch, name):
    monkeypatch.setenv(name, "nonsense")
    assert cli("summarize", "absent.pdf").returncode == 2


# ----------------------------------------------------------------------------------------------------------- presets


def test_a_preset_that_was_shown_can_be_used_under_any_name(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(cli("presets", "show", "smollm2-135m").stdout)
    again = json.loads(cli("presets", "show", "./mine.toml", "--json").stdout)
    first = json.loads(cli("presets", "show", "smollm2-135m", "--json").stdout)
    assert again == {**first, "name": "mine"}
    (tmp_path / "a.txt").write_text("Some words.\n")
    assert cli("plan", "a.txt", "-m", "./mine.toml", "--offline").returncode in (0, 4)
    (tmp_path / "Mine.toml").write_text((tmp_path / "mine.toml").read_text())
    assert said(cli("presets", "show", "Mine.toml"))["why"].startswith("a name has lower-case letters")


def test_every_preset_survives_being_shown(tmp_path):
    for preset in list_presets():
        path = tmp_path / "copy.toml"
        path.write_text(to_toml(preset))
        assert read_preset(path) == preset.model_copy(update={"name": "copy"})


# -------------------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_two_sizes_and_says_no_types(cli, command):
    short, long = (cli(*command.split(), flag).stdout for flag in ("--help", "--help-all"))
    counts = [len(re.findall(r"^  (?:-\w, )?--[\w-]+", text, re.M)) for text in (short, long)]
    assert short == cli(*command.split(), "-h").stdout
    assert (counts[0] < counts[1]) == (f"{counts[1] - counts[0]} more option" in short)
    assert "<" not in short + long
    assert long.startswith(f"usage: specextend {command}".rstrip())


@pytest.mark.parametrize("columns", ["80", "100"])
def test_help_of_the_main_command_fits_sixty_lines(cli, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lines = cli("summarize", "--help").stdout.splitlines()
    assert len(lines) <= 60
    first = [re.search(r"--[\w-]+", line)[0] for line in lines[lines.index("Options:") + 1 :] if line[2:3] == "-"][:6]
    assert first == ["--length", "--style", "--mode", "--focus", "--cite", "--flag-unsupported"]


def test_values_of_options_are_those_of_presets():
    assert get_args(options.Dtype) == get_args(Dtype)
    assert Mode is request.Mode


def examples() -> list[tuple[str, str]]:
    found = []
    for command in ("", *COMMANDS):
        text = make_cli._help(tuple(command.split()))
        for block in re.findall(r"^Examples?:\n((?:  .+\n)+)", text + "\n", re.M):
            found += [(command, line.strip()) for line in block.splitlines()]
    return found


def test_help_has_examples_that_fit_the_width():
    assert len(examples()) >= 20
    assert [line for _, line in examples() if len(line) > 78] == []


@pytest.fixture
def here(presets, tmp_path):
    """A directory with what examples name, and commands that stand in for what they call."""
    stand_in(presets)
    bin = tmp_path / "bin"
    bin.mkdir()
    bodies = {
        "specextend": f"exec {shlex.join(FAKE)} '{{}}' \"$@\"",
        "curl": "echo Some words.",
        "pdftotext": "echo Some words.",
        "less": "cat",
    }
    for name, body in bodies.items():
        (bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin / name).chmod(0o755)
    for name in ("report.pdf", "paper.pdf"):
        (tmp_path / name).write_bytes(report_bytes(3))
    return tmp_path


@pytest.mark.parametrize("line", sorted({line for command, line in examples() if command not in (*LONG, "show")}))
def test_examples_work_as_they_are_printed(cli, fake, here, monkeypatch, line):
    if "specextend show" in line or "pull" in line or "specextend models rm" in line or "specextend runs rm" in line:
        pytest.skip("needs a run or a model")
    monkeypatch.chdir(here)
    (here / "mine.toml").write_text(cli("presets", "show", "smollm2-135m").stdout)
    if not set(line) & set("|>"):
        invented = line.startswith(("specextend summarize", "specextend compare"))
        words = [sorted(here.glob(word)) if "*" in word else [word] for word in shlex.split(line)[1:]]
        done = (fake if invented else cli)(*chain.from_iterable(words))
        assert done.returncode == 0, done.stderr
        return
    env = environment(PATH=f"{here / 'bin'}:{os.environ['PATH']}", PYTHONWARNINGS="")
    done = subprocess.run(line, shell=True, cwd=here, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [line for command, line in examples() if command in LONG])
def test_examples_that_take_long_are_understood(line):
    _, command, *arguments = shlex.split(line)
    typer.main.get_command(app).commands[command].make_context(command, arguments)


# ------------------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("--nonsense",),
        ("summarize", "--nonsense"),
        ("summarize", "--length"),
        ("summarize", "--style", "haiku", "a.txt"),
        ("summarize", "--max-tokens", "many", "a.txt"),
        ("extract", "a.txt", "b.txt"),
        ("presets",),
        ("presets", "nonsense"),
        ("presets", "show"),
        ("summarize", "absent", "--json", "-f", "md"),
        ("runs", "rm"),
    ],
)
def test_every_usage_error_has_one_style(cli, arguments):
    done = cli(*arguments)
    assert done.returncode == 2
    if arguments == ("presets",):
        assert done.stdout.startswith("usage: specextend presets")
        return
    assert done.stdout == ""
    assert re.fullmatch(r"error: [a-z-].*\n(why:   .*\n)?try:   .*\n", done.stderr), done.stderr


@pytest.mark.parametrize("line", ["absent.pdf --length 100", "'my report'", "-", "https://example.org/a.pdf"])
def test_a_document_without_a_command_is_to_be_summarized(cli, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my report").write_text("Some words.\n")
    done = cli(*shlex.split(line))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1] == f"try:   specextend summarize {line}"
    assert "specextend -h" in cli("sumarize", "absent.pdf").stderr


def test_completion_offers_auto_only_where_it_is_a_model():
    for words, offered in (("models rm", False), ("presets show", False), ("models use", True), ("summarize -m", True)):
        variables = {"COMP_WORDS": f"specextend {words} a", "COMP_CWORD": "3", "_SPECEXTEND_COMPLETE": "complete_bash"}
        code = "import sys; sys.argv[0] = 'specextend'; from specextend_cli.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=environment(real=True, **variables),
            check=False,
        )
        assert ("auto" in done.stdout.split()) == offered, words


def test_a_number_out_of_range_is_refused_in_our_words(cli):
    done = cli("summarize", "absent.pdf", "--temperature", "-1")
    assert done.returncode == 2
    assert said(done)["error"] == "invalid value for '--temperature': it should be greater than or equal to 0"
