"""Parameters of which `make test` runs a part that has every value, and `make test-full` the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import combinations, product
from typing import Any

import pytest


def grid(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize with the product of all axes; all but a part of it is marked `full`.

    The part has each value of the longest axis, and each combination of the others, at least once.
    """
    values = [list(axis) for axis in axes.values()]
    return _parametrize(list(axes), list(product(*values)), _part(values))


def pairs(quick_of: Collection[Any] | None = None, /, **axes: Iterable[Any]) -> pytest.MarkDecorator:
    """As `grid`, for axes that do not depend on each other: not their product, but every pair of two axes' values.

    The part that is not marked has each value at least once; of the first axis, `quick_of` only, if it is given.
    """
    values = [list(axis) for axis in axes.values()]
    chosen = quick = [tuple(axis[i % len(axis)] for axis in values) for i in range(max(map(len, values)))]
    every = list(product(*values))
    of_each = {combination: _pairs(combination) for combination in every}
    missing = set().union(*of_each.values()).difference(*map(_pairs, chosen))
    while missing:
        used = Counter(value for combination in chosen for value in enumerate(combination))
        # The most new pairs; among equals, the values that were used least.
        most = max(len(missing & pairs) for pairs in of_each.values())
        among = [combination for combination, pairs in of_each.items() if len(missing & pairs) == most]
        best = max(among, key=lambda one: -sum(used[value] for value in enumerate(one)))
        chosen = [*chosen, best]
        missing -= of_each[best]
    if quick_of is not None:
        quick = [combination for combination in quick if combination[0] in quick_of]
    return _parametrize(list(axes), [combination for combination in every if combination in chosen], quick)


def but_for(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """All `values`, as parameters that are marked `full` but for the `quick` ones."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.full) for value in values]


def _part(values: list[list[Any]]) -> list[tuple[Any, ...]]:
    longest = max(range(len(values)), key=lambda n: len(values[n]))
    others = list(product(*values[:longest], *values[longest + 1 :]))
    part = []
    for i in range(max(len(values[longest]), len(others))):
        rest = others[i % len(others)]
        part.append((*rest[:longest], values[longest][i % len(values[longest])], *rest[longest:]))
    return part


def _pairs(combination: tuple[Any, ...]) -> set[Any]:
    return set(combinations(enumerate(combination), 2))


def _parametrize(names: list[str], every: list[tuple[Any, ...]], quick: list[tuple[Any, ...]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        names,
        [
            pytest.param(*combination, marks=() if combination in quick else pytest.mark.full, id=_name(combination))
            for combination in every
        ],
    )


def _name(combination: tuple[Any, ...]) -> str:
    return "-".join(
        _name(value) if isinstance(value, tuple) else getattr(value, "__name__", str(value)) for value in combination
    )
