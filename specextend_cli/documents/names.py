"""File names as messages show them and as shells take them."""

from __future__ import annotations

import shlex

STDIN = "standard input"


def printable(name: str) -> str:
    """A file's name as it can be shown: names may hold anything, terminal escapes too."""
    return "".join(character if character.isprintable() else "�" for character in name)


def argument(name: str) -> str:
    """A file's name as an argument of a command that the user may paste; FILE for stdin."""
    return "FILE" if name == STDIN else shlex.quote(printable(name))
