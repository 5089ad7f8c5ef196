"""Products of parameters of which `make test` runs a part that has every value, and `make test-all` the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import pytest


def grid(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize with the product of all axes; all but a part of it is marked `full`.

    The part has each value of the longest axis, and each combination of the others, at least once.
    """
    names, values = list(axes), [list(axis) for axis in axes.values()]
    longest = max(range(len(values)), key=lambda n: len(values[n]))
    others = list(product(*values[:longest], *values[longest + 1 :]))
    quick = []
    for i in range(max(len(values[longest]), len(others))):
        rest = others[i % len(others)]
        quick.append((*rest[:longest], values[longest][i % len(values[longest])], *rest[longest:]))
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(*combination, marks=() if combination in quick else pytest.mark.full, id=_name(combination))
            for combination in product(*values)
        ],
    )


def but_for(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """All `values`, as parameters that are marked `full` but for the `quick` ones."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.full) for value in values]


def _name(combination: tuple[Any, ...]) -> str:
    return "-".join(getattr(value, "__name__", str(value)) for value in combination)
