"""`specextend train-ranker`: fit the sentence ranker to documents with human summaries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from specextend_cli.cli import options
from specextend_cli.cli.options import option
from specextend_cli.errors import InputError, ModelError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from specextend_cli.train.ranker import Example
    from specextend_cli.train.ranker_evaluation import Evaluation, Peer
    from specextend_cli.ui.output import Output

_LEAST = 10  # documents of a file
_DIVISIONS = 3  # into folds: how documents are divided is worth most of a point of ROUGE-2
_PEERS = {"sumy lexrank": "lexrank", "sumy textrank": "textrank"}
_LIBRARIES = {"lightgbm": "lightgbm", "rouge_score": "rouge-score", "nltk": "nltk"}


def train_ranker(
    pairs: Annotated[
        list[Path], option("--pairs", "Documents with summaries: .jsonl[.gz] with text and summary.", "FILE")
    ],
    test: Annotated[
        list[Path] | None, option("--test", "More of the same, to which nothing is fitted: they are measured.", "FILE")
    ] = None,
    output: Annotated[Path, option("--output -o", "Directory for trees.npz and states.npz.", "DIR")] = Path("ranker"),
    model: options.Model = None,
    layer: Annotated[int, option("--layer", "Layers of the target that read; 0: trees only.", "N", min=0)] = 16,
    documents: Annotated[int, option("--documents", "Documents of each source, at most.", "N", min=2)] = 1500,
    most: Annotated[int, option("--states-from", "Documents of each source that the target reads.", "N", min=2)] = 450,
    weights: Annotated[
        list[float] | None, option("--weight", "What each file weighs for the states. Default: the same.", "X")
    ] = None,
    force: options.Force = False,
    offline: options.Offline = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit the sentence ranker to documents with human summaries, and measure it by kind of text.

    A line's source (key "source", else the file) counts as much as any other; for the states every file does, and each
    source within it. Documents with a source are measured by rankers fitted without that source, others by folds.

    Example:
      specextend train-ranker --pairs reports.jsonl.gz -o my-ranker
    """
    for path in (*pairs, *(test or ())):
        if not path.is_file():
            raise UsageError(f"there is no file {path}", fix="--pairs FILE.jsonl")
    if weights is not None and (len(weights) != len(pairs) or min(weights) <= 0):
        raise UsageError(
            f"there are {len(pairs)} files and {len(weights)} weights", fix="one --weight for each --pairs"
        )
    _check_libraries()

    from specextend_cli.summarize.ranking.ranker import STATES, TREES
    from specextend_cli.train import ranker
    from specextend_cli.train.ranker_evaluation import Evaluation, evaluate, guided_scores, held_out_guided
    from specextend_cli.ui.destination import refuse_existing
    from specextend_cli.ui.output import Output

    trees_file, states_file, terminal = output / TREES, output / STATES, Output(quiet=quiet)
    refuse_existing((trees_file, states_file) if layer else (trees_file,), force=force)
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is not a directory", fix="--output DIR")
    factors = weights or [1.0] * len(pairs)
    examples = [one for path, x in zip(pairs, factors, strict=True) for one in _examples(terminal, path, documents, x)]
    unseen = [one for path in test or () for one in _examples(terminal, path, documents)]
    output.mkdir(parents=True, exist_ok=True)
    trees = ranker.fit_trees(examples)
    ranker.save_trees(trees, trees_file)
    terminal.status(f"{trees_file} is written")
    scores = ranker.held_out_scores(examples)
    read, of_unseen = list(range(len(examples))), {"extractive": [trees.predict(one.values) for one in unseen]}
    if layer:
        read = _some(examples, most)
        unseen = [unseen[i] for i in _some(unseen, most)]
        _read(terminal, [*(examples[i] for i in read), *unseen], model, layer)
        fitted = ranker.fit_states([examples[i] for i in read], [scores[i] for i in read], layer)
        ranker.save_states(fitted, states_file)
        terminal.status(f"{states_file} is written")
        tree_scores = [trees.predict(one.values) for one in unseen]
        guided = [guided_scores(one, score, fitted) for one, score in zip(unseen, tree_scores, strict=True)]
        of_unseen = {"extractive": tree_scores, "guided": guided}
    peers, measured = _peers(), list[Evaluation]()
    known = [examples[i] for i in read]
    for division in range(_DIVISIONS):
        scores = ranker.held_out_scores(examples, division) if division else scores
        ours = {"extractive": [scores[i] for i in read]}
        if layer:
            ours["guided"] = held_out_guided(known, ours["extractive"], layer, division)
        measured.append(evaluate(known, ours, peers))
        terminal.status(f"division {division + 1} of {_DIVISIONS} into folds is measured")
    held = f"held out, means of {_DIVISIONS} divisions into {ranker.FOLDS} folds"
    _show(terminal, held, Evaluation.mean_of(measured))
    if unseen:
        _show(terminal, "nothing was fitted to these", evaluate(unseen, of_unseen, peers))


