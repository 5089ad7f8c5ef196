"""`bench --suite quality`: summaries of equal numbers of words, by this program and by extractive baselines, scored.

ROUGE against reference summaries, with paired bootstrap intervals of differences, and faults that ROUGE does not see.
Every summary is appended to a file when it is made; one that is there is not made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch

from specextend_cli.bench import extractive_baselines as baselines
from specextend_cli.bench.machine import describe
from specextend_cli.bench.quality import boilerplate, dangling, repeated, rouge
from specextend_cli.bench.statistics import Interval
from specextend_cli.bench.storage import Journal
from specextend_cli.bench.tables import Cell, Experiment, Format, Table, render
from specextend_cli.bench.texts import Source
from specextend_cli.documents.document import Document
from specextend_cli.documents.read import read_bytes
from specextend_cli.errors import InputError, UsageError
from specextend_cli.models.presets import load_preset
from specextend_cli.models.prompt_templates import Mode
from specextend_cli.summarize import summarizer as library
from specextend_cli.summarize.factcheck import FactSource
from specextend_cli.summarize.request import SummaryRequest
from specextend_cli.summarize.sentences import spans

Words: TypeAlias = Literal["document", "reference"]
Scores: TypeAlias = dict[str, list[dict[str, float]]]  # figures by method, for every document

MODES = ("default", *get_args(Mode))
MOST, PART, LEAST = 307, 3, 30  # words of a summary, "document": a third of the document's, within these bounds
MOST_OF_REFERENCE, SHORT = 300, 200
"""Words of a summary, "reference": the reference's, 30 to 300. The default if their median is below `SHORT`."""
RESAMPLES = 10_000
_ROUGE = ("ROUGE-1", "ROUGE-2", "ROUGE-L")
_COLUMNS = ("words", *_ROUGE, "boilerplate", "repeated", "dangling", "unsupported", "seconds")
_NOTE = (
    "Means over documents, at equal numbers of words. ROUGE: F-measures with stemming, 0 to 100. Per summary: "
    "boilerplate, sentences on methodology, auditing standards, contact, ordering, thanks; repeated, pairs of "
    "sentences that share more than 70% of their terms; dangling, sentences that begin with This, They, However, For "
    "example and the like, and do not follow their predecessor in the document; unsupported, numbers, dates and names "
    "that the document does not have. Seconds per document, without loading models. The oracle chooses sentences by "
    "the reference: an upper bound, not a method."
)


@dataclass(frozen=True)
class Settings:
    """`methods`: None is all. `words`: None is by the references. The request of `options` is not used.

    Documents are the first `docs` (None: all) of each of `lengths`, which are the data set's labels (None: all).
    """

    methods: tuple[str, ...] | None = None
    docs: int | None = None
    lengths: tuple[str, ...] | None = None
    words: Words | None = None
    seed: int = 0
    options: library.Options = field(default_factory=library.Options)


@dataclass(frozen=True)
class Item:
    """A document, its reference summary, the number of words that its summaries are to have, its data set's label."""

    document: Document
    reference: str
    words: int
    label: str = ""

    @cached_property
    def sentences(self) -> list[str]:
        """Those of paragraphs, without headings; of everything if there are no paragraphs."""
        text = self.document.text
        parts = [text[block.start : block.end] for block in self.document.blocks if block.kind == "paragraph"]
        return [part[start:end] for part in parts or [text] for start, end in spans(part)]

    @cached_property
    def facts(self) -> FactSource:
        """What the document has in the way of numbers, dates and names."""
        return FactSource(self.document.text)


@dataclass(frozen=True)
class Row:
    """A summary as it was made, before it is cut. `key` is a digest of everything it depends on."""

    key: str
    document: str
    method: str
    words: int
    text: str
    seconds: float


class Rows(Journal[Row]):
    """The file of finished summaries, and those `known` by key. InputError if it is damaged."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        super().__init__(path, Row)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("wb" if fresh else "ab").close()
            self.known = {row.key: row for row in self.read()}
        except OSError as error:
            raise UsageError(f"results cannot be kept in {path.parent}", why=str(error), fix="-o DIRECTORY") from error
        except ValueError as error:
            raise InputError(f"{path} is damaged", why=str(error), fix="--fresh, or another directory") from error

    def add(self, item: Row) -> None:
        """See `Journal`."""
        super().add(item)
        self.known[item.key] = item


@dataclass(frozen=True)
class Result:
    """`facts`: machine and settings; `documents`: names, in the order of scores."""

    experiment: Experiment
    facts: dict[str, str]
    documents: tuple[str, ...]
    scores: Scores

    def render(self, kind: Format) -> str:
        """The result as text; only JSON has every document's scores."""
        return render(self.experiment, kind, self.facts, documents=self.documents, scores=self.scores)


