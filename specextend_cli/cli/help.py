"""What `-h` and `--help` print: usage, what it does, examples to copy, and the options, ten of them or all.

Plain lines: an example is one line however narrow the terminal is, so that it can be copied as it stands.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from rich.text import Text
from typer.core import TyperCommand, TyperGroup

SHORT = 10
"""Options that `-h` shows."""
COMMON = (
    *("--corpus", "--output", "--length", "--style", "--focus", "--cite", "--pages", "--model", "--format", "--force"),
    *("--quiet", "--json", "--len", "--docs", "--methods", "--experiment", "--input", "--report", "--minutes"),
    *("--sentence", "--draft", "--head", "--timeout", "--device", "--version"),
)
"""The options that `-h` shows first, where a command has them."""
WIDEST = 100
FIRST = "Options"
"""The panel of options that name none."""
NAMES = 30
"""Columns of an option's names and value, behind which its explanation begins."""
_SHORT_ASKED, _ALL_ASKED = "specextend.short", "specextend.all"


class Rare(str):
    """A panel's name; `--help` counts its options, `--help-all` lists them."""


class Command(TyperCommand):
    """A command whose `-h` is short and whose `--help` is complete."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `_note_which`."""
        _note_which(ctx, args)
        return super().parse_args(ctx, ["--help" if arg == "--help-all" else arg for arg in args])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _print(ctx, _sections(self, ctx, short=_is_short(ctx)))


class Group(TyperGroup):
    """The same for a command that has commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any argument, print the short help: a usage error."""
        _note_which(ctx, args)
        if not args and not ctx.resilient_parsing:
            _print(ctx, _sections(self, ctx, short=True))
            raise SystemExit(2)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _print(ctx, _sections(self, ctx, short=_is_short(ctx)))


def _note_which(ctx: Any, args: Sequence[str]) -> None:
    """Both flags are one option to the parser: whether the long one was given is kept here."""
    ctx.meta[_SHORT_ASKED] = "--help" not in args and "--help-all" not in args
    ctx.meta[_ALL_ASKED] = "--help-all" in args


def _is_short(ctx: Any) -> bool:
    return bool(ctx.meta.get(_SHORT_ASKED, False))


def _print(ctx: Any, lines: Iterable[Text]) -> None:
    from specextend_cli.ui.streams import Output

    output = Output()
    for line in lines:
        output.show(line)


def _sections(command: TyperCommand | TyperGroup, ctx: Any, *, short: bool) -> Iterator[Text]:
    from specextend_cli.ui.streams import Output

    width = min(Output().pager.width, WIDEST)
    params: list[Any] = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in params if param.param_type_name == "argument"]
    options = [param for param in params if param.param_type_name == "option"]
    required = [f"{param.opts[0]} {param.metavar}" for param in options if param.required]
    pieces = [
        *required,
        "[OPTIONS]",
        *(_usage(one) for one in arguments),
        *(["COMMAND"] if isinstance(command, TyperGroup) else []),
    ]
    yield Text.assemble(("usage: ", "bold"), " ".join((ctx.command_path, *pieces)))
    yield from _description(command.help or "", width)
    if isinstance(command, TyperGroup):
        yield from _heading("Commands")
        yield from _rows([(name, _first(one.help or "")) for name, one in _commands(command, ctx)], width)
    if arguments:
        yield from _heading("Arguments")
        yield from _rows([(one.metavar or one.name.upper(), one.help or "") for one in arguments], width)
    usual = [one for one in options if ctx.meta.get(_ALL_ASKED) or not isinstance(_panel(one), Rare)]
    shown = _chosen(options) if short else usual
    for title in sorted(dict.fromkeys(map(_panel, shown)), key=lambda panel: panel != FIRST):
        yield from _heading(title)
        yield from _rows([(_names(one), _about(one)) for one in shown if _panel(one) == title], width)
    if len(shown) < len(options):
        yield Text()
        all_of_them = "--help" if short else "--help-all"
        yield Text(f"{len(shown)} of {len(options)} options; all of them: {ctx.command_path} {all_of_them}")


def _description(help: str, width: int) -> Iterator[Text]:
    """Paragraphs, folded; indented lines, the examples, as they are."""
    for paragraph in textwrap.dedent(help).strip().split("\n\n"):
        yield Text()
        if paragraph.startswith("Example"):
            title, *examples = paragraph.splitlines()
            yield Text(title, style="bold")
            yield from (Text(f"  {line.strip()}") for line in examples)
        else:
            yield from map(Text, textwrap.wrap(paragraph, width))


def _first(help: str) -> str:
    """The first sentence of a help text."""
    return " ".join(textwrap.dedent(help).strip().split("\n\n")[0].split())


def _commands(group: TyperGroup, ctx: Any) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if command is not None and not command.hidden:
            yield name, command


def _chosen(options: Sequence[Any]) -> list[Any]:
    """The ten that matter most, in the order in which they are declared."""

    def rank(option: Any) -> int:
        return min((COMMON.index(name) for name in option.opts if name in COMMON), default=len(COMMON))

    best = sorted(options, key=lambda option: (not option.required, rank(option)))[:SHORT]
    return [option for option in options if option in best]


def _panel(option: Any) -> str:
    return getattr(option, "rich_help_panel", None) or FIRST


def _usage(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _names(option: Any) -> str:
    """ "-o, --output PATH", or "--compile/--no-compile"."""
    short = [name for name in option.opts if not name.startswith("--")]
    long = [name for name in option.opts if name.startswith("--")]
    names = ", ".join([*short, *long])
    if option.secondary_opts:
        names += "/" + "/".join(option.secondary_opts)
    return names if option.is_flag or option.count else f"{names} {option.metavar or option.name.upper()}"


def _about(option: Any) -> str:
    """What it does, its default and the variable that sets it."""
    if "--help" in option.opts:
        return "This help: the most important of it with -h, all of it with --help."
    notes = []
    default = option.default
    if option.show_default and default not in (None, False) and not callable(default) and not option.is_flag:
        notes.append(f"default: {default.value if isinstance(default, Enum) else default}")
    variables = option.envvar if isinstance(option.envvar, (list, tuple)) else [option.envvar]
    if any(variables) and option.show_envvar:
        notes.append(f"or set {', '.join(name for name in variables if name)}")
    return f"{option.help or ''} ({'; '.join(notes)})".strip() if notes else option.help or ""


def _heading(title: str) -> Iterator[Text]:
    yield Text()
    yield Text(f"{title}:", style="bold")


def _rows(rows: Sequence[tuple[str, str]], width: int) -> Iterator[Text]:
    """Names to the left, explanations folded beside them; below them where either has too little room."""
    most = NAMES if width >= 60 else 0
    left = max((len(name) + 4 for name, _ in rows if len(name) + 4 <= most), default=0)
    indent = " " * max(left, 6)
    for name, about in rows:
        lines = textwrap.wrap(about, max(width - len(indent), 20)) or [""]
        head = f"  {name}"
        if len(head) < left:
            yield Text((head.ljust(len(indent)) + lines.pop(0)).rstrip())
        else:
            yield Text(head)
        yield from (Text(f"{indent}{line}") for line in lines if line)
