"""What each rule of reading saves: documents with known text, read with one rule after the other switched off.

python -m tests.scripts.reading_rules [--rule NAME] [FOLDER ...]

Read are the made files of `tests/documents/known`, and those of the folders: NAME.json with the truth (sentences,
notes, items, rows, heads, junk) beside NAME.pdf, .docx, .epub or .html. Printed is for each rule how many of them are
lost (-) or found (+) without it, how much junk is left (junk +), and in which files. Nothing is run in another process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from unittest.mock import patch

from specextend_cli.documents.decode import HEAD
from specextend_cli.documents.formats import detect
from specextend_cli.documents.source import Source
from specextend_cli.documents.worker import document_of, parse
from tests.documents.known.other_files import other_files
from tests.documents.known.reportlab_files import reportlab_files
from tests.documents.known.score import MEASURES, Score, Truth, score
from tests.documents.known.story import Known
from tests.documents.known.typst_files import typst_files
from tests.documents.known.weasy_files import weasy_files

PACKAGE = "specextend_cli.documents."
REPAIRS = "cleaning", "_ORDER"
"""Where the repairs of lines are listed, each of which is a rule."""
PARSED: dict[str, bytes] = {}
"""What the parsers said, by the name of the file."""


def same(first: Any, *others: Any, **options: Any) -> Any:
    return first


def same_without_repairs(first: Any, *others: Any, **options: Any) -> Any:
    return first, []


def plain_text(element: Any, *others: Any) -> str:
    return "".join(element.itertext())


def last(*values: Any) -> Any:
    return values[-1]


def result(value: Any) -> Callable[..., Any]:
    return lambda *values, **options: value


class Joined:
    """Joins all words that are divided at line ends."""

    def __init__(self) -> None:
        self.words = Counter[str]()

    def whole(self, head: str, tail: str, sign: str, **options: Any) -> str:
        return head + tail


# Name: the module, what is replaced in it, and by what.
RULES: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "word gaps": ("pdf.lines", "put_spaces", lambda lines: []),
    "invisible": ("pdf.lines", "without_invisible", same_without_repairs),
    "outside of the page": ("pdf.lines", "_outside", result(False)),
    "accents": ("pdf.lines", "put_together", result({})),
    "split by size": ("pdf.lines", "_split_by_size", same),
    "late note marks": ("pdf.lines", "place_late_marks", list),
    "superscripts": ("pdf.lines", "mark_superscripts", lambda glyphs, text: (text, {})),
    "right to left": ("pdf.lines", "order_letters", lambda lines: []),
    "split at jumps": ("pdf.lines", "split_at_jumps", last),
    "cells": ("pdf.lines", "find_cells", result(None)),
    "cells: figures": ("pdf.gaps", "_mark_figures", result(None)),
    "ligatures": ("pdf.lines", "read_ligatures", same),
    "fonts": ("pdf.lines", "is_doubtful", result(False)),
    "floating superscripts": ("pdf.glyphs", "Glyphs.floats", result(False)),
    "forms": ("pdf.read", "read_annotations", result(())),
    "running: counting": ("repairs.running", "_counting", result(())),
    "running: few pages": ("repairs.running", "_repeated", result(())),
    "compounds": ("repairs.hyphens", "compounds", lambda pages: Joined()),
    "formulas: pages": ("html.read", "formula", plain_text),
    "formulas: Word": ("word", "formula", plain_text),
    "numbering": ("word", "Numbering.label", result(None)),
    "note marks (marked up)": ("cleaning", "remove_note_marks", same),
    "article": ("html.read", "outside_of_article", result(frozenset())),
}


def text_of(file: Known, *, keep: bool) -> str:
    """The text of a file, read in this process; `keep`: what its parser says is always the same."""
    with NamedTemporaryFile() as place:
        place.write(file.data)
        place.flush()
        source = Source(file.name, detect(file.data[:HEAD], file.suffix), Path(place.name))
        if not keep:
            return document_of(source, parse(source)).text
        if file.name not in PARSED:
            PARSED[file.name] = pickle.dumps(parse(source))
        return document_of(source, pickle.loads(PARSED[file.name])).text


def repairs() -> Sequence[Callable[..., Any]]:
    functions: Sequence[Callable[..., Any]] = getattr(import_module(PACKAGE + REPAIRS[0]), REPAIRS[1])
    return functions


@contextmanager
def switched_off(rule: str) -> Iterator[None]:
    """A rule ("" for none) does nothing."""
    if rule in RULES:
        module, name, other = RULES[rule]
        with patch(f"{PACKAGE}{module}.{name}", other):
            yield
    else:
        left = tuple(repair for repair in repairs() if repair.__name__ != rule)
        with patch(f"{PACKAGE}{'.'.join(REPAIRS)}", left):
            yield


def folder_files(folder: Path) -> Iterator[Known]:
    allowed = json.loads((folder / "allowed.json").read_text()) if (folder / "allowed.json").exists() else {}
    for path in sorted(path for path in folder.iterdir() if path.suffix in (".pdf", ".docx", ".epub", ".html")):
        found = json.loads(path.with_suffix(".json").read_text())
        truth = Truth(**{one.name: found[one.name] for one in fields(Truth) if one.name in found})
        if counted := allowed.get(path.stem):
            truth.sentences = [text for text, kept in zip(truth.sentences, counted, strict=True) if kept]
        yield Known(folder.name, path.stem, path.suffix, path.read_bytes(), truth)


def concerns(rule: str, file: Known) -> bool:
    """Whether a rule may change a file."""
    module = RULES.get(rule, ("repairs",))[0]
    return module.startswith("repairs") or module.startswith("pdf.") == (file.suffix == ".pdf")


def scores(files: Sequence[Known], rule: str) -> list[Score | None]:
    """The scores of those files that a rule concerns, without the rule."""
    keep = RULES.get(rule, ("repairs",))[0].startswith(("repairs", "cleaning"))
    with switched_off(rule):
        return [score(text_of(file, keep=keep), file.truth) if concerns(rule, file) else None for file in files]


def difference(files: Sequence[Known], before: Sequence[Score | None], after: Sequence[Score | None]) -> str:
    """What changes in all, and the files in which it changes most."""
    total, places = Counter[str](), list[tuple[int, str]]()
    for file, one, other in zip(files, before, after, strict=True):
        found = {name: other.found[name] - one.found[name] for name in (*MEASURES, "junk")} if one and other else {}
        changed = {name: by for name, by in found.items() if by}
        total.update(changed)
        if changed:
            said = " ".join(f"{name} {by:+}" for name, by in changed.items() if name != "ordered" or len(changed) == 1)
            places.append((sum(map(abs, changed.values())), f"{file.producer}-{file.kind} ({said})"))
    if not places:
        return "nothing"
    most = [place for _, place in sorted(places, reverse=True)]
    more = f", {len(most) - 12} more files" if len(most) > 12 else ""
    return f"{' · '.join(f'{name} {by:+}' for name, by in total.items() if by)}\n    {', '.join(most[:12])}{more}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", action="append", help="one rule, as it is named in the output; else all")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    files = [*typst_files(), *weasy_files(), *reportlab_files(), *other_files()]
    files += [file for folder in options.folders for file in folder_files(folder)]
    rules = options.rule or [*(repair.__name__ for repair in repairs()), *RULES]
    before = scores(files, "")
    for producer in dict.fromkeys(file.producer for file in files):
        one = sum(
            (found for file, found in zip(files, before, strict=True) if found and file.producer == producer), Score()
        )
        shares = (f"{name} {one.found[name]}/{one.total[name]}" for name in MEASURES if one.total[name])
        print(f"{producer}: {' · '.join(shares)} · junk {one.found['junk']}", flush=True)
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        for rule, found in zip(rules, pool.imap(partial(scores, files), rules, chunksize=1), strict=True):
            print(f"\n{rule}: {difference(files, before, found)}", flush=True)


if __name__ == "__main__":
    main()
