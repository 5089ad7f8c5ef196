"""How near do summaries come to references? This program, LexRank and the documents' beginnings, by ROUGE.

    python -m tests.scripts.quality DATA.jsonl[.gz] … [--methods extractive abstractive lexrank lead] [--docs 20]
        [--words document] [--model PRESET] [--json]

Data: lines of `{"id", "text", "summary"}`, perhaps with a "source"; else the file's name is the source. The summaries
of a document are to have equally many words: the reference's, from 30 to 300, or with `--words document` a third of the
document's, from 30 to 307; all are cut to the shortest. ROUGE: F-measures with stemming, 0 to 100. Differences: every
source has the same weight, whatever its number of documents; 95% intervals by a paired bootstrap over the documents of
each source. Needs rouge-score and sumy.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np

from specextend_cli.bench.formats import Cell, Interval, Table, dumps, to_markdown
from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.models.preset import DEFAULT
from specextend_cli.models.prompt_templates import Mode
from specextend_cli.runtime.options import Engine
from specextend_cli.summarize.request import Request
from specextend_cli.summarize.sentences import spans
from specextend_cli.summarize.summarizer import Summarizer

LEAST, MOST, MOST_OF_REFERENCE, PART = 30, 307, 300, 3
RESAMPLES = 10_000
ROUGE = {"ROUGE-1": "rouge1", "ROUGE-2": "rouge2", "ROUGE-L": "rougeL"}
_WORD = re.compile(r"[^\W\d_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}-][^\W\d_]+)*")


@dataclass(frozen=True)
class Item:
    """A document, its reference summary, where it comes from, and how many words its summaries are to have."""

    document: Document
    reference: str
    source: str
    words: int

    @cached_property
    def sentences(self) -> list[str]:
        """Those of paragraphs, without headings; of everything if there are no paragraphs."""
        text = self.document.text
        parts = [text[block.start : block.end] for block in self.document.blocks if block.kind == "paragraph"]
        return [part[start:end] for part in parts or [text] for start, end in spans(part)]


def load(files: Sequence[Path], docs: int | None, words: str) -> Iterator[Item]:
    """The first `docs` documents of each source that have a reference."""
    taken: dict[str, int] = {}
    for file in files:
        data = file.read_bytes()
        for line in (gzip.decompress(data) if file.suffix == ".gz" else data).decode().split("\n"):
            row = json.loads(line) if line.strip() else {}
            source = str(row.get("source") or file.name.partition(".")[0])
            if not row.get("summary") or taken.get(source, 0) == docs:
                continue
            taken[source] = taken.get(source, 0) + 1
            document = read_bytes(str(row["id"]), row["text"].encode())
            of_reference = min(MOST_OF_REFERENCE, len(row["summary"].split()))
            wanted = of_reference if words == "reference" else min(MOST, len(document.text.split()) // PART)
            yield Item(document, row["summary"], source, max(wanted, LEAST))


class Ours:
    """This program's summaries in one mode. Models are loaded once, whatever the numbers of words."""

    def __init__(self, summarizer: Summarizer, mode: Mode) -> None:
        self._summarizer, self._mode = summarizer, mode

    def __call__(self, item: Item) -> str:
        """The summary."""
        return self._summarizer.summarize(item.document, Request(length=item.words, mode=self._mode)).text


def lead(item: Item) -> str:
    """The beginning."""
    return " ".join(item.sentences)


def lexrank(item: Item) -> str:
    """The best sentences by sumy's LexRank, in document order, with our boundaries of sentences and words."""
    dom, tokenizer = import_module("sumy.models.dom"), SimpleNamespace(to_words=lambda text: tuple(_WORD.findall(text)))
    document = dom.ObjectDocumentModel([dom.Paragraph([dom.Sentence(text, tokenizer) for text in item.sentences])])
    ranked: list[int] = []

    def keep(infos: Sequence[Any]) -> Sequence[Any]:  # sumy calls it with all sentences, the best first
        ranked.extend(info.order for info in infos)
        return infos

    _lexrank()(document, keep)
    chosen, room = dict[int, str](), item.words
    for number in dict.fromkeys([*ranked, *range(len(item.sentences))]):
        if room > 0:
            chosen[number] = first_words(item.sentences[number], room)
            room -= len(chosen[number].split())
    return "\n".join(chosen[number] for number in sorted(chosen))


