"""`-h`, `--help`: usage, examples, everyday options, then the others by panel; `--help-all` adds the rare ones.

Laid out by the parser's own formatter. Examples stay on one line at any width, so that they can be copied.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from specextend_cli.errors import UsageError

FLAGS = ["-h", "--help", "--help-all"]
MAX_WIDTH = 100
FIRST = "Options"  # the panel of options that name none
_ALL = "specextend.help-all"
_DOCUMENT = re.compile(r"[./]|^-$")  # of names of files and addresses: no command has it


class Rare(str):
    """A panel's name; `--help` counts its options, `--help-all` lists them."""


def _write(command: TyperCommand | TyperGroup, ctx: Any, formatter: Any) -> None:
    params: list[Any] = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in params if param.param_type_name == "argument"]
    options = [param for param in params if param.param_type_name == "option"]
    shown = [option for option in options if ctx.meta.get(_ALL) or not isinstance(_panel(option), Rare)]
    required = [f"{option.opts[0]} {option.metavar}" for option in options if option.required]
    commands = ["COMMAND"] if isinstance(command, TyperGroup) else []
    names = [one.metavar or one.name.upper() for one in arguments]
    optional = [name if one.required else f"[{name}]" for name, one in zip(names, arguments, strict=True)]
    usage = [*required, "[OPTIONS]", *optional, *commands]
    formatter.write_usage(ctx.command_path, " ".join(usage), prefix="usage: ")
    _describe(command.help or "", formatter)
    if isinstance(command, TyperGroup):
        found = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
        _section("Commands", [(name, _first(one.help or "")) for name, one in found if one], formatter)
    if arguments:
        _section("Arguments", [(name, one.help or "") for name, one in zip(names, arguments, strict=True)], formatter)
    for title in sorted(dict.fromkeys(map(_panel, shown)), key=lambda panel: panel != FIRST):
        _section(title, [(_names(one), _about(one)) for one in shown if _panel(one) == title], formatter)
    if hidden := len(options) - len(shown):
        formatter.write(f"\n{hidden} more option{'s' * (hidden > 1)}: {ctx.command_path} --help-all\n")
    encoding = sys.stdout.encoding or "utf-8"  # the parser would print UTF-8 on any stream
    formatter.buffer[:] = [formatter.getvalue().encode(encoding, "replace").decode(encoding)]


class Command(TyperCommand):
    """A command with help in two sizes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note which help is asked for: to the parser, all three flags are one option."""
        ctx.meta[_ALL] = "--help-all" in args
        return super().parse_args(ctx, args)

    format_help = _write


class Group(TyperGroup):
    """A command that has commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any argument, print the help: a usage error."""
        ctx.meta[_ALL] = "--help-all" in args
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help())
            raise SystemExit(2)
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Where a document stands in place of the command, advise the one that summarizes it."""
        is_command = self.get_command(ctx, args[0]) is not None or ctx.parent is not None or ctx.resilient_parsing
        if not is_command and (_DOCUMENT.search(args[0]) or os.path.exists(args[0])):  # noqa: PTH110 - never raises
            fix = shlex.join(["specextend", "summarize", *args])
            raise UsageError(f"no command is named before {args[0]}", fix=fix)
        return super().resolve_command(ctx, args)

    format_help = _write


def _describe(help: str, formatter: Any) -> None:
    """Paragraphs, folded; examples as they are."""
    for paragraph in textwrap.dedent(help).strip().split("\n\n"):
        formatter.write("\n")
        if paragraph.startswith("Example"):
            title, *examples = paragraph.splitlines()
            formatter.write("\n".join([title, *(f"  {line.strip()}" for line in examples), ""]))
        else:
            formatter.write_text(" ".join(paragraph.split()))


def _section(title: str, rows: Sequence[tuple[str, str]], formatter: Any) -> None:
    with formatter.section(title):
        formatter.write_dl(rows)


def _first(help: str) -> str:
    """The first paragraph of a help text, without its examples."""
    return " ".join(textwrap.dedent(help).strip().split("\n\n")[0].split())


def _panel(option: Any) -> str:
    return getattr(option, "rich_help_panel", None) or FIRST


def _names(option: Any) -> str:
    """ "-o, --output PATH", or "--compile/--no-compile"."""
    if "--help" in option.opts:
        return "-h, --help"
    names = ", ".join(sorted(option.opts, key=lambda name: name.startswith("--")))
    if option.secondary_opts:
        names += "/" + "/".join(option.secondary_opts)
    return names if option.is_flag or option.count else f"{names} {option.metavar or option.name.upper()}"


def _about(option: Any) -> str:
    """What it does, its default and the variable that sets it."""
    if "--help" in option.opts:
        return "Show this help; --help-all lists every option."
    notes = []
    default = option.default
    if option.show_default and default not in (None, False) and not callable(default) and not option.is_flag:
        notes.append(f"default: {getattr(default, 'value', default)}")
    variables = option.envvar if isinstance(option.envvar, (list, tuple)) else [option.envvar]
    if any(variables) and option.show_envvar:
        notes.append(f"or set {', '.join(name for name in variables if name)}")
    return f"{option.help or ''} ({'; '.join(notes)})".strip() if notes else option.help or ""
