"""What may import what: packages point one way, there are no circles, and the engine needs little."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests import ROOT

PACKAGE = ROOT / "specextend_cli"

ALLOWED = {
    "cli": {"ui", "bench", "summarize", "runtime", "documents", "models", "engine"},
    "ui": {"bench", "summarize", "runtime", "documents", "models", "engine"},
    "bench": {"summarize", "runtime", "documents", "models", "engine"},
    "summarize": {"runtime", "documents", "models", "engine"},
    "runtime": {"models", "engine"},
    "documents": set(),
    "models": {"engine"},
    "engine": set(),
}
"""From the top down. A package imports from those below it; `ui` reads the events of `summarize` and the engine."""


@cache
def sources() -> dict[str, Path]:
    """The package's modules by their dotted names below it; a package's `__init__` by the package's name."""
    files = {file: file.relative_to(PACKAGE).with_suffix("").parts for file in PACKAGE.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): file for file, parts in files.items()}


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the dotted name of everything imported, also inside functions and for types alone."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


@cache
def arrows() -> dict[tuple[str, str], str]:
    """The package's imports of its own modules: (importing, imported) to the file and line."""
    found = {}
    for module, file in sources().items():
        for line, name in imports(file):
            top, _, below = name.partition(".")
            if top == PACKAGE.name:
                imported = below if below in sources() else below.rpartition(".")[0]
                found[module, imported] = f"{file.relative_to(ROOT)}:{line}"
    return found


def siblings(importing: str, imported: str) -> tuple[str, str]:
    """The two modules, or packages that hold them, which lie in one directory; an `__init__` lies in its package's."""
    paths = []
    for module in (importing, imported):
        is_init = sources()[module].name == "__init__.py"
        paths.append([*filter(None, module.split(".")), *["__init__"] * is_init])
    shared = next(n for n, (a, b) in enumerate(zip(*paths, strict=False)) if a != b)
    one, other = (".".join(path[: shared + 1]) for path in paths)
    return one, other


def circle(edges: set[tuple[str, str]]) -> list[str]:
    """A circle among siblings, if these imports make one."""
    graph: dict[str, set[str]] = {}
    for importing, imported in edges:
        if importing != imported:
            one, other = siblings(importing, imported)
            graph.setdefault(one, set()).add(other)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_packages_point_one_way() -> None:
    assert {module.split(".")[0] for module in sources() if "." in module} == set(ALLOWED)
    wrong = []
    for (module, imported), place in arrows().items():
        package, other = module.split(".")[0], imported.split(".")[0]
        if package in ALLOWED and other in ALLOWED and other not in {package, *ALLOWED[package]}:
            wrong.append(f"{place} imports {other}")
    assert not wrong


def test_there_are_no_circles_of_imports_between_modules_or_packages() -> None:
    assert not circle(set(arrows()))


def test_the_engine_needs_torch_transformers_safetensors_and_numpy_only() -> None:
    allowed = {"torch", "transformers", "safetensors", "numpy", "flash_attn", "triton"} | sys.stdlib_module_names
    ours = (f"{PACKAGE.name}.engine", f"{PACKAGE.name}.errors")
    for file in (PACKAGE / "engine").rglob("*.py"):
        for line, name in imports(file):
            assert name.startswith(ours) or name.split(".")[0] in allowed, f"{file.name}:{line}: {name}"
