"""How often splitters are right about labelled places where a sentence seems to end: ours, and libraries installed.

    python -m tests.scripts.sentence_splitters          # pip install pysbd syntok blingfire sentencex nupunkt yasbd-lib

A line of the data is a text in which "|" follows what ends a sentence and "~" what ends none. Half of the lines,
`breaks_held_out.txt`, were looked at by nobody while rules were changed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec

from specextend_cli.summarize.sentences import spans
from tests import ROOT

Splitter = Callable[[str], set[int]]
DATA = {name: ROOT / "tests" / "summarize" / f"breaks_{name}.txt" for name in ("tuned", "held_out")}


def labelled(line: str) -> tuple[str, list[tuple[int, bool]]]:
    """A line's text, and the places in it with whether a sentence ends there; the text's own end is none of them."""
    text, places = "", list[tuple[int, bool]]()
    for character in line:
        if character in "~|":
            places.append((len(text), character == "|"))
        else:
            text += character
    return text, [place for place in places if place[0] < len(text)]


def ours(text: str) -> set[int]:
    """Where our sentences end."""
    return {end for _, end in spans(text)}


def right(splitter: Splitter, name: str) -> list[tuple[str, int, bool, bool]]:
    """(text, place, whether a sentence ends there, whether the splitter says so) of every place of a data set."""
    found = []
    for line in filter(None, DATA[name].read_text(encoding="utf-8").split("\n")):
        text, places = labelled(line)
        ends = splitter(text)
        found += [(text, at, label, (at in ends) == label) for at, label in places]
    return found


def libraries() -> dict[str, Splitter]:
    """Those that are installed."""
    ways: dict[str, Callable[[], Splitter]] = {
        "pysbd": lambda: _located(import_module("pysbd").Segmenter(language="en", clean=False).segment),
        "syntok": _syntok,
        "blingfire": lambda: _located(lambda text: import_module("blingfire").text_to_sentences(text).split("\n")),
        "sentencex": lambda: _located(lambda text: import_module("sentencex").segment("en", text)),
        "nupunkt": lambda: _located(import_module("nupunkt").sent_tokenize),
        "yasbd": lambda: _located(import_module("yasbd").BoundaryDetector("en").segment),
    }
    return {name: make() for name, make in ways.items() if find_spec(name) is not None}


def _syntok() -> Splitter:
    analyze = import_module("syntok.segmenter").analyze

    def ends(text: str) -> set[int]:
        last = (sentence[-1] for paragraph in analyze(text) for sentence in paragraph)
        return {token.offset + len(token.value) for token in last}

    return ends


def _located(segment: Callable[[str], Iterable[str]]) -> Splitter:
    """Where sentences end that a library gives as text, with other white space than there was."""

    def ends(text: str) -> set[int]:
        at, found = 0, set[int]()
        for sentence in segment(text):
            words = r"\s*".join(map(re.escape, sentence.split()))
            if words and (match := re.compile(words).search(text, at)):
                at = match.end()
                found.add(at)
        return found

    return ends


def main() -> None:
    """Print a table."""
    print("| | " + " | ".join(f"{name}: no break / break / all" for name in DATA) + " | seconds |")
    for name, splitter in {"ours": ours, **libraries()}.items():
        cells, began = [], time.perf_counter()
        for data in DATA:
            found = right(splitter, data)
            shares = []
            for labels in ((False,), (True,), (False, True)):
                of = [good for _, _, label, good in found if label in labels]
                shares.append(f"{sum(of) / len(of):.3f}")
            cells.append(" / ".join(shares))
        print(f"| {name} | {' | '.join(cells)} | {time.perf_counter() - began:.2f} |")


if __name__ == "__main__":
    main()