@cache
def _lexrank() -> Any:
    summarizer = import_module("sumy.summarizers.lex_rank").LexRankSummarizer(
        import_module("sumy.nlp.stemmers").Stemmer("english")
    )
    summarizer.stop_words = import_module("sumy.utils").get_stop_words("english")
    return summarizer


def first_words(text: str, words: int) -> str:
    """The first `words` words, with the white space between them."""
    ends = [match.end() for match in re.finditer(r"\S+", text)][:words]
    return text[: ends[-1]] if ends else ""


def scored(items: Sequence[Item], methods: Mapping[str, Callable[[Item], str]]) -> dict[str, list[dict[str, float]]]:
    """The figures of each method on each document, all texts of a document cut to the shortest."""
    scorer = import_module("rouge_score.rouge_scorer").RougeScorer(list(ROUGE.values()), use_stemmer=True)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    for number, item in enumerate(items, 1):
        texts = {name: method(item) for name, method in methods.items()}
        words = min(item.words, *(len(text.split()) for text in texts.values()))
        print(f"[{number}/{len(items)}] {item.document.name}: {words} words", file=sys.stderr, flush=True)
        for name, text in texts.items():
            rouge = scorer.score(item.reference, first_words(text, words))
            figures = {title: 100 * rouge[key].fmeasure for title, key in ROUGE.items()}
            found[name].append({"words": words, **figures})
    return found


def difference(ours: Sequence[float], theirs: Sequence[float], sources: Sequence[str]) -> Interval:
    """The mean over sources of the mean differences, with its 95% interval; one document has none."""
    values = np.array(ours) - np.array(theirs)
    groups = [values[np.array(sources) == source] for source in dict.fromkeys(sources)]
    mean, random = fmean(float(group.mean()) for group in groups), np.random.default_rng(0)
    if len(values) == 1:
        return Interval(mean, None, None)
    draws = [group[random.integers(0, len(group), (RESAMPLES, len(group)))].mean(1) for group in groups]
    low, high = np.quantile(np.mean(draws, 0), (0.025, 0.975))
    return Interval(mean, float(low), float(high))


def tables(items: Sequence[Item], scores: Mapping[str, list[dict[str, float]]]) -> Iterator[Table]:
    """Means by method, by source, and the differences of the first method from the others."""
    sources = [item.source for item in items]
    means: list[dict[str, Cell]] = []
    for source in (*dict.fromkeys(sources), *(["all"] if len(set(sources)) > 1 else [])):
        at = [number for number, own in enumerate(sources) if source in (own, "all")]
        for method, of in scores.items():
            figures = {name: fmean(of[number][name] for number in at) for name in ("words", *ROUGE)}
            means.append({"source": source, "documents": len(at), "method": method, **figures})
    yield Table.of("Means over documents", means)
    first, *others = scores
    rows: list[dict[str, Cell]] = []
    for other in others:
        pairs = {name: [[of[name] for of in scores[method]] for method in (first, other)] for name in ROUGE}
        told = {name: _signed(difference(*pair, sources)) for name, pair in pairs.items()}
        rows.append({"method": first, "minus": other, **told})
    if rows:
        yield Table.of("Differences", rows, "With 95% intervals.")


def _signed(found: Interval) -> str:
    interval = "" if found.low is None else f" ({found.low:+.2f} to {found.high:+.2f})"
    return f"{found.value:+.2f}{interval}"


def main() -> None:
    modes = get_args(Mode)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    methods = (*modes, "lexrank", "lead")
    parser.add_argument("--methods", nargs="+", choices=methods, default=["extractive", "lexrank", "lead"])
    parser.add_argument("--docs", type=int, help="documents of each source; all by default")
    parser.add_argument("--words", choices=("reference", "document"), default="reference")
    parser.add_argument("--model", default=DEFAULT)
    parser.add_argument("--json", action="store_true", help="the scores of every document")
    given = parser.parse_args()
    items = list(load(given.data, given.docs, given.words))
    if not items:
        parser.error("no document has a reference summary")
    known: dict[str, Callable[[Item], str]] = {"lexrank": lexrank, "lead": lead}
    summarizer = Summarizer(Engine(model=given.model), cache=False)
    scores = scored(items, {name: known.get(name) or Ours(summarizer, name) for name in given.methods})
    if given.json:
        print(dumps({"documents": [item.document.name for item in items], "scores": scores}))
    else:
        print("\n".join(map(to_markdown, tables(items, scores))), end="")


if __name__ == "__main__":
    main()
