"""`-h` of every command, its examples as they are printed, completion, and what imports cost."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import chain

import pytest
import typer

from specextend_cli.cli.main import app
from tests.cli.shell import FAKE, LIMIT, environment
from tests.documents.made_pdfs import report_bytes
from tests.helpers.error_lines import said
from tests.summarize.examples import stand_in

LOADED = """
import sys
from specextend_cli.cli.main import run
for line in sys.argv[1:]:
    try:
        code = run(line.split())
    except SystemExit as ended:
        code = ended.code
    found = {"torch", "transformers", "numpy", "pypdf", "pypdfium2", "rich"} & set(sys.modules)
    print(f"{line}: {code}", *sorted(found), file=sys.stderr)
"""


def parsers(group, words=()):
    """Every command with its parser."""
    yield " ".join(words), group
    for name, command in getattr(group, "commands", {}).items():
        yield from parsers(command, (*words, name))


COMMANDS = dict(parsers(typer.main.get_command(app)))


def examples():
    """Every example of every command."""
    found = []
    for command in COMMANDS.values():
        for block in re.findall(r"\bExamples?:\n((?:  .+\n)+)", f"{command.help}\n"):
            found += [line.strip() for line in block.splitlines()]
    return list(dict.fromkeys(found))


EXAMPLES = examples()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [80, 200])
def test_help_fits_the_terminal(cli, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    short, long = (cli(*command.split(), flag) for flag in ("-h", "--help"))
    assert (short.returncode, short.stderr) == (0, "")
    assert short.stdout == long.stdout
    assert short.stdout.startswith(f"Usage: specextend {command}".rstrip())
    assert max(map(len, short.stdout.splitlines())) <= min(columns, 100)


def test_there_are_seven_commands(cli):
    assert re.fullmatch(r"specextend \d+\.\d+\.\d+\n", cli("-V").stdout)
    names = {"summarize", "compare", "bench", "extract", "models", "show", "doctor"}
    assert set(COMMANDS) == {"", *names, *(f"models {name}" for name in ("list", "show", "pull", "rm", "use"))}


def test_no_command_is_a_usage_error_with_help(cli):
    done = cli()
    assert (done.returncode, done.stdout) == (2, cli("-h").stdout)


def test_the_main_command_has_at_most_thirty_options(cli):
    options = re.findall(r"^  (?:-\w, )?--[\w-]+", cli("summarize", "-h").stdout, re.M)
    assert 20 < len(options) - 1 <= 30  # beside --help


@pytest.mark.parametrize("line", ["absent.pdf --length 100", "'my report'", "-", "https://example.org/a.pdf"])
def test_a_document_without_a_command_is_to_be_summarized(cli, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my report").write_text("Some words.\n")
    done = cli(*shlex.split(line))
    assert (done.returncode, done.stdout) == (2, "")
    assert said(done)["try"] == f"specextend summarize {line}"
    assert said(cli("sumarize", "absent.pdf"))["try"] == "specextend -h"


@pytest.fixture
def here(presets, tmp_path, monkeypatch):
    """A directory with what examples name, and commands that stand in for what they call."""
    stand_in(presets)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    bodies = {"specextend": f"exec {shlex.join(FAKE)} '{{}}' \"$@\"", "curl": "echo Some words.", "less": "cat"}
    bodies["pdftotext"] = bodies["curl"]
    for name, body in bodies.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    for name in ("report.pdf", "paper.pdf"):
        (tmp_path / name).write_bytes(report_bytes(3))
    return tmp_path


def test_examples_are_short_and_there_is_one_for_whatever_is_not_obvious():
    assert len(EXAMPLES) >= 12
    assert [line for line in EXAMPLES if len(line) > 76] == []


@pytest.mark.parametrize("line", [line for line in EXAMPLES if not re.search("[|>]| bench | show", line)])
def test_examples_work_as_they_are_printed(cli, fake, here, line):
    (here / "mine.toml").write_text(cli("models", "show", "smollm2-135m").stdout)
    words = [sorted(here.glob(word)) if "*" in word else [word] for word in shlex.split(line)[1:]]
    invented = line.startswith(("specextend summarize", "specextend compare"))
    done = (fake if invented else cli)(*chain.from_iterable(words))
    assert done.returncode == 0, done.stderr


def test_examples_with_pipes_work_in_a_shell(here):
    lines = [line for line in EXAMPLES if re.search("[|>]", line)]
    env = environment(PATH=f"{here / 'bin'}:{os.environ['PATH']}", PYTHONWARNINGS="")
    script = "\n".join(["set -euo pipefail", *lines])
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert len(lines) >= 3
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", [line for line in EXAMPLES if re.search(" bench | show", line) and ">" not in line])
def test_examples_that_need_a_run_or_take_long_are_understood(line):
    _, command, *arguments = shlex.split(line)
    COMMANDS[command].make_context(command, arguments)


def test_what_needs_no_model_imports_none_of_its_libraries(presets, document):
    """In one process: each line adds its modules to those of the lines before."""
    lines = ["-h", "summarize -h", "models pull -h", "summarize absent", f"extract {document.name}"]
    lines += [f"summarize {document.name} --mode extractive", "models list", "doctor", "show"]
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *lines], capture_output=True, text=True, env=environment(real=True), check=False
    )
    loaded = dict(re.findall(r"^(.+): (\d+.*)$", done.stderr, re.M))
    assert [loaded[line] for line in lines[:3]] == ["0", "0", "0"]
    assert loaded["summarize absent"].startswith("3")
    assert [line for line in lines if re.search("torch|transformers", loaded[line])] == []


def test_completion_knows_the_presets():
    for words in ("models rm", "models show", "summarize", "compare", "bench"):
        context = COMMANDS[words].make_context(words, [], resilient_parsing=True)
        (model,) = (one for one in COMMANDS[words].params if one.name in ("model", "preset"))
        assert "smollm2-135m" in [one.value for one in model.shell_complete(context, "smol")]