class Ours:
    """This program's summaries. Models are loaded once, whatever the numbers of words."""

    def __init__(self, options: library.Options) -> None:
        self._options = replace(options, cache=False)
        self._generator: Any = None
        self.preset = load_preset(options.preset)

    @cached_property
    def version(self) -> str:
        """A digest of the preset, the options and the code of the packages that summarize."""
        root = Path(library.__file__).parents[1]
        packages = ("engine", "models", "runtime", "summarize")
        code = [file.read_bytes() for package in packages for file in sorted((root / package).rglob("*.py"))]
        told = f"{self.preset.model_dump_json()} {self._options}"
        return hashlib.sha256(b"\0".join([told.encode(), *code])).hexdigest()

    def summary(self, method: str, document: Document, words: int) -> tuple[str, float]:
        """The text, and the seconds it took; models are loaded and chunks are planned before."""
        mode: Any = None if method == "default" else method
        request = SummaryRequest(length=words, mode=mode)
        summarizer = library.Summarizer(replace(self._options, request=request))
        summarizer._generator = self._generator
        for _ in summarizer.load():
            pass
        self._generator = summarizer._generator
        summarizer.plan(document)
        began = perf_counter()
        return summarizer.summarize(document).text, perf_counter() - began


def choose(sources: Sequence[Source], settings: Settings) -> tuple[list[Item], Words]:
    """The documents, and what their numbers of words go by. InputError or UsageError if there are none."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        if source.summary and source.summary.strip() and source.text.strip():
            groups.setdefault(source.length.lower(), []).append(source)
    if not groups:
        raise InputError("no document has a reference summary", fix='lines need "text" and "summary"')
    labels = settings.lengths or tuple(groups)
    if unknown := [label for label in labels if label not in groups]:
        known = ", ".join(filter(None, groups)) or "no lengths in the data set"
        raise UsageError(f"--len: no document has the length {unknown[0]!r}", why=f"there are {known}")
    taken = [source for label in labels for source in groups[label][: settings.docs]]
    sizes = [len((source.summary or "").split()) for source in taken]
    kind = settings.words or ("reference" if median(sizes) < SHORT else "document")
    items = []
    for source, size in zip(taken, sizes, strict=True):
        document = read_bytes(source.name, source.text.encode())
        wanted = min(MOST_OF_REFERENCE, size) if kind == "reference" else min(MOST, len(document.text.split()) // PART)
        items.append(Item(document, source.summary or "", max(wanted, LEAST), source.length))
    return items, kind


def run(
    items: Sequence[Item], kind: Words, settings: Settings, rows: Rows, say: Callable[[str], object] = lambda line: None
) -> Result:
    """Make the summaries that are not in `rows`, and score all. `say` gets lines of progress. UsageError: `require`."""
    ours = Ours(settings.options)
    both = () if ours.preset.mode == "extractive" else ("extractive",)
    methods = settings.methods or ("default", *both, *baselines.NAMES)
    require(methods)
    made: dict[tuple[int, str], Row] = {}
    for number, item in enumerate(items):
        for method in methods:
            version = ours.version if method in MODES else baselines.settings(method)
            told = [item.document.name, item.document.text, item.reference, method, item.words, settings.seed, version]
            key = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]
            if key not in rows.known:
                if method in MODES:
                    text, seconds = ours.summary(method, item.document, item.words)
                else:
                    began, seed = perf_counter(), f"{settings.seed} {item.document.name}"
                    text = baselines.summary(method, item.sentences, item.words, item.reference, seed)
                    seconds = perf_counter() - began
                rows.add(Row(key, item.document.name, method, item.words, text, round(seconds, 3)))
                at = f"[{len(made) + 1}/{len(items) * len(methods)}]"
                say(f"{at} {method} · {item.document.name} · {item.words} words · {seconds:.1f} s")
            made[number, method] = rows.known[key]
    say("scoring")
    scores: Scores = {method: [] for method in methods}
    for number, item in enumerate(items):
        words = min(item.words, *(len(made[number, method].text.split()) for method in methods))
        for method in methods:
            row = made[number, method]
            figures = score(baselines.first_words(row.text, words), item)
            scores[method].append({"words": words, **figures, "seconds": row.seconds})
    question = "How do the summaries compare with those of other methods at the same number of words?"
    experiment = Experiment("quality", question, tuple(_tables(scores, settings.seed, [item.label for item in items])))
    return Result(experiment, _facts(items, kind, ours), tuple(item.document.name for item in items), scores)


def require(methods: Sequence[str]) -> None:
    """UsageError for an unknown method, or if a library is missing."""
    if unknown := [name for name in methods if name not in (*MODES, *baselines.NAMES)]:
        raise UsageError(f"there is no method {unknown[0]!r}", fix=f"one of {', '.join((*MODES, *baselines.NAMES))}")
    if find_spec("rouge_score") is None:
        why, fix = "rouge-score is not installed", 'pip install "specextend-cli[bench]"'
        raise UsageError("summaries cannot be scored", why=why, fix=fix)
    baselines.require(methods)


def score(text: str, item: Item) -> dict[str, float]:
    """The columns of the table between words and seconds."""
    sentences = [text[start:end] for start, end in spans(text)]
    figures = (
        *rouge(text, item.reference),
        boilerplate(sentences),
        repeated(sentences),
        dangling(sentences, item.sentences),
        len(item.facts.unsupported(text)),
    )
    return dict(zip(_COLUMNS[1:-1], figures, strict=True))


def difference(
    ours: Sequence[Mapping[str, float]],
    theirs: Sequence[Mapping[str, float]],
    name: str,
    labels: Sequence[str],
    seed: int = 0,
) -> Interval:
    """Our figure `name` minus theirs: the mean over labels of the means over their documents.

    With its 95% paired bootstrap interval, by resampling the documents of each label. One document has none. Where a
    label has one document, nothing goes by labels.
    """
    values = np.array([one[name] - other[name] for one, other in zip(ours, theirs, strict=True)])
    chosen, random = np.array(labels), np.random.default_rng(abs(seed))
    groups = [values[chosen == label] for label in dict.fromkeys(labels)]
    if min(map(len, groups)) == 1:
        groups = [values]
    mean = fmean(float(group.mean()) for group in groups)
    if len(values) == 1:
        return Interval(mean, None, None, 1)
    draws = [group[random.integers(0, len(group), (RESAMPLES, len(group)))].mean(1) for group in groups]
    low, high = np.quantile(np.mean(draws, 0), (0.025, 0.975))
    return Interval(mean, float(low), float(high), len(values))


def _by_label(scores: Scores, labels: Sequence[str]) -> Table:
    """ROUGE-2 and -L of each method on the documents of each label."""
    rows: list[tuple[Cell, ...]] = []
    for label in dict.fromkeys(labels):
        chosen = [number for number, own in enumerate(labels) if own == label]
        means = (
            " / ".join(f"{fmean(of[number][name] for number in chosen):.1f}" for name in _ROUGE[1:])
            for of in scores.values()
        )
        rows.append((label, len(chosen), *means))
    return Table("By length or source", ("documents of", "number", *scores), tuple(rows), "Means of ROUGE-2 / ROUGE-L.")


def _tables(scores: Scores, seed: int, labels: Sequence[str]) -> Iterator[Table]:
    rows: list[tuple[Cell, ...]] = []
    for method, of in scores.items():
        label = f"{method} (upper bound)" if method == baselines.ORACLE else method
        rows.append((label, *(fmean(figures[name] for figures in of) for name in _COLUMNS)))
    yield Table("Summaries", ("method", *_COLUMNS), tuple(rows), _NOTE)
    if len(set(labels)) > 1:
        yield _by_label(scores, labels)
    differences = [
        (one, other, *(_cell(difference(scores[one], scores[other], name, labels, seed)) for name in _ROUGE))
        for one in scores
        for other in scores
        if one in MODES and one != other
    ]
    if differences:
        note = (
            "Each length or source of the data set has the same weight if it has two documents or more. 95% intervals "
            f"by a paired bootstrap of {RESAMPLES:,} resamples of its documents."
        )
        yield Table("Differences", ("method", "minus", *_ROUGE), tuple(differences), note)


def _cell(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.value:+.2f}"
    return f"{interval.value:+.2f} ({interval.low:+.2f} to {interval.high:+.2f})"


def _facts(items: Sequence[Item], kind: Words, ours: Ours) -> dict[str, str]:
    machine = describe(torch.device("cpu"))
    rules = {
        "reference": f"those of the reference, {LEAST} to {MOST_OF_REFERENCE} (--words reference)",
        "document": f"a third of the document's, {LEAST} to {MOST} (--words document)",
    }
    return {
        "documents": str(len(items)),
        "words": rules[kind],
        "preset": f"{ours.preset.name}, mode {ours.preset.mode}",
        "machine": f"{machine.processor}, {machine.threads} threads",
        "software": f"specextend {machine.version}, commit {machine.commit or 'unknown'}, torch {machine.torch}",
    }
