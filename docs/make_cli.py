"""Writes docs/cli.md, every `--help` as it is: `python docs/make_cli.py`. A test says when that is due."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

from typer import Typer

from specextend_cli.cli.main import app, run

PAGE = Path(__file__).with_name("cli.md")
HEAD = """\
# The command line

What every command says of itself, made by `docs/make_cli.py`. [Recipes](recipes.md) shows them at work.

Exit codes: 0 ok · 1 a defect of this program · 2 usage · 3 input · 4 model · 5 does not fit · 6 partial · 124 timeout ·
130 `^C` · 141 broken pipe · 143 SIGTERM. The summary goes to stdout, everything else to stderr.
"""
_PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


def reference() -> str:
    """The page."""
    sections = [HEAD]
    for words in ((), *_commands(app)):
        name = " ".join(("specextend", *words))
        sections.append(f"## {name}\n\n```text\n{_help(words)}\n```\n")
    return "\n".join(sections)


def _commands(typer: Typer) -> Iterator[tuple[str, ...]]:
    for command in typer.registered_commands:
        assert command.callback is not None
        yield (command.name or command.callback.__name__.replace("_", "-"),)
    for group in typer.registered_groups:
        assert group.typer_instance is not None
        for words in _commands(group.typer_instance):
            yield (str(group.name), *words)


def _help(words: tuple[str, ...]) -> str:
    said = io.StringIO()
    unset = {name: os.environ[name] for name in os.environ if not name.startswith(("SPECEXTEND_", "FORCE_", "HF_"))}
    with patch.dict(os.environ, {**unset, **_PLAIN}, clear=True), redirect_stdout(said):
        run([*words, "--help"])
    return "\n".join(line.rstrip() for line in said.getvalue().strip("\n").splitlines())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
