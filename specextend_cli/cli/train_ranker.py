"""`specextend train-ranker`: fit the sentence ranker to documents with human summaries."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from specextend_cli.cli import options
from specextend_cli.cli.options import option
from specextend_cli.errors import InputError, ModelError, UsageError
from specextend_cli.ui.overwriting import refuse_existing

if TYPE_CHECKING:
    from rich.table import Table

    from specextend_cli.train.ranker import Example
    from specextend_cli.train.ranker_evaluation import Evaluation, Peer
    from specextend_cli.ui.streams import Output

_LEAST = 10  # documents of a file
_DIVISIONS = 3  # into folds: how documents are divided is worth most of a point of ROUGE-2
_LIBRARIES = {"lightgbm": "lightgbm", "rouge_score": "rouge-score", "nltk": "nltk"}


def train_ranker(
    pairs: Annotated[
        list[Path], option("--pairs", "Documents with summaries: .jsonl[.gz] with text and summary.", "FILE")
    ],
    output: Annotated[Path, option("--output -o", "Directory for trees.npz and states.npz.", "DIR")] = Path("ranker"),
    model: options.Model = None,
    layer: Annotated[int, option("--layer", "Layers of the target that read; 0: trees only.", "N", min=0)] = 16,
    most: Annotated[int, option("--states-from", "Documents of each file that the target reads.", "N", min=2)] = 450,
    force: options.Force = False,
    offline: options.Offline = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit the sentence ranker to documents with human summaries.

    Every file counts the same. The trees need no model; the states are those of the preset's target.

    Example:
      specextend train-ranker --pairs reports.jsonl.gz -o my-ranker
    """
    for path in pairs:
        if not path.is_file():
            raise UsageError(f"there is no file {path}", fix="--pairs FILE.jsonl")
    _check_libraries()

    from specextend_cli.summarize.ranking.ranker import STATES, TREES
    from specextend_cli.train import ranker
    from specextend_cli.train.ranker_evaluation import Evaluation, evaluate, held_out_guided
    from specextend_cli.ui.streams import Output

    trees, states, terminal = output / TREES, output / STATES, Output(quiet=quiet)
    refuse_existing((trees, states) if layer else (trees,), force=force)
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is not a directory", fix="--output DIR")
    examples: list[Example] = []
    chosen: list[int] = []
    sizes: list[int] = []
    for path in pairs:
        with ProcessPoolExecutor() as pool:
            found = list(pool.map(ranker.example, *zip(*ranker.read_pairs(path), strict=True), chunksize=8))
        if len(found) < _LEAST:
            why = f"{len(found)} documents are too few for five folds"
            raise InputError(f"{path} cannot be used", why=why, fix=f"{_LEAST} documents at least in each file")
        for one in found:
            one.weight = 1 / len(found)
        chosen += range(len(examples), len(examples) + min(len(found), most))
        examples += found
        sizes.append(len(found))
        terminal.status(f"{path}: {len(found)} documents")
    output.mkdir(parents=True, exist_ok=True)
    ranker.save_trees(ranker.fit_trees(examples), trees)
    terminal.status(f"{trees} is written")
    if layer == 0:
        return
    scores = ranker.held_out_scores(examples)
    read, known = [examples[i] for i in chosen], [scores[i] for i in chosen]
    _read(terminal, read, model, layer)
    ranker.save_states(ranker.fit_states(read, known, layer), states)
    terminal.status(f"{states} is written")
    measured: dict[Path, list[Evaluation]] = {path: [] for path in pairs}
    peers = _peers()
    for division in range(_DIVISIONS):
        if division:
            scores = ranker.held_out_scores(examples, division)
            known = [scores[i] for i in chosen]
        guided, start = held_out_guided(read, known, layer, division), 0
        for path, size in zip(pairs, sizes, strict=True):
            part = slice(start, start + min(size, most))
            start = part.stop
            measured[path].append(evaluate(read[part], known[part], guided[part], peers))
        terminal.status(f"division {division + 1} of {_DIVISIONS} into folds is measured")
    for path, evaluations in measured.items():
        terminal.show(_table(path, Evaluation.mean_of(evaluations)))


def _table(path: Path, evaluation: Evaluation) -> Table:
    """The figures of one file, over documents that were not fitted."""
    from rich.table import Table

    from specextend_cli.train.ranker import FOLDS
    from specextend_cli.train.ranker_evaluation import rows

    title = (
        f"{path.name}: held out, means of {_DIVISIONS} divisions into {FOLDS} folds; guided mode's gain, 95% intervals"
    )
    table = Table(title=title)
    for column in ("method", "ROUGE-1", "ROUGE-2", "ROUGE-L", "gain in ROUGE-2", "in ROUGE-L"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for row in rows(evaluation):
        table.add_row(*row)
    return table


def _peers() -> dict[str, Peer]:
    """sumy's methods, where it is installed, over all sentences of a document."""
    if find_spec("sumy") is None:
        return {}
    from specextend_cli.bench.extractive_baselines import SUMY, summary
    from specextend_cli.summarize.sentences import spans

    @cache
    def summarized(method: str, text: str, words: int) -> str:
        lines = [" ".join(text[start:end].split()) for start, end in spans(text)]
        return summary(method, lines, words, "", "")

    def peer(method: str, one: Example, words: int) -> str:
        return summarized(method, one.document.text, words)

    return {f"sumy {method}": partial(peer, method) for method in SUMY}


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
    from specextend_cli.summarize.ranking.reading import ReadingPlan, read_states
    from specextend_cli.summarize.summarizer import Options, Summarizer

    with Summarizer(Options(**options.given(preset=options.named(model)))) as summarizer:
        reader, encoder, prefix, size = result_of(summarizer.reader(layer))
        for number, one in enumerate(examples, 1):
            plan = ReadingPlan(one.document.text, one.sentences, encoder, size)
            one.states = np.concatenate([result_of(read_states(reader, plan, chunk, prefix)) for chunk in plan.chunks])
            if number % 10 == 0:
                output.status(f"{number} of {len(examples)} documents are read")