def _examples(terminal: Output, path: Path, most: int, weight: float = 1.0) -> list[Example]:
    """The documents of a file with features and labels, at most so many of each source, which share its weight."""
    from concurrent.futures import ProcessPoolExecutor  # takes as long as a twentieth of --help

    from specextend_cli.train import ranker

    chosen = ranker.of_each_source(ranker.read_pairs(path), most)
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(ranker.example, chosen, chunksize=8))
    if len(found) < _LEAST:
        why = f"{len(found)} documents are too few for five folds"
        raise InputError(f"{path} cannot be used", why=why, fix=f"{_LEAST} documents at least in each file")
    sources = len({one.source for one in found})
    for one in found:
        one.weight = weight / sources
    terminal.status(f"{path}: {len(found)} documents" + (f" of {sources} sources" if sources > 1 else ""))
    return found


def _some(examples: Sequence[Example], most: int) -> list[int]:
    """The numbers of the first `most` documents of each source."""
    seen: dict[str, int] = {}
    chosen = []
    for number, one in enumerate(examples):
        seen[one.source] = seen.get(one.source, 0) + 1
        if seen[one.source] <= most:
            chosen.append(number)
    return chosen


def _show(terminal: Output, title: str, evaluation: Evaluation) -> None:
    """The figures by source, and those over all sources."""
    from specextend_cli.train.ranker_evaluation import by_source, over_all

    ours = "guided" if "guided" in evaluation.rouge else "extractive"
    gain = f"gain of {ours} in ROUGE-2"
    terminal.show(_table(f"ROUGE-2 / -L: {title}", ("source", "documents", *evaluation.rouge), by_source(evaluation)))
    columns = ("method", "ROUGE-1", "ROUGE-2", "ROUGE-L", gain, "in ROUGE-L")
    terminal.show(_table(f"Means over sources: {title}; 95% intervals", columns, over_all(evaluation, ours)))


def _table(title: str, columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> Table:
    from specextend_cli.ui.tables import table

    made = table(*columns, numbers=columns[1:])
    made.title = title
    for row in rows:
        made.add_row(*row)
    return made


def _peers() -> dict[str, Peer]:
    """The best classics of sumy, where it is installed, over all sentences of a document; and an upper bound."""
    if find_spec("sumy") is None:
        return {}
    from specextend_cli.bench.extractive_baselines import ORACLE, summary
    from specextend_cli.summarize.sentences import spans

    @cache
    def summarized(method: str, text: str, words: int, reference: str) -> str:
        lines = [" ".join(text[start:end].split()) for start, end in spans(text)]
        return summary(method, lines, words, reference, "")

    def peer(method: str, one: Example, words: int) -> str:
        return summarized(method, one.document.text, words, one.summary)

    return {name: partial(peer, method) for name, method in (_PEERS | {ORACLE: ORACLE}).items()}


def _check_libraries() -> None:
    """ModelError where what fits the trees, or what measures the labels, is not installed."""
    absent = [package for module, package in _LIBRARIES.items() if find_spec(module) is None]
    if absent:
        why = f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed"
        raise ModelError("the sentence ranker cannot be fitted", why=why, fix="pip install 'specextend-cli[train]'")


def _read(output: Output, examples: Sequence[Example], model: str | None, layer: int) -> None:
    """Have the target read the examples, which keep its states."""
    import numpy as np

    from specextend_cli.runtime.loading_thread import result_of
    from specextend_cli.summarize.ranking.ranker import ReadingPlan, read_states
    from specextend_cli.summarize.summarizer import Options, Summarizer

    with Summarizer(Options(**options.given(preset=options.named(model)))) as summarizer:
        reader, encoder, prefix, size = result_of(summarizer.reader(layer))
        for number, one in enumerate(examples, 1):
            plan = ReadingPlan(one.document.text, one.sentences, encoder, size)
            one.states = np.concatenate([result_of(read_states(reader, plan, chunk, prefix)) for chunk in plan.chunks])
            if number % 10 == 0:
                output.status(f"{number} of {len(examples)} documents are read")
